"""What perturbations of one modality do on the whole, as grids and in sentences.

Wang, Chen, Ahmad, Batmanghelich, Li. Everything said here is a mean over the perturbations of a modality or over the cells of a grid;
the grids below it have each perturbation by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from qualm.registry import MODALITIES
from qualm.runners.reporting.charts.heat import Heat, HeatCell, shade
from qualm.runners.reporting.load import Results
from qualm.runners.reporting.text import aside, between, counted, number, visible, words
from qualm.runners.scoring.rankings import BOTH
from qualm.runners.studies.perturbation import CONSISTENCY, HALLUCINATION, PERTURBED, REFLECTION

Row = dict[str, Any]

UNCERTAIN = "auroc_uncertain"
NAMES = {PERTURBED: "AUROC, perturbed from clean", REFLECTION: "URR", CONSISTENCY: "HCC"}
MIDDLE = {PERTURBED: 0.5, REFLECTION: 0.0, CONSISTENCY: 0.0}


def grids(means: pl.DataFrame) -> list[Heat]:
    """Estimators against modalities, a grid per model, data set and metric, in the order of the questions."""
    by_grid: dict[tuple[str, ...], dict[tuple[str, str], Row]] = {}
    for row in means.iter_rows(named=True):
        metric, estimator = _split(row["metric"])
        if (plugin := metric.partition("@")[0]) in NAMES and estimator:
            by_grid.setdefault((row["model"], row["dataset"], metric, plugin), {})[estimator, row["variant"]] = row
    heats = []
    order, pairs = list(NAMES), list(dict.fromkeys(key[:2] for key in by_grid))
    for (model, dataset, metric, plugin), cells in sorted(by_grid.items(), key=lambda i: (pairs.index(i[0][:2]), order.index(i[0][3]))):
        modalities = [m for m in MODALITIES if any(variant == m for _, variant in cells)]
        middle = MIDDLE[plugin]
        most = max([0.2, *(abs(r["value"] - middle) for r in cells.values() if r["value"] is not None)])
        rows = [(words(e), [_cell(cells.get((e, m)), middle, most) for m in modalities]) for e in dict.fromkeys(e for e, _ in cells)]
        sweep = visible(metric.partition("@")[2], 60)
        caption = " · ".join(t for t in (NAMES[plugin], visible(model, 60), visible(dataset, 60), sweep) if t)
        heats.append(Heat(caption, "Estimator", [(m, "") for m in modalities], rows))
    return heats


def _cell(row: Row | None, middle: float, most: float) -> HeatCell:
    if row is None:
        return HeatCell("–", title="not measured")
    n = counted(row)
    if row["value"] is None:
        return HeatCell("undefined", title=n, undefined=True)
    heat, tone = shade(row["value"], most, middle)
    return HeatCell(number(row["value"]), between(row), heat, tone, n)


def captured(results: Results, means: pl.DataFrame) -> str:
    """What is captured: by the data sets that say which questions are uncertain, else by telling perturbed inputs from clean ones."""
    labels = {label for label, about in results.labels.items() if about.plugin == UNCERTAIN}
    clean = results.overall.filter(pl.col("metric").is_in(list(labels)))
    rows = [{**r, "variant": f"on {r['dataset']}"} for r in clean.iter_rows(named=True)]
    if best := _best(rows, results):
        return f"Telling uncertain questions from clear ones (AUROC; .5 is chance), the highest are: {best}."
    if best := _best(r for r in means.iter_rows(named=True) if r["metric"].partition("[")[0].partition("@")[0] == PERTURBED):
        return (
            f"Telling perturbed inputs from clean ones (AUROC, mean over perturbations; .5 is chance), the highest are: {best}. "
            "They were picked among many, and their intervals do not allow for that."
        )
    return ""


def _best(rows: Iterable[Row], results: Results | None = None) -> str:
    """The highest value of every variant; with results, an interval that allows for the choice and how many are not told from it."""
    top: dict[str, Row] = {}
    for row in rows:
        if row["value"] is not None and (row["variant"] not in top or row["value"] > top[row["variant"]]["value"]):
            top[row["variant"]] = row
    return "; ".join(f"{visible(v, 60)}: {_named(top[v], results)}" for v in sorted(top, key=_order))


def _named(row: Row, results: Results | None) -> str:
    metric, estimator = _split(row["metric"])
    name = f"{words(estimator)} of {visible(row['model'], 40)}, {number(row['value'])}"
    if results is None:
        return name + aside(between(row))
    field = results.candidates(BOTH, row["dataset"], metric)
    if not field:
        return name + aside(between(row))
    picked = next(r for r in field if r["candidate"] == f"{row['model']}/{estimator}")
    ties = sum(r["may_be_best"] for r in field) - 1
    allowed = f"{between(picked)}, allowing for the choice among {len(field):,}" if between(picked) else ""
    return name + aside(allowed) + (f", not told apart from {ties:,} others" if ties else "")


def leaning(means: pl.DataFrame) -> str:
    """Mean reaction to each modality, and the estimator that leans most towards one."""
    rates: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in means.iter_rows(named=True):
        metric, _ = _split(row["metric"])
        if metric.partition("@")[0] == REFLECTION and row["value"] is not None and row["variant"] in MODALITIES:
            rates.setdefault((row["model"], row["dataset"], row["metric"]), {})[row["variant"]] = row["value"]
    modalities = [m for m in MODALITIES if any(m in of for of in rates.values())]
    if len(modalities) < 2:
        return ""
    each = {m: [of[m] for of in rates.values() if m in of] for m in modalities}
    text = "Mean URR over estimators: " + ", ".join(f"{m} {number(sum(v) / len(v))}" for m, v in each.items()) + ". "
    (model, dataset, metric), of = max(rates.items(), key=lambda item: max(item[1].values()) - min(item[1].values()))
    high, low = max(of, key=lambda m: of[m]), min(of, key=lambda m: of[m])
    where = f"{words(_split(metric)[1])} ({visible(model, 40)} on {visible(dataset, 40)})"
    return text + f"Most one-sided: {where}, {high} {number(of[high])}, {low} {number(of[low])}."


def hallucinated(results: Results, means: pl.DataFrame) -> str:
    """How often right answers become wrong, by modality and by kind of question."""
    by: dict[str, list[float]] = {}
    for row in means.iter_rows(named=True):
        if row["metric"].partition("@")[0] == HALLUCINATION and row["value"] is not None:
            by.setdefault(row["variant"], []).append(row["value"])
    if not by:
        return ""
    text = "Answers that were right become wrong: " + ", ".join(
        f"{m} {number(sum(v) / len(v))}" for m, v in sorted(by.items(), key=lambda i: _order(i[0]))
    )
    kinds: dict[str, list[float]] = {}
    labels = [label for label, about in results.labels.items() if about.plugin == HALLUCINATION]
    for row in results.scores.filter(pl.col("metric").is_in(labels) & pl.col("slice").str.starts_with("category=")).iter_rows(named=True):
        if row["value"] is not None:
            kinds.setdefault(row["slice"].removeprefix("category="), []).append(row["value"])
    if kinds:
        ranked = sorted(((sum(v) / len(v), k) for k, v in kinds.items()), reverse=True)
        text += "; by kind of question: " + ", ".join(f"{visible(k, 40)} {number(v)}" for v, k in ranked)
    return text + " (means over perturbations, of all questions). "


def _split(label: str) -> tuple[str, str]:
    """`metric[estimator]` -> its two parts."""
    metric, _, rest = label.partition("[")
    return metric, rest.removesuffix("]")


def _order(name: str) -> tuple[int, str]:
    return (MODALITIES.index(name) if name in MODALITIES else len(MODALITIES), name)
