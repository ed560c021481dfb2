"""Hugging Face's evaluation results: `.eval_results` and a card for each model, and `eval.yaml` for the benchmark's dataset."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from qualm.registry.formats.markdown import code, inline
from qualm.registry.system.atomic import create_folder
from qualm.runners.plugins.exports import ExportContext, ExportError, ExportPart, slug
from qualm.runners.plugins.exports._model_names import model_name
from qualm.runners.scoring.measuring.labels import metric_of, plugin_of

Row = dict[str, Any]
TASK = "visual-question-answering"
"""The hub's name of the task."""
FRAMEWORK = "qualm"
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


def eval_results(
    context: ExportContext, *, repository: str = "", metric: str = "", developer: str = "local", source: str = "", user: str = ""
) -> None:
    """Write for Hugging Face `.eval_results/SPEC.yaml` and a card per model, and `eval.yaml`.

    Each dataset and variant is a task, whose number on the hub's leaderboard is `metric`. `eval.yaml` belongs in the top folder of the
    dataset that `--to hf` writes. `model_card.md` holds the `model-index` with all defined scores, and a table with their intervals.

    Args:
        repository: ORGANISATION/NAME of that dataset on the hub; needed.
        metric: Metric of the leaderboard; by default, for each task, the spec's first one that is better when higher.
        developer: Of models without a public name.
        source: A link to where the results are from, such as a published `qualm view`.
        user: Who ran the benchmark, as the hub knows them; needs `source`.
    """
    if not _REPOSITORY.fullmatch(repository):
        raise ExportError("say which dataset of the hub is the benchmark: -O repository=ORGANISATION/NAME (`--to hf` writes its files)")
    if user and not source:
        raise ExportError("-O user=... needs a link to the results beside it: -O source=https://...")
    if "scores" not in context.tables:
        raise context.without_scores()
    by_task = _choose_metrics(context, metric)
    parts_of: dict[str, list[ExportPart]] = {}
    for part in context.parts:
        parts_of.setdefault(part.model, []).append(part)
    for model, parts in parts_of.items():
        name = model_name(model, context.models.get(model, {}), slug(developer)).id
        folder = context.folder / "models" / Path(*map(slug, name.split("/", 1)))
        rows_of_metric = [(part, row) for part in parts for row in context.scores(part) if row["metric"] == by_task.get(part.task)]
        context.lose("undefined scores", sum(row["value"] is None for _, row in rows_of_metric))
        if entries := [_entry(part, row, repository, source, user) for part, row in rows_of_metric if row["value"] is not None]:
            _write_yaml(folder / ".eval_results" / f"{slug(context.spec)}.yaml", entries)
        _write_card(context, folder, name, parts, repository, source)
    context.counts["scores"] = sum(row["value"] is not None for part in context.parts for row in context.scores(part))
    _write_yaml(context.folder / "benchmark" / "eval.yaml", _benchmark(context, by_task))


def _choose_metrics(context: ExportContext, metric: str) -> dict[str, str]:
    """Return task -> metric label of its leaderboard; ExportError if `metric` does not fit.

    Tasks without one are counted as lost.
    """
    labels_of: dict[str, dict[str, None]] = {}
    for part in context.parts:
        labels_of.setdefault(part.task, {}).update((row["metric"], None) for row in context.scores(part))
    there = list(dict.fromkeys(label for labels in labels_of.values() for label in labels))
    if metric and metric not in [name for label in there for name in (label, metric_of(label))]:
        raise ExportError(f"no metric '{metric}' in these results; there are: {', '.join(there)}")
    if metric and not context.higher_is_better.get(metric_of(metric)):
        raise ExportError(
            f"'{metric}' is not a metric of which higher is better, and a leaderboard of the hub sorts by that; -O metric=... names another"
        )
    better = [name for name, higher in context.higher_is_better.items() if higher]
    by_task: dict[str, str] = {}
    for task, labels in labels_of.items():
        ordered = [label for name in better for label in labels if metric_of(label) == name]
        fitting = [label for label in ordered if metric in ("", label, metric_of(label))]
        if fitting:
            by_task[task] = metric if metric in fitting else fitting[0]
        else:
            context.lose("tasks without a score for a leaderboard")
    return by_task


def _entry(part: ExportPart, row: Row, repository: str, source_url: str, user: str) -> Row:
    """Return one result in the form of `huggingface_hub.EvalResultEntry`."""
    entry: Row = {"dataset": {"id": repository, "task_id": part.task}, "value": row["value"]}
    if source_url:
        entry["source"] = {"url": source_url} | ({"user": user} if user else {})
    source_of_answers = "answers recorded elsewhere" if part.recorded is not None else ""
    entry["notes"] = "; ".join(filter(None, [f"{row['metric']} of {row['n']:,} questions", _interval(row), source_of_answers]))
    return entry


def _interval(row: Row) -> str:
    if row["low"] is None or row["high"] is None:
        return ""
    level = "" if row["level"] is None else f"{row['level']:.0%} "
    return f"{level}interval {row['low']:.3f} to {row['high']:.3f}"


def _benchmark(context: ExportContext, by_task: Mapping[str, str]) -> Row:
    """Return the content of `eval.yaml`: one task per dataset and variant, named as by `hf`."""
    credits = {part.dataset: context.about[part.dataset].title for part in context.parts if part.dataset in context.about}
    about = "; ".join(dict.fromkeys(title for title in credits.values() if title))
    return {
        "name": context.title or context.spec,
        "description": f"What vision-language models answer, and whether they know when they are wrong. Data: {about or 'see the card'}.",
        "evaluation_framework": FRAMEWORK,
        "tasks": [{"id": task, "config": f"data-{task}", "split": "test"} for task in by_task],
    }


def _write_card(context: ExportContext, folder: Path, name: str, parts: list[ExportPart], repository: str, source_url: str) -> None:
    """Write a model's `model-index` for `huggingface_hub.ModelCard`, and a table of scores."""
    results: list[Row] = []
    lines = ["| data | metric | value | interval | questions |", "|---|---|---|---|---|"]
    for part in parts:
        rows = context.scores(part)
        defined = [row for row in rows if row["value"] is not None]
        title = context.about[part.dataset].title if part.dataset in context.about else ""
        if defined:
            results.append(
                {
                    "task": {"type": TASK, "name": context.title or context.spec},
                    "dataset": {"type": repository, "name": title or part.task, "config": f"data-{part.task}", "split": "test"},
                    "metrics": [{"type": plugin_of(row["metric"]), "name": row["metric"], "value": row["value"]} for row in defined],
                    **({"source": {"name": "Qualm", "url": source_url}} if source_url else {}),
                }
            )
        for row in rows:
            value = "undefined" if row["value"] is None else f"{row['value']:.3f}"
            lines.append(f"| {inline(part.task)} | {code(row['metric'])} | {value} | {_interval(row)} | {row['n']:,} |")
    head = {"model-index": [{"name": name, "results": results}]} if results else {}
    create_folder(folder)
    text = f"Results of the benchmark {code(context.spec)}, revision {code(context.revision or 'unknown')}."
    body = ["---", yaml.safe_dump(head, sort_keys=False, allow_unicode=True).rstrip(), "---", "", text, "", *lines, ""]
    (folder / "model_card.md").write_text("\n".join(body), encoding="utf-8", newline="\n")


def _write_yaml(path: Path, content: Any) -> None:
    create_folder(path.parent)
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8", newline="\n")
