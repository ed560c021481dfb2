"""Effects of perturbations by kind of question: VLM-UQBench's Table 5 and Figures 3 and 14 to 25.

Wang, Chen, Ahmad, Batmanghelich, Li. Kinds are the values of `category`, where the spec slices by it.
"""

import math
from typing import Any

import polars as pl

from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.heat import SURE, HeatCell, HeatMap, count_runs, shade, split_heat_map
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.sections.perturbed_tested import EffectTests
from qualm.runners.reporting.text import between, counted, display_name, number, rounded, visible
from qualm.runners.results.perturbation import CONSISTENCY, HALLUCINATION
from qualm.runners.runtime.marks import excludes_zero
from qualm.runners.scoring.families import stars


def heat_maps_by_kind(results: Report, variant_order: list[str], variant_facts: dict[str, Any], tested: EffectTests) -> list[HeatMap]:
    """Return hallucination heat maps by dataset and metric (the paper's Table 5)."""
    labels = [t for t, a in results.labels.items() if a.plugin == HALLUCINATION]
    is_part = (pl.col("slice") == "all") | pl.col("slice").str.starts_with("category=")
    rows = results.scores.filter(pl.col("metric").is_in(labels) & is_part)
    heats = []
    for (dataset, metric), part in rows.group_by("dataset", "metric", maintain_order=True):
        cells = {(r["model"], r["slice"], r["variant"]): r for r in part.iter_rows(named=True)}
        variants = [v for v in variant_order if any(k[2] == v for k in cells)]
        most = max([0.05, *(r["value"] for (_, _, v), r in cells.items() if r["value"] is not None and v in variants)])
        parts = sorted(dict.fromkeys(k[1] for k in cells), key=lambda s: (s == "all", s))
        models = list(dict.fromkeys(k[0] for k in cells))
        p = {model: tested.p_values(model, str(dataset), str(metric)) for model in models}
        columns = [(model, name) for model in models for name in parts]
        lines = {v: [_rate(cells.get((model, name, v)), most, p[model].get((name, v))) for model, name in columns] for v in variants}
        body = [(" ".join(filter(None, variant_heading(v, variant_facts))), line) for v, line in lines.items()]
        caption = " · ".join(visible(t, 60) for t in (dataset, str(metric).partition("@")[2]) if t)
        heads = [(say.ALL_QUESTIONS if name == "all" else visible(name.removeprefix("category="), 60), "") for _, name in columns]
        groups = [(visible(model, 60), len(parts)) for model in models]
        heats += split_heat_map(HeatMap(caption, "Perturbation", heads, body, groups))
    return heats


def _rate(row: dict[str, Any] | None, full_colour_value: float, p: float | None) -> HeatCell:
    if row is None or row["value"] is None:
        return HeatCell("undefined" if row else "–", title=f"n = {row['n']:,}" if row else say.NOT_MEASURED, undefined=row is not None)
    title = counted(row) + ("" if p is None else f"; p = {number(p, 4)}")
    if row["collapsed"]:
        return HeatCell(rounded(row), "collapse", title=f"{title}; {visible(row['collapsed'], 200)}")
    heat, _ = shade(row["value"], full_colour_value)
    return HeatCell(rounded(row), between(row), heat, "down", title, p is not None and p < SURE, mark=stars(p))


def hcc_by_kind(
    results: Report, variant_order: list[str], variant_facts: dict[str, Any], tested: EffectTests
) -> list[tuple[str, list[HeatMap]]]:
    """Return (title, heat maps) of HCC by model, dataset, category (Figures 3, 14 to 25)."""
    labels = {t: a for t, a in results.labels.items() if a.plugin == CONSISTENCY and a.estimator}
    rows = results.scores.filter(pl.col("metric").is_in(list(labels)) & pl.col("slice").str.starts_with("category="))
    most = colour_scale(rows)
    figures = []
    for (model, dataset, part), of in rows.group_by("model", "dataset", "slice", maintain_order=True):
        cells = {(r["metric"], r["variant"]): r for r in of.iter_rows(named=True)}
        variants = [v for v in variant_order if any(k[1] == v for k in cells)]
        body = []
        for metric in dict.fromkeys(k[0] for k in cells):
            p = tested.p_values(str(model), str(dataset), metric)
            line = [_coefficient(cells.get((metric, v)), most, p.get((str(part), v))) for v in variants]
            body.append((display_name(labels[metric].estimator), line))
        title = " · ".join(visible(t, 60) for t in (str(part).removeprefix("category="), str(model), str(dataset)))
        groups = count_runs([variant_facts[v]["modality"] for v in variants])
        heads = [variant_heading(v, variant_facts) for v in variants]
        figures.append((title, split_heat_map(HeatMap(title, "Estimator", heads, body, groups))))
    return figures


def _coefficient(row: dict[str, Any] | None, full_colour_value: float, p: float | None) -> HeatCell:
    """Return the heat-map cell of one hallucination change correlation."""
    if row is None:
        return HeatCell("–", title=say.NOT_MEASURED)
    if row["value"] is None:
        return HeatCell("undefined", visible(row["why"] or "", 80), title=counted(row), undefined=True)
    if row["collapsed"]:
        return HeatCell(rounded(row), "collapse", title=visible(row["collapsed"], 200))
    heat, tone = shade(row["value"], full_colour_value)
    clear = p is not None and p < SURE and excludes_zero(row)
    title = counted(row) + ("" if p is None else f"; p = {number(p, 4)}")
    return HeatCell(rounded(row), between(row), heat, tone, title, clear, mark=stars(p) if clear else "")


def variant_heading(variant: str, variant_facts: dict[str, Any]) -> tuple[str, str]:
    """Return (perturbation's display name, strength as text) as a variant's heading."""
    return display_name(variant_facts[variant]["plugin"]), visible(variant.partition("@")[2], 60)


def colour_scale(frame: pl.DataFrame) -> float:
    """Return the largest absolute number in column `value`, or 0.2 if that is larger."""
    values = [abs(v) for v in frame["value"].to_list() if v is not None and math.isfinite(v)] if not frame.is_empty() else []
    return float(max([0.2, *values]))
