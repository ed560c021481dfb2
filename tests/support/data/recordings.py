"""Recordings as other tools write them, small and by hand: fields and shapes are those of lm-evaluation-harness 0.4.13, lmms-eval 0.7.3,
VLMEvalKit (commit e8e78f0) and inspect_ai 0.3.285."""

import base64
import csv
import io
import json
import zipfile
from pathlib import Path

import PIL.Image

CAPITALS = ["Lima", "Oslo", "Rome"]


def png(colour="red", side=8) -> bytes:
    data = io.BytesIO()
    PIL.Image.new("RGB", (side, side), colour).save(data, "PNG")
    return data.getvalue()


def leh_open(doc_id, question, target, *texts, filter="none", **more):
    return {
        "doc_id": doc_id, "doc": {"question": question, "answer": target, "subject": "geography", "level": 3}, "target": target,
        "arguments": {"gen_args_0": {"arg_0": f"Q: {question}\nA:", "arg_1": {"until": ["\n"], "do_sample": False}}},
        "resps": [list(texts)], "filtered_resps": [texts[0]], "filter": filter, "metrics": ["exact_match"],
        "doc_hash": "d", "prompt_hash": "p", "target_hash": "t", "exact_match": float(texts[0] == target), **more,
    }  # fmt: skip


def leh_choice(doc_id, question, choices, gold, numbers, **more):
    acc = float(max(range(len(numbers)), key=numbers.__getitem__) == gold)
    return {
        "doc_id": doc_id, "doc": {"question": question, "choices": choices}, "target": str(gold),
        "arguments": {f"gen_args_{i}": {"arg_0": f"{question}\nAnswer:", "arg_1": f" {c}"} for i, c in enumerate(choices)},
        "resps": [[[str(v), "False"]] for v in numbers], "filtered_resps": [[str(v), "False"] for v in numbers], "filter": "none",
        "metrics": ["acc"], "doc_hash": "d", "prompt_hash": "p", "target_hash": "t", "acc": acc, **more,
    }  # fmt: skip


def lines(path: Path, *rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8")
    return path


def leh(folder: Path, *rows, task="capitals", run="my__model", date="2026-03-01T10-11-12.345678") -> Path:
    return lines(folder / run / f"samples_{task}_{date}.jsonl", *rows)


def lmms(folder: Path, *rows, task="capitals", run="my__model", date="20260301_101112") -> Path:
    return lines(folder / run / f"{date}_samples_{task}.jsonl", *rows)


def lmms_row(doc_id, question, target, filtered, **more):
    row = {"doc_id": doc_id, "target": target, "filtered_resps": filtered, "token_counts": [None], "doc_hash": "d"}
    return {**row, "exact_match": 1.0, "input": f"{question}\nAnswer briefly.", **more}


def tsv(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]), delimiter="\t", quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    return path


def vek_row(index, prediction=None, **more):
    row = {"index": index, "question": f"What is in picture {index}?", "A": "a cat", "B": "a dog", "answer": "B", "category": "animals"}
    return {**row, "split": "dev", **({} if prediction is None else {"prediction": prediction}), **more}


def xlsx(path: Path, rows: list[dict]) -> Path:
    from openpyxl import Workbook

    path.parent.mkdir(parents=True, exist_ok=True)
    book = Workbook()
    book.active.append(list(rows[0]))
    for row in rows:
        book.active.append(list(row.values()))
    book.save(path)
    return path


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def inspect_sample(name, question, target, text, epoch=1, logprobs=None, image=None, **more):
    content = question if image is None else [{"type": "image", "image": image, "detail": "auto"}, {"type": "text", "text": question}]
    user = {"id": "u", "content": content, "role": "user", "source": "input"}
    reply = {"id": "r", "content": text, "role": "assistant", "source": "generate", "model": "mockllm/model"}
    choice = {"message": reply, "stop_reason": "stop"}
    if logprobs is not None:
        choice["logprobs"] = {"content": [{"token": "x", "logprob": v} for v in logprobs]}
    return {
        "id": name, "epoch": epoch, "input": question if image is None else [user], "target": target, "messages": [user, reply],
        "output": {"model": "mockllm/model", "choices": [choice], "completion": text},
        "scores": {"match": {"value": "C", "answer": text}}, "metadata": {"category": "geography"}, "store": {}, "events": [],
        "model_usage": {}, "attachments": {}, **more,
    }  # fmt: skip


def inspect_header(task="capitals", model="mockllm/model"):
    spec = {"task": task, "model": model, "created": "2026-03-01T10:11:12+00:00", "eval_id": "E1", "run_id": "R1", "task_id": "T1"}
    return {"version": 2, "status": "success", "eval": {**spec, "dataset": {"samples": 2}, "config": {"epochs": 1}}, "plan": {}}


def inspect_json(path: Path, *samples, **header) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**inspect_header(**header), "samples": list(samples)}), encoding="utf-8")
    return path


def inspect_eval(path: Path, *samples, **header) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for sample in samples:
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
        archive.writestr("header.json", json.dumps(inspect_header(**header)))
    return path
