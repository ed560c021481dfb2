"""Warnings on score tables: many unscored answers, no value, a collapse. For terminal and report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from qualm.registry.plugins import registry
from qualm.registry.sample import CLEAN, MACRO
from qualm.runners.scoring.measuring.labels import in_brackets, metric_of, plugin_of
from qualm.runners.scoring.rankings import MIN_GROUPS

Row = Mapping[str, Any]
ALL = "all"
MAX_NAMES = 4
"""Models that a line of the terminal names."""


def unscored_warnings(rows: Iterable[Row], shorten: bool = False) -> list[str]:
    """Return warnings of unscored answers, one per dataset, share, reason and metrics.

    Args:
        rows: of LABELLED_SCORES; those of clean inputs and all questions count.
        shorten: name only the first two of more than MAX_NAMES models.
    """
    metrics_of: dict[tuple[str, str, int, int, str], list[str]] = {}
    for row in rows:
        # With scored rows, `why` of an undefined value is about those and not about the unscored ones.
        about_unscored = row["n_unscored"] and (row["value"] is not None or not row["n"])
        if (row["variant"], row["slice"]) == (CLEAN, ALL) and row.get("why") and about_unscored:
            key = (row["dataset"], row["model"], row["n_unscored"], row["n"] + row["n_unscored"], row["why"])
            metrics_of.setdefault(key, []).append(row["metric"])
    models_of: dict[tuple[str, int, int, str, str], list[str]] = {}
    for (dataset, model, unscored, total, why), metrics in metrics_of.items():
        models_of.setdefault((dataset, unscored, total, why, ", ".join(dict.fromkeys(map(metric_of, metrics)))), []).append(model)
    return [
        f"{dataset}, {_names(models, shorten)}: {_share(unscored, total, ' of each' if len(models) > 1 else '')} not scored "
        f"({metrics}): {why}"
        for (dataset, unscored, total, why, metrics), models in models_of.items()
    ]


def _names(models: Sequence[str], shorten: bool) -> str:
    if not shorten or len(models) <= MAX_NAMES:
        return ", ".join(models)
    return f"{len(models)} models, such as {models[0]} and {models[1]}; the report names all"


def _join_labels(labels: Iterable[str]) -> str:
    """Return metric labels joined by commas; those of one metric share its brackets."""
    settings_of: dict[str, list[str]] = {}
    for label in labels:
        setting = in_brackets(label)
        settings_of.setdefault(metric_of(label), []).extend([setting] if setting else [])
    return ", ".join(name + (f"[{', '.join(settings)}]" if settings else "") for name, settings in settings_of.items())


def collapse_warnings(rows: Iterable[Row]) -> list[str]:
    """Return a warning for each model and dataset with variants under which it collapses.

    Args:
        rows: of LABELLED_SCORES, of any variant.
    """
    of: dict[tuple[str, str], dict[str, str | None]] = {}
    for row in rows:
        if row["variant"] != CLEAN and row["slice"] == ALL:
            of.setdefault((row["dataset"], row["model"]), {})[row["variant"]] = row.get("collapsed")
    lines = []
    for (dataset, model), reasons in of.items():
        names = [f"{variant} ({why})" for variant, why in reasons.items() if why]
        if names:
            lines.append(
                f"{dataset}, {model}: the model collapses under {len(names):,} of {len(reasons):,} variants, which means over "
                f"perturbations leave out: {'; '.join(names)}"
            )
    return lines


def lexical_warnings(rows: Iterable[Row]) -> list[str]:
    """Return a warning per dataset and model on estimators that compare by words alone.

    Args:
        rows: Of LABELLED_SCORES, of any variant.
    """
    return _of_model(rows, "caution")


def dispute_warnings(rows: Iterable[Row]) -> list[str]:
    """Return a warning per dataset and model whose log disagrees with the judge.

    Args:
        rows: Of LABELLED_SCORES, of any variant.
    """
    return _of_model(rows, "disputed")


def _of_model(rows: Iterable[Row], column: str) -> list[str]:
    texts = {(row["dataset"], row["model"]): row[column] for row in rows if row.get(column)}
    return [f"{dataset}, {model}: {text}" for (dataset, model), text in texts.items()]


def few_group_warnings(rows: Iterable[Row]) -> list[str]:
    """Return a warning per dataset whose ranking has too few groups of questions for a test.

    Args:
        rows: Of LABELLED_SCORES; those of clean inputs and all questions count.
    """
    groups: dict[str, int] = {}
    candidates: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        if (row["variant"], row["slice"]) == (CLEAN, ALL) and row["value"] is not None and row.get("n_groups") is not None:
            groups[row["dataset"]] = max(groups.get(row["dataset"], 0), row["n_groups"])
            candidates.setdefault((row["dataset"], metric_of(row["metric"])), set()).add(f"{row['model']} {row['metric']}")
    several = {dataset for (dataset, _), names in candidates.items() if len(names) > 1}
    return [
        f"{dataset}: no ranking was tested: that needs {MIN_GROUPS} groups of questions, and {n} have a score"
        for dataset, n in groups.items()
        if n < MIN_GROUPS and dataset in several
    ]


def metric_notes(rows: Iterable[Row], intervals: bool = True, shorten: bool = False) -> list[str]:
    """Return sentences on metrics' assumptions, and on values or intervals that are missing.

    A metric of which this holds in several conformal settings has one line, with their names. Macro averages count as all questions. Other
    slices say nothing here: one in which every answer is right has no order of right and wrong ones, and that is no news.

    Args:
        rows: of LABELLED_SCORES.
        intervals: False leaves out what lacks only an interval.
        shorten: name only the first two of more than MAX_NAMES models.
    """
    models_of: dict[tuple[str, str, str, str], list[str]] = {}
    valued: dict[str, None] = {}
    for row in rows:
        if row["value"] is not None:
            valued[plugin_of(row["metric"])] = None
        of_all = row["slice"] == ALL or row["slice"].startswith(MACRO)
        here = row["variant"] == CLEAN and of_all
        if row["value"] is None and row.get("why") and (row["n"] or not row["n_unscored"]) and of_all:
            what, why = "is undefined", row["why"]
        elif intervals and row["value"] is not None and here and row.get("why_no_interval"):
            what, why = "has no interval", row["why_no_interval"]
        else:
            continue
        place = row["dataset"] if row["slice"] == ALL else f"{row['dataset']} {row['slice']}"
        models = models_of.setdefault((place, row["metric"], what, why), [])
        models += [] if row["model"] in models else [row["model"]]
    labels_of: dict[tuple[str, str, str, str, str], list[str]] = {}
    for (dataset, metric, what, why), models in models_of.items():
        labels_of.setdefault((dataset, metric_of(metric), what, _names(models, shorten), why), []).append(metric)
    known = registry.names("metrics")
    assumes = {name: registry.get("metrics", name).declares.get("assumes") for name in valued if name in known}
    return [f"{name} assumes that {condition}" for name, condition in assumes.items() if condition] + [
        f"{dataset}: {_join_labels(labels)} {what} ({who}): {why}" for (dataset, _, what, who, why), labels in labels_of.items()
    ]


def _share(unscored: int, total: int, each: str) -> str:
    return f"all {total:,} answers{each} are" if unscored == total else f"{unscored:,} of {total:,} answers{each} are"
