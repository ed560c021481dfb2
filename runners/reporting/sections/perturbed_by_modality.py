"""Effects of the perturbations of one modality, as grids and in sentences.

Wang, Chen, Ahmad, Batmanghelich, Li. Everything said here is a mean over the perturbations of a modality or over the cells of a grid;
the grids below it have each perturbation by itself.
"""

from collections.abc import Iterable
from typing import Any

import polars as pl

from qualm.registry import MODALITIES
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.heat import HeatCell, HeatMap, shade, split_heat_map
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.sections.compared_modalities import NAMES, describe_hallucination_differences
from qualm.runners.reporting.text import aside, between, counted, display_name, number, percent, rounded, visible
from qualm.runners.results.perturbation import ALL, CONSISTENCY, HALLUCINATION, PERTURBED, REFLECTION, UNCHANGED
from qualm.runners.scoring.families import ALPHA
from qualm.runners.scoring.measuring.labels import in_brackets, metric_of, plugin_of
from qualm.runners.scoring.measuring.slices import CHANGED
from qualm.runners.scoring.rankings import BOTH

Row = dict[str, Any]

UNCERTAIN = "auroc_uncertain"
MIDDLE = {PERTURBED: 0.5, REFLECTION: 0.0, CONSISTENCY: 0.0}


def modality_heat_maps(means: pl.DataFrame) -> list[HeatMap]:
    """Return heat maps of estimators by metric and modality, of changed inputs if not all are."""
    by_grid: dict[tuple[str, str], dict[tuple[str, str, str, str], Row]] = {}
    for row in means.iter_rows(named=True):
        metric, estimator = metric_of(row["metric"]), in_brackets(row["metric"])
        if metric.partition("@")[0] in NAMES and estimator:
            by_grid.setdefault((row["model"], row["dataset"]), {})[metric, estimator, row["variant"], row["slice"]] = row
    unchanged = {(r["model"], r["dataset"], r["variant"]): r["value"] for r in means.iter_rows(named=True) if r["metric"] == UNCHANGED}
    order, heats = list(NAMES), []
    for (model, dataset), cells in by_grid.items():
        metrics = sorted(dict.fromkeys(m for m, *_ in cells), key=lambda m: order.index(m.partition("@")[0]))
        estimators = dict.fromkeys(e for _, e, _, _ in cells)
        rows: dict[str, list[HeatCell]] = {estimator: [] for estimator in estimators}
        columns, groups = [], []
        for metric in metrics:
            modalities = [m for m in MODALITIES if any(key[0] == metric and key[2] == m for key in cells)]
            plugin, _, sweep = metric.partition("@")
            most = max([0.2, *(abs(r["value"] - MIDDLE[plugin]) for k, r in cells.items() if k[0] == metric and r["value"] is not None)])
            groups.append((visible(f"{NAMES[plugin]} {sweep}".strip(), 60), len(modalities)))
            for modality in modalities:
                share = unchanged.get((model, dataset, modality))
                columns.append((modality, f"{percent(share, 0)} unchanged" if share else ""))
                for estimator in estimators:
                    over_all, changed = (cells.get((metric, estimator, modality, part)) for part in (ALL, CHANGED))
                    rows[estimator].append(_cell(changed if share and changed else over_all, over_all, MIDDLE[plugin], most))
        caption = f"{visible(model, 60)} · {visible(dataset, 60)}"
        heats += split_heat_map(HeatMap(caption, "Estimator", columns, [(display_name(e), of) for e, of in rows.items()], groups))
    return heats


def comparable_rows(means: pl.DataFrame) -> tuple[list[Row], str]:
    """Return (rows of changed samples, or of all where none are known; note on this or "").

    A perturbation that leaves most inputs as they are looks harmless over all samples, so those whose input is changed count, where
    it is known which these are.
    """
    rows = means.to_dicts()
    changed = {(r["model"], r["dataset"], r["variant"], r["metric"]) for r in rows if r["slice"] == CHANGED}
    chosen = [r for r in rows if r["slice"] == CHANGED or (r["model"], r["dataset"], r["variant"], r["metric"]) not in changed]
    return chosen, say.OVER_CHANGED_SAMPLES if changed else ""


def _cell(row: Row | None, over_all: Row | None, middle: float, most: float) -> HeatCell:
    if row is None:
        return HeatCell("–", title=say.NOT_MEASURED)
    n = counted(row)
    if over_all is not None and over_all is not row and over_all["value"] is not None:
        n += say.OVER_ALL_INPUTS.format(value=rounded(over_all), interval=aside(between(over_all)))
    if row["value"] is None:
        return HeatCell("undefined", title=n, undefined=True)
    heat, tone = shade(row["value"], most, middle)
    return HeatCell(rounded(row), between(row), heat, tone, n)


def describe_detection(results: Report, means: pl.DataFrame) -> str:
    """Return text on the best AUROC at detecting uncertain, else perturbed, questions; or ""."""
    labels = {label for label, about in results.labels.items() if about.plugin == UNCERTAIN}
    clean = results.overall.filter(pl.col("metric").is_in(list(labels)))
    rows = [{**r, "variant": f"on {r['dataset']}"} for r in clean.iter_rows(named=True)]
    if best := _best(rows, results):
        return say.UNCERTAIN_FROM_CLEAR.format(best=best)
    pairs, over = comparable_rows(means)
    if best := _best(r for r in pairs if plugin_of(r["metric"]) == PERTURBED):
        return say.PERTURBED_FROM_CLEAN.format(over=over, best=best)
    return ""


def _best(rows: Iterable[Row], results: Report | None = None) -> str:
    """Return text: each variant's highest value in `rows`, with interval and ties; "" if none."""
    top: dict[str, Row] = {}
    for row in rows:
        if row["value"] is not None and (row["variant"] not in top or row["value"] > top[row["variant"]]["value"]):
            top[row["variant"]] = row
    return "; ".join(f"{visible(v, 60)}: {_named(top[v], results)}" for v in sorted(top, key=_order))


def _named(row: Row, results: Report | None) -> str:
    metric, estimator = metric_of(row["metric"]), in_brackets(row["metric"])
    name = f"{display_name(estimator)} of {visible(row['model'], 40)}, {rounded(row)}"
    if results is None:
        return name + aside(between(row))
    field = results.candidates(BOTH, row["dataset"], metric)
    picked = next((r for r in field if r["candidate"] == f"{row['model']}/{estimator}"), None)
    if picked is None:  # nothing was ranked, or not this one: resamples say too little of it, or its model was asked a part
        return name + aside((ends := between(row)) and say.NOT_SELECTION_ADJUSTED.format(interval=ends))
    ties = sum(r["p_adjusted"] is None or r["p_adjusted"] >= ALPHA for r in field if r is not picked)
    allowed = say.SELECTION_ADJUSTED_OVER.format(interval=between(picked), n=len(field)) if between(picked) else ""
    tied = (say.TIED_WITH_OTHER if ties == 1 else say.TIED_WITH_OTHERS).format(n=ties) if ties else ""
    return name + aside(allowed) + tied


def describe_hallucination(results: Report, means: pl.DataFrame, tests: pl.DataFrame) -> str:
    """Return sentences on right answers turning wrong, by modality and category; "" if none."""
    by: dict[str, list[float]] = {}
    pairs, over = comparable_rows(means)
    for row in pairs:
        if row["metric"].partition("@")[0] == HALLUCINATION and row["value"] is not None:
            by.setdefault(row["variant"], []).append(row["value"])
    if not by:
        return ""
    text = say.BECOME_WRONG.format(over=over) + ", ".join(f"{m} {number(sum(by[m]) / len(by[m]))}" for m in sorted(by, key=_order))
    if kinds := _by_kind(results):
        ranked = sorted(((value, kind) for kind, value in kinds.items()), reverse=True)
        text += say.BY_KIND_OF_QUESTION.format(over=say.BOTH_OVER_ALL_SAMPLES if over else "")
        text += ", ".join(f"{visible(k, 40)} {number(v)}" for v, k in ranked)
    return text + say.MEANS_OVER_PERTURBATIONS.format(of="" if over else say.OF_ALL_QUESTIONS) + describe_hallucination_differences(tests)


def _by_kind(results: Report) -> dict[str, float]:
    """Return {question category: mean hallucination rate over models and perturbations}."""
    labels = [label for label, about in results.labels.items() if about.plugin == HALLUCINATION]
    plugin = {v["variant"]: v["plugin"] for v in results.stage.params.get("variants", ())}
    counts = pl.col("value").is_not_null() & pl.col("collapsed").is_null()
    rows = results.scores.filter(pl.col("metric").is_in(labels) & pl.col("slice").str.starts_with("category=") & counts)
    rows = rows.with_columns(perturbation=pl.col("variant").replace_strict(plugin, default=pl.col("variant")))
    each = rows.group_by("slice", "model", "dataset", "metric", "perturbation", maintain_order=True).agg(pl.col("value").mean())
    means = each.group_by("slice", maintain_order=True).agg(pl.col("value").mean())
    return {part.removeprefix("category="): value for part, value in means.iter_rows()}


def _order(name: str) -> tuple[int, str]:
    return (MODALITIES.index(name) if name in MODALITIES else len(MODALITIES), name)
