"""Inspect: one log per model and dataset, `.eval` or `.json`, that `inspect view` and `read_eval_log` open."""

import base64
import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from qualm import __version__
from qualm.registry import LETTERS
from qualm.registry.formats.picture_lists import split_at_images
from qualm.registry.formats.pictures import media_type
from qualm.registry.recordings.signals import KEY, pack
from qualm.runners.plugins.exports import NO_PROMPT, ExportContext, ExportEntry, ExportPart, ModelInput, slug
from qualm.runners.scoring.measuring.labels import metric_of

Log = dict[str, Any]
Write = Callable[[Log], None]


def inspect(context: ExportContext, *, form: Literal["eval", "json"] = "eval", images: bool = True) -> None:
    """Write Inspect EvalLogs, version 2; epoch 1 is the greedy answer, later ones sampled.

    Each model, dataset and variant has a file. Log-probabilities are under `output.metadata.qualm`: Inspect's own field requires the
    tokens' texts, which are not stored.

    Args:
        form: `eval`, a zip with a member per sample and epoch, Inspect's own default; or `json`.
        images: Include the images, for Inspect's viewer.
    """
    for part in context.parts:
        header = _header(context, part)
        name = "_".join((_clean(context.time.isoformat(timespec="seconds")), _clean(part.task), header["eval"]["task_id"]))
        inputs = ModelInput(part) if images else None
        with {"eval": _as_zip, "json": _as_json}[form](context.folder / f"{name}.{form}", header) as write:
            for entry in context.entries(part):
                shown = inputs.pictures(entry) if inputs is not None else ()
                context.lose("images (`-O images=true` keeps them)", int(inputs is None and entry.sample["image_id"] is not None))
                context.lose(f"{NO_PROMPT}: `input` is the question alone", int(entry.prompt is None))
                for answer in entry.answers:
                    write(_sample(part, entry, answer, shown))


def _header(context: ExportContext, part: ExportPart) -> Log:
    """Return an Inspect log without its samples, which are read once to be counted."""
    ids, epochs, answers = [], 0, 0
    for entry in context.entries(part, again=True):
        ids.append(entry.name)
        epochs = max(epochs, len(entry.answers))
        answers += len(entry.answers)
    created = context.time.isoformat(timespec="seconds")
    about = {"model": part.model, "dataset": part.dataset, "variant": part.variant.name, "spec": context.spec}
    commit, _, dirty = context.revision.partition("-")
    spec: Log = {
        "eval_id": _id("eval", about, created),
        "run_id": _id("run", {"spec": context.spec}, created),
        "created": created,
        "task": part.task,
        "task_id": _id("task", about, created),
        "task_version": 0,
        "task_args": {},
        "dataset": {"name": part.dataset, "samples": len(ids), "sample_ids": ids, "shuffled": False},
        "model": f"qualm/{part.model}",
        "model_args": dict(context.models.get(part.model, {}).get("args", {})),
        "config": {"epochs": max(epochs, 1)},
        "packages": {"qualm": __version__},
        "metadata": {**about, "decoding": dict(context.decoding_of(part)), "recipe": context.recipe},
    }
    if commit:
        spec["revision"] = {"type": "git", "origin": "", "commit": commit, "dirty": bool(dirty)}
    scores = [row for row in context.scores(part) if row["value"] is not None]
    results = {
        "total_samples": answers,  # not questions times epochs: of multiple choice there are no draws, and nothing failed
        "completed_samples": answers,
        "scores": [
            {
                "name": row["metric"],
                "scorer": metric_of(row["metric"]),
                "scored_samples": row["n"],
                "unscored_samples": row["n_unscored"],
                "metrics": {
                    "value": {"name": "value", "value": row["value"], "metadata": {"low": row["low"], "high": row["high"]}},
                },
            }
            for row in scores
        ],
    }
    plan = {
        "name": "plan",
        "steps": [],
        "config": {k: v for k, v in context.decoding_of(part).items() if k in ("temperature", "top_p", "top_k")},
    }
    stats: Log = {"model_usage": {}}  # when the answers were made is kept nowhere
    return {"version": 2, "status": "success", "eval": spec, "plan": plan, "results": results, "stats": stats}


def _sample(part: ExportPart, entry: ExportEntry, answer: Log, images: Sequence[bytes]) -> Log:
    greedy = answer["draw"] == 0
    completion = answer["text"] or ""
    if greedy and answer["text"] is None and entry.predicted is not None:
        completion = _option_label(entry.predicted)
    prompt = entry.prompt if entry.prompt is not None else entry.question
    content: list[Log] = []
    *before, last = split_at_images(prompt, len(images))
    for text, image in zip(before, images, strict=True):
        url = f"data:{media_type(image)};base64,{base64.b64encode(image).decode()}"
        content += [*([{"type": "text", "text": text}] if text else []), {"type": "image", "image": url, "detail": "auto"}]
    content.append({"type": "text", "text": last})
    user = {"id": f"{entry.place}-user", "role": "user", "content": content if images else prompt, "source": "input"}
    model = f"qualm/{part.model}"
    reply = {"id": f"{entry.place}-{answer['draw']}", "role": "assistant", "content": completion, "source": "generate", "model": model}
    right, fields = entry.sample["answer_index"], ("category", "answerable", "split", "pair_id", "image_id")
    log: Log = {
        "id": entry.name,
        "epoch": answer["draw"] + 1,
        "input": [user] if images else prompt,
        "target": (_option_label(right) if right is not None else "") if entry.choices else entry.references,
        "messages": [user, reply],
        "output": {
            "model": model,
            "choices": [{"message": reply, "stop_reason": "unknown"}],
            "completion": completion,
            "metadata": {KEY: pack(answer, ("text",))},
        },
        "metadata": {"question": entry.question, **{k: entry.sample[k] for k in fields}, **dict(entry.sample["meta"] or ())},
    }
    if entry.prompt is None:
        log["metadata"]["input_is"] = "the question alone; the prompt is not known"
    if entry.choices:
        log["choices"] = entry.choices
    scores = {"accuracy": entry.correct} if entry.by_numbers else entry.ratings
    if greedy and scores:
        log["scores"] = {name: {"value": value, "answer": completion} for name, value in scores.items() if value is not None}
    return log


def _option_label(index: int) -> str:
    """Return an option's label in Inspect: its letter; from the 27th option on "1", "2"..."""
    return LETTERS[index] if index < len(LETTERS) else str(index + 1 - len(LETTERS))


@contextmanager
def _as_zip(path: Path, header: Log) -> Iterator[Write]:
    summaries: list[Log] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:

        def put(name: str, value: Any) -> None:
            info = zipfile.ZipInfo(name)  # of no date, so that equal logs have equal bytes
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, _json(value))

        def write(sample: Log) -> None:
            put(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample)
            brief: Log = {k: sample[k] for k in ("id", "epoch", "target", "choices", "scores") if k in sample}
            summaries.append({**brief, "input": sample["metadata"]["question"][:1024], "completed": True, "message_count": 2})

        put("_journal/start.json", {k: header[k] for k in ("version", "eval", "plan")})
        yield write
        put("summaries.json", summaries)
        put("header.json", header)


@contextmanager
def _as_json(path: Path, header: Log) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        first = True

        def write(sample: Log) -> None:
            nonlocal first
            handle.write(("\n" if first else ",\n") + _json(sample))
            first = False

        handle.write(_json(header)[:-1] + ', "samples": [')
        yield write
        handle.write("\n]}\n")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _clean(name: str) -> str:
    return slug(name.replace("_", "-").replace(":", "-").replace("+", "-"))


def _id(kind: str, about: Log, created: str) -> str:
    """Return an id of 22 letters and digits, in Inspect's form, equal for equal logs."""
    number = int.from_bytes(hashlib.sha256(_json([kind, about, created]).encode()).digest())
    alphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    return "".join(alphabet[(number // len(alphabet) ** i) % len(alphabet)] for i in range(22))
