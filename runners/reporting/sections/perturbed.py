"""What perturbations do: which makes which estimator react, whether that warns of wrong answers, where uncertainty comes from.

Drawn for specs with perturbations. The three questions of VLM-UQBench (Wang, Chen, Ahmad, Batmanghelich, Li) are answered first, in
a sentence each from the tables below them.
"""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from qualm.registry import CLEAN, MODALITIES
from qualm.registry.sample import ATTRIBUTIONS, BLAMES, RANK_STABILITY, SCORES
from qualm.runners.reporting.charts.heat import SURE, Heat, HeatCell, grouped, shade, stars
from qualm.runners.reporting.load import Results
from qualm.runners.reporting.sections.answers import read_frame
from qualm.runners.reporting.sections.by_modality import NAMES, grids
from qualm.runners.reporting.sections.data_sets import Sheet
from qualm.runners.reporting.sections.gallery import gallery
from qualm.runners.reporting.sections.research_questions import UNASKED, answers
from qualm.runners.reporting.sections.shifts import coverage, sweeps
from qualm.runners.reporting.sections.tested import TITLES, Tested, read_tested
from qualm.runners.reporting.text import aside, between, counted, number, percent, titled, visible, words
from qualm.runners.scoring.cells import NO_REFERENCE
from qualm.runners.studies.attribution import UNDECIDED
from qualm.runners.studies.perturbation import HALLUCINATION

MOST = 40
"""Grids of one kind; beyond them the page would grow without being read."""
MOST_ROWS = 60


def perturbed(results: Results) -> dict[str, Any] | None:
    """The section; None for a spec without perturbations, or with none of what it shows."""
    variants = results.stage.params.get("variants")
    if not variants:
        return None
    about = {v["variant"]: v for v in variants}
    order = sorted(about, key=lambda v: (MODALITIES.index(about[v]["modality"]), list(about).index(v)))
    unscored = [v for v in order if v in results.stage.params.get("unscored", ())]
    right = [v for v in order if v not in unscored]
    urr, hcc = (results.plots.get(name, pl.DataFrame()) for name in ("urr", "hcc"))
    hcc = hcc if hcc.is_empty() else hcc.filter(~pl.col("variant").is_in(unscored))
    tested = read_tested(results)
    attributions = read_frame(results.stage.inputs.get("attributions"), ATTRIBUTIONS)
    agreement = read_frame(results.stage.inputs.get("blames"), BLAMES)
    means = read_frame(results.stage.inputs.get("modality_scores"), SCORES)
    drawn = {
        "modalities": grids(means),
        "urr": _heats(urr, order, about, "tie_rate", "ties", 1.0),
        "hcc": _heats(hcc, right, about, "hallucination_rate", "became wrong", _widest(hcc)),
        "kinds": kinds(results, right, about, tested),
    }
    content = {
        "gallery": gallery(results),
        "answers": answers(results, means, urr, hcc, attributions, agreement),
        **{name: heats[:MOST] for name, heats in drawn.items()},
        "tests": tested.sheet(order, about),
        "blame": [_attribution_grid(attributions, model) for model in attributions["model"].unique(maintain_order=True)],
        "blamed": _agreement_sheet(agreement, results),
        "stability": _stability(read_frame(results.stage.inputs.get("rank_stability"), RANK_STABILITY), results),
        "means": _means(means, results),
        "sweeps": sweeps(results),
        "coverage": coverage(results, order),
    }
    if not any(content.values()):
        return None
    rest = {name: _rest(len(heats), MOST, "grids", results.stage.inputs.get(ALL[name])) for name, heats in drawn.items()}
    return {**content, "rest": rest, "unasked": UNASKED, "unscored": _unscored(unscored)}


ALL = {"modalities": "modality_scores", "urr": "urr", "hcc": "hcc", "kinds": "scores"}
"""Which input has everything that a kind of grid shows."""


def _rest(there: int, limit: int, what: str, path: str | None) -> str:
    """What is not on the page, and where it is; empty where everything is."""
    if there <= limit:
        return ""
    where = f" All of them are in {visible(path, 200)}." if path else ""
    return f"The first {limit:,} of {there:,} {what} are shown here.{where}"


def _unscored(variants: list[str]) -> str:
    """Which perturbations ask another question, so that right and wrong mean nothing under them."""
    if not variants:
        return ""
    names = ", ".join(visible(v, 60) for v in variants)
    return f"Left out: {names}, under which right and wrong are undefined ({NO_REFERENCE})."


def _column(variant: str, about: dict[str, Any]) -> tuple[str, str]:
    return words(about[variant]["plugin"]), visible(variant.partition("@")[2], 60)


def _widest(frame: pl.DataFrame) -> float:
    """The most extreme coefficient, at least 0.2, so that noise around 0 does not look like much."""
    values = [abs(v) for v in frame["value"].to_list() if v is not None and math.isfinite(v)] if not frame.is_empty() else []
    return float(max([0.2, *values]))


def _heats(frame: pl.DataFrame, order: list[str], about: dict[str, Any], beside: str, label: str, most: float) -> list[Heat]:
    """A grid per model, dataset and metric."""
    if frame.is_empty():
        return []
    heats = []
    for (model, dataset, metric), part in frame.group_by("model", "dataset", "metric", maintain_order=True):
        cells = {(r["estimator"], r["variant"]): r for r in part.iter_rows(named=True)}
        variants = [v for v in order if any(k[1] == v for k in cells)]
        names = list(dict.fromkeys(k[0] for k in cells))
        rows = [(words(e), [_cell(cells.get((e, v)), beside, label, most) for v in variants]) for e in names]
        sweep = str(metric).partition("@")[2]
        caption = " · ".join(visible(t, 60) for t in (model, dataset, sweep) if t)
        heads = [_column(v, about) for v in variants]
        heats.append(Heat(caption, "Estimator", heads, rows, grouped([about[v]["modality"] for v in variants])))
    return heats


def _cell(row: dict[str, Any] | None, beside: str, label: str, most: float) -> HeatCell:
    if row is None:
        return HeatCell("–", title="not measured")
    n = counted(row)
    other = f"{label} {number(row[beside])}" if row[beside] is not None else ""
    if row["value"] is None:
        why = visible(row["why"] or "undefined", 80)
        return HeatCell("undefined", why, title="; ".join(t for t in (why, other, n) if t), undefined=True)
    heat, tone = shade(row["value"], most)
    p = row["p_adjusted"]
    interval = between(row)
    title = [interval, other, n, "" if p is None else f"p = {number(p, 4)} corrected"]
    small = f"{label} {number(row[beside])}" if beside == "tie_rate" and (row[beside] or 0) >= 0.1 else interval
    return HeatCell(number(row["value"]), small, heat, tone, "; ".join(t for t in title if t), p is not None and p < SURE, mark=stars(p))


def kinds(results: Results, order: list[str], about: dict[str, Any], tested: Tested) -> list[Heat]:
    """Hallucination rate by type of question and perturbation: the paper's Table 5."""
    labels = [t for t, a in results.labels.items() if a.plugin == HALLUCINATION]
    rows = results.scores.filter(
        pl.col("metric").is_in(labels) & ((pl.col("slice") == "all") | pl.col("slice").str.starts_with("category="))
    )
    heats = []
    for (model, dataset, metric), part in rows.group_by("model", "dataset", "metric", maintain_order=True):
        cells = {(r["slice"], r["variant"]): r for r in part.iter_rows(named=True)}
        variants = [v for v in order if ("all", v) in cells]
        most = max([0.05, *(r["value"] for (_, v), r in cells.items() if r["value"] is not None and v in variants)])
        p = tested.of(str(model), str(dataset), str(metric))
        body = []
        for name in sorted(dict.fromkeys(k[0] for k in cells), key=lambda s: (s == "all", s)):
            title = "all questions" if name == "all" else visible(name.removeprefix("category="), 60)
            body.append((title, [_rate(cells.get((name, v)), most, p.get((name, v))) for v in variants]))
        caption = " · ".join(visible(t, 60) for t in (model, dataset, str(metric).partition("@")[2]) if t)
        heats.append(Heat(caption, "Kind", [_column(v, about) for v in variants], body, grouped([about[v]["modality"] for v in variants])))
    return heats


def _rate(row: dict[str, Any] | None, most: float, p: float | None) -> HeatCell:
    if row is None or row["value"] is None:
        return HeatCell("undefined" if row else "–", title=f"n = {row['n']:,}" if row else "not measured", undefined=row is not None)
    heat, _ = shade(row["value"], most)
    title = counted(row) + ("" if p is None else f"; p = {number(p, 4)} corrected")
    return HeatCell(number(row["value"]), between(row), heat, "down", title, p is not None and p < SURE, mark=stars(p))


def _attribution_grid(frame: pl.DataFrame, model: str) -> Heat:
    """Rows: estimators; columns: the modality attributed, by what is known of the samples. A confusion matrix where something is."""
    part = frame.filter(pl.col("model") == model)
    part = part.with_columns(
        known=pl.when(pl.col("truth").is_null()).then(pl.lit("unknown: ") + pl.col("dataset")).otherwise(pl.col("truth"))
    )
    truths = sorted(part["known"].unique().to_list(), key=lambda t: ((*MODALITIES, CLEAN).index(t) if t in (*MODALITIES, CLEAN) else 9, t))
    names = [m for m in (*MODALITIES, UNDECIDED) if m == UNDECIDED or part[m].is_not_null().any()]
    counts = {(r["estimator"], r["known"], r["blamed"]): r["len"] for r in part.group_by("estimator", "known", "blamed").len().to_dicts()}
    rows = []
    for estimator in part["estimator"].unique(maintain_order=True).to_list():
        cells = []
        for truth in truths:
            total = sum(counts.get((estimator, truth, b), 0) for b in names)
            cells += [_share(counts.get((estimator, truth, b), 0), total, b == truth) for b in names]
        rows.append((words(estimator), cells))
    groups = [(visible(t, 60), len(names)) for t in truths]
    return Heat(visible(model, 60), "Estimator", [(name, "") for _ in truths for name in names], rows, groups)


def _share(count: int, total: int, right: bool) -> HeatCell:
    if not total:
        return HeatCell("undefined", "no change", title="no sample has a change of uncertainty under two modalities", undefined=True)
    return HeatCell(percent(count / total, 0), "", shade(count / total, 1.0)[0], "up", f"{count:,} of {total:,}", right)


def _agreement_sheet(agreement: pl.DataFrame, results: Results) -> Sheet | None:
    scored = agreement.filter(pl.col("n") > 0).sort("accuracy", descending=True, maintain_order=True).to_dicts()
    if not scored:
        return None
    header = ["model", "estimator", "right ↑ (interval)", "right of those decided", "most frequent", "undecided", "samples"]
    rows = [
        [
            visible(r["model"], 60),
            words(r["estimator"]),
            number(r["accuracy"]) + aside(between(r)),
            number(r["accuracy_decided"]),
            number(r["floor"]),
            f"{r['n_undecided']:,}",
            f"{r['n']:,}",
        ]
        for r in scored[:MOST_ROWS]
    ]
    rest = _rest(len(scored), MOST_ROWS, "rows", results.stage.inputs.get("blames"))
    note = f"Undecided counts as wrong; only where the data say which it is. {rest}".strip()
    return Sheet("How often attribution names the right modality", header, rows, note=note)


def _stability(frame: pl.DataFrame, results: Results) -> Sheet | None:
    if frame.is_empty():
        return None
    rows = []
    for r in frame.head(MOST_ROWS).to_dicts():
        one, other = (f"{visible(r['model_' + s], 40)} on {visible(r['dataset_' + s], 40)}" for s in "ab")
        by = [_ranked_by(r[f"metric_{s}"]) for s in "ab"]
        first, second = (one, other) if by[0] == by[1] else (f"{one}: {by[0]}", by[1])
        interval = between(r, 2) or "no interval"
        rows.append([by[0] if by[0] == by[1] else "two metrics", first, second, number(r["tau_b"], 2), interval, f"{r['n_estimators']}"])
    note = (
        "Kendall’s τ-b of the two orders of the estimators: 1 the same, 0 nothing in common, −1 reversed; undefined with fewer than three. "
        "Its interval comes from resampled questions. AUROC is of clean inputs, URR and HCC are means over perturbations. "
        + _rest(frame.height, MOST_ROWS, "pairs", results.stage.inputs.get("rank_stability"))
    ).strip()
    return Sheet(
        "Do estimators keep their order?", ["ranked by", "here", "and there", "τ-b", "interval", "estimators"], rows, note=note, wordy=True
    )


def _ranked_by(metric: str) -> str:
    name, _, sweep = metric.partition("@")
    return f"{TITLES.get(name, titled(name))} {visible(sweep, 40)}".strip()


def _means(frame: pl.DataFrame, results: Results) -> Sheet | None:
    """Metrics of the answers and of conformal sets by modality; those of estimators are in the grids."""
    rows = frame.filter(~pl.col("metric").str.contains("|".join(NAMES)))
    if rows.is_empty():
        return None
    cells = {(r["model"], r["dataset"], r["metric"], r["variant"]): r for r in rows.to_dicts()}
    columns = [v for v in (CLEAN, *MODALITIES) if any(k[3] == v for k in cells)]
    keys = list(dict.fromkeys(k[:3] for k in cells))
    body = [[" · ".join(visible(t, 60) for t in key), *(_mean(cells.get((*key, v))) for v in columns)] for key in keys[:MOST_ROWS]]
    note = "Unweighted means over the perturbations of each modality under which the metric is defined, with intervals. "
    if any(metric.startswith("coverage") for _, _, metric in keys[:MOST_ROWS]):
        note += "Coverage: group-conditional, calibrated on clean inputs. "
    note += _rest(len(keys), MOST_ROWS, "rows", results.stage.inputs.get("modality_scores"))
    return Sheet("By modality of the perturbation", ["model · data set · metric", *columns], body, note=note)


def _mean(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    return number(row["value"]) + aside(between(row))
