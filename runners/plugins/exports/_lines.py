"""Common parts of the exports to lm-evaluation-harness and lmms-eval: one task per kind of question, a line per sample."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from qualm.registry import option_label
from qualm.registry.recordings.signals import KEY, pack
from qualm.registry.system.atomic import create_folder
from qualm.runners.plugins.exports import ExportContext, ExportEntry, ExportError, ExportPart, slug
from qualm.runners.plugins.exports._model_names import model_name
from qualm.runners.scoring.measuring.labels import metric_of

Row = dict[str, Any]
Line = Callable[[ExportPart, ExportEntry, Row], tuple[Row, str]]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def document(entry: ExportEntry) -> Row:
    """Return the sample with its references, without the model's answers, as harnesses log it."""
    names = ("sample_id", "image_id", "answer_index", "category", "answerable", "split", "pair_id")
    sample = entry.sample
    fields = {name: sample[name] for name in names}
    own = {"question": entry.question, "choices": entry.choices, "references": entry.references}
    return {**fields, **own, "meta": dict(sample["meta"] or ())}


def target(entry: ExportEntry) -> str:
    """Return the reference as harnesses log it: option index or label, or text; "" without.

    It is the right option's index, or its label if it is answered in words; the reference, or a list of references as Python prints it.
    """
    right = entry.sample["answer_index"]
    if entry.choices:
        return "" if right is None else str(right) if entry.by_numbers else option_label(right)
    return entry.references[0] if len(entry.references) == 1 else str(entry.references) if entry.references else ""


def responses(entry: ExportEntry, sign: int) -> tuple[list[Any], list[Any]]:
    """Return (`resps`, `filtered_resps`): [number, is greedy] for each option, or the texts.

    The number is the option's log-probability times `sign`. Numbers and booleans are text, as both tools write them. An option is
    greedy if its label is the model's text. Of the texts, `filtered_resps` has only the first.
    """
    if not entry.by_numbers:
        texts = [answer["text"] or "" for answer in entry.answers]
        return [texts], [texts[0]]
    numbers = entry.log_probabilities
    assert numbers is not None
    written = entry.answers[0]["text"]
    pairs = [[str(sign * v if v else 0.0), str(written is not None and written.strip() == option_label(i))] for i, v in enumerate(numbers)]
    return [[pair] for pair in pairs], pairs


def _signals(entry: ExportEntry) -> Row:
    but = () if entry.by_numbers else ("text",)
    return {"signals": [pack(answer, but) for answer in (entry.answers[:1] if entry.by_numbers else entry.answers)]}


class HarnessTask:
    """The file of one task in a harness's format, with the means over its lines."""

    def __init__(self, name: str, choices: bool, handle: TextIO) -> None:
        self.name, self.choices, self.handle = name, choices, handle
        self.n = 0
        self.values: dict[str, list[float]] = {}
        self.hashes: list[str] = []
        """Hash of each line's reproducible content."""

    def write(self, row: Row, measured: Mapping[str, float | None], same: str) -> None:
        for name, value in measured.items():
            self.values.setdefault(name, []).extend([] if value is None else [float(value)])
        self.n += 1
        self.hashes.append(same)
        self.handle.write(json.dumps({**row, "metrics": list(measured), **measured}, ensure_ascii=False, allow_nan=False) + "\n")

    def means(self) -> dict[str, float | str]:
        """Return `METRIC,none` -> mean and `METRIC_stderr,none` -> standard error over the lines."""
        summary: dict[str, float | str] = {}
        for name, values in self.values.items():
            if values:
                mean = math.fsum(values) / len(values)
                summary[f"{name},none"] = mean
                spread = math.fsum((v - mean) ** 2 for v in values)
                summary[f"{name}_stderr,none"] = math.sqrt(spread / (len(values) - 1) / len(values)) if len(values) > 1 else "N/A"
        return summary


def write_model(context: ExportContext, model: str, name: Callable[[str], str], line: Line, results_name: str) -> None:
    """Write one model's folder: its tasks' lines, and one file of their results.

    Args:
        name: task -> file name.
        line: (part, entry, row of KEY) -> the line without its metrics, and its part of the task's hash.
        results_name: of the file of results.
    """
    merged: dict[str, Any] = {}
    folder = context.folder / slug(model)
    for part in (p for p in context.parts if p.model == model):
        tasks = _write_tasks(context, part, folder, name, line)
        for key, value in _results(context, part, tasks).items():
            merged[key] = {**merged[key], **value} if isinstance(value, dict) and key in merged else value
    (folder / results_name).write_text(json.dumps(merged, indent=2, ensure_ascii=False), encoding="utf-8", newline="\n")


def _write_tasks(context: ExportContext, part: ExportPart, folder: Path, name: Callable[[str], str], line: Line) -> list[HarnessTask]:
    """Write a file per kind of question (options or open) and return one task per file.

    Raises:
        ExportError: two datasets would share a file.
    """
    create_folder(folder)
    tasks: dict[bool, HarnessTask] = {}
    try:
        for entry in context.entries(part):
            choices = entry.by_numbers
            if not choices and entry.answers[0]["text"] is None:
                context.lose("answers without a text")
                continue
            if choices and len(entry.answers) > 1:
                context.lose("sampled answers to multiple-choice questions", len(entry.answers) - 1)
            if choices not in tasks:
                kind = {True: "choices", False: "open"}[choices]
                task = f"{part.task}_{kind}" if tasks else part.task
                path = folder / name(task)
                if path.exists():
                    raise ExportError(f"{path.name}: two datasets would be called '{task}' there; export one at a time with --dataset")
                tasks[choices] = HarnessTask(task, choices, path.open("w", encoding="utf-8", newline="\n"))
            context.lose("images", int(entry.sample["image_id"] is not None))
            row, same = line(part, entry, {KEY: _signals(entry)})
            tasks[choices].write(row, _metrics(entry), same)
    finally:
        for open_task in tasks.values():
            open_task.handle.close()
    return list(tasks.values())


def _metrics(entry: ExportEntry) -> dict[str, float | None]:
    """Return metric -> value: `acc` if options have log-probabilities, else `rating_JUDGE`s."""
    if entry.by_numbers:
        return {} if entry.correct is None else {"acc": float(entry.correct)}
    return {_escape_commas(f"rating_{judge}"): rating for judge, rating in entry.ratings.items()}


def _escape_commas(name: str) -> str:
    """Return the name with semicolons for commas, which the harnesses read as separators."""
    return name.replace(",", ";")


def _results(context: ExportContext, part: ExportPart, tasks: list[HarnessTask]) -> dict[str, Any]:
    own = part.recorded is None
    ours = {f"{_escape_commas(row['metric'])},none": row["value"] for row in context.scores(part) if row["value"] is not None}
    numbers = ("metric", "value", "low", "high", "n", "n_unscored")
    better = {row["metric"]: context.higher_is_better.get(metric_of(row["metric"])) for row in context.scores(part)}
    higher = {_escape_commas(name): value for name, value in better.items() if f"{_escape_commas(name)},none" in ours}
    return {
        "results": {t.name: {"alias": t.name, "sample_len": t.n, **t.means(), **ours} for t in tasks},
        "group_subtasks": {t.name: [] for t in tasks},
        "configs": {
            t.name: {
                "task": t.name,
                "output_type": "multiple_choice" if t.choices else "generate_until",
                "metric_list": [{"metric": m, "aggregation": "mean", "higher_is_better": True} for m in t.values],
                **({"num_fewshot": part.shots, "repeats": 1} if own else {}),
                "metadata": {"dataset": part.dataset, "variant": part.variant.name, "spec": context.spec, "revision": context.revision},
            }
            for t in tasks
        },
        "versions": {t.name: 1 for t in tasks},
        **({"n-shot": {t.name: part.shots for t in tasks}} if own else {}),
        "higher_is_better": {t.name: {**dict.fromkeys(t.values, True), **higher} for t in tasks},
        "n-samples": {t.name: {"original": t.n, "effective": t.n} for t in tasks},
        "config": {
            "model": str(context.models.get(part.model, {}).get("plugin", "")),
            "model_args": json.dumps(context.models.get(part.model, {}).get("args", {}), sort_keys=True),
            **({"gen_kwargs": json.dumps(dict(context.decoding), sort_keys=True), "random_seed": part.seed} if own else {}),
        },
        "git_hash": context.revision,
        **({"date": context.time.timestamp()} if own else {}),
        "task_hashes": {t.name: sha256("".join(t.hashes)) for t in tasks},
        "model_source": "qualm",
        "model_name": model_name(part.model, context.models.get(part.model, {})).id,
        KEY: {"scores": {t.name: [{k: row[k] for k in numbers} for row in context.scores(part)] for t in tasks}},
    }
