"""Recordings as other tools write them, small and by hand: fields and shapes are those of lm-evaluation-harness 0.4.13, lmms-eval 0.7.3,
VLMEvalKit (commit e8e78f0), inspect_ai 0.3.285, lighteval (commit 3fd1526), HELM (commit 63754d0) and OpenCompass (commit a5acc4b)."""

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


def lighteval_row(name, query, choices, gold, text=(), logprobs=(), images=None, response=None, **specific):
    """`asdict` of lighteval's Detail."""
    doc = {
        "query": query, "choices": list(choices), "gold_index": gold, "instruction": None, "specific": specific or {"subject": None},
        "images": [{"bytes": data, "path": None} for data in images] if images else None, "id": name, "task_name": "capitals|0",
    }  # fmt: skip
    tokens = [[1] * len(t.split()) for t in text] or [[1] for _ in choices]
    answer = {
        "input": f"<user>{query}", "input_tokens": [1, 2], "text": list(text), "output_tokens": tokens, "text_post_processed": None,
        "reasonings": [], "logprobs": list(logprobs), "argmax_logits_eq_gold": [], "truncated_tokens_count": 0, **(response or {}),
    }  # fmt: skip
    return {"doc": doc, "metric": {"acc": 1.0}, "model_response": answer}


def lighteval(
    folder: Path, *rows, task="capitals|0", model="org/model", date="2026-03-01T10-11-12.345678", names=("doc", "model_response")
):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "details" / model / date / f"details_{task}_{date}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    renamed = dict(zip(("doc", "model_response"), names, strict=True))
    pq.write_table(pa.Table.from_pylist([{renamed.get(k, k): v for k, v in row.items()} for row in rows]), path)
    return path


def helm_instance(name, text, references, image=None, **more):
    """Input, and references of which those with True are right, as `asdict_without_nones` writes them."""
    given = {"text": text}
    if image:
        media = [{"content_type": "image/png", "location": image}, {"content_type": "text/plain", "text": text}]
        given = {"text": "", "multimedia_content": {"media_objects": media}}
    listed = [{"output": {"text": t}, "tags": ["correct"] if right else []} for t, right in references]
    return {"id": name, "input": given, "references": listed, "split": "test", **more}


def helm_state(instance, *texts, logprobs=None, trial=0, mapping=None, **more):
    tokens = [{"text": f" {word}", "logprob": v} for word, v in zip(texts[0].split(), logprobs, strict=False)] if logprobs else []
    completions = [{"text": text, "logprob": 0.0, "tokens": tokens} for text in texts]
    request = {"model": "openai/gpt", "prompt": f"Question: {instance['input']['text']}"}
    state = {
        "instance": instance, "train_trial_index": trial, "request": request,
        "result": {"success": True, "embedding": [], "completions": completions, "cached": False}, "num_train_instances": 0,
    }  # fmt: skip
    return {**state, **({"output_mapping": mapping} if mapping else {}), **more}


def helm_option(instance, index, tokens, **more):
    """A request that scores one option: the prompt's tokens and the option's, echoed."""
    completion = {"text": "".join(t for t, _ in tokens), "logprob": 0.0, "tokens": [{"text": t, "logprob": v} for t, v in tokens]}
    result = {"success": True, "embedding": [], "completions": [completion], "cached": False}
    return {"instance": instance, "reference_index": index, "request_mode": "original", "train_trial_index": 0, "result": result, **more}


def helm(folder: Path, *states, run="capitals:subject=peru,model=openai_gpt", suite="v1", method="generation") -> Path:
    path = folder / suite / run / "scenario_state.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    adapter = {"method": method, "model": "openai/gpt", "model_deployment": "openai/gpt-2026"}
    path.write_text(json.dumps({"adapter_spec": adapter, "request_states": list(states)}, indent=2), encoding="utf-8")
    return path


def opencompass_entry(question, prediction, gold=None, **more):
    prompt = [{"role": "HUMAN", "prompt": question}]
    return {"origin_prompt": prompt, "prediction": prediction, **({"gold": gold} if gold else {}), **more}


def opencompass(folder: Path, *entries, data="capitals", model="my-model", kind="predictions") -> Path:
    path = folder / kind / model / f"{data}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({str(i): e for i, e in enumerate(entries)}, indent=4), encoding="utf-8")
    return path


def eee_line(name, question, reference, *answers, choices=None, metadata=None, **more):
    """A line of Every Eval Ever's instance-level schema 0.3."""
    attributed = {"turn_idx": 0, "source": "output.raw", "extracted_value": "x", "extraction_method": "exact_match", "is_terminal": True}
    return {
        "schema_version": "0.3.0", "evaluation_id": "capitals/org/m/1767225600", "model_id": "org/m", "evaluation_name": "capitals",
        "sample_id": name, "sample_hash": None, "interaction_type": "single_turn", "output": {"raw": list(answers)},
        "input": {"raw": question, "formatted": f"Q: {question}", "reference": [reference], "choices": choices},
        "answer_attribution": [attributed], "evaluation": {"score": 1.0, "is_correct": True}, "metadata": metadata, **more,
    }  # fmt: skip


def eee(folder: Path, *rows, uuid="f3a1c0de-4b2e-4c1a-9f6d-1b7e5a2c8d40", model="org/m") -> Path:
    return lines(folder / "data" / "capitals" / model / f"{uuid}_samples.jsonl", *rows)
