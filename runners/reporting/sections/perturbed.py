"""Effects of perturbations: reactions of estimators, hallucination, and the modality of the uncertainty.

For specs with perturbations. The questions of VLM-UQBench (Wang, Chen, Ahmad, Batmanghelich, Li) are answered first, in a few
sentences each.
"""

from typing import Any

import polars as pl

from qualm.registry import CLEAN, MODALITIES
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.heat import SURE, HeatCell, HeatMap, count_runs, shade, split_heat_map
from qualm.runners.reporting.load import Report, column_decimals, with_decimals
from qualm.runners.reporting.section import Section
from qualm.runners.reporting.sections.compared_modalities import NAMES, modality_tests_table
from qualm.runners.reporting.sections.data_sets import Sheet
from qualm.runners.reporting.sections.perturbed_by_kind import colour_scale, hcc_by_kind, heat_maps_by_kind, variant_heading
from qualm.runners.reporting.sections.perturbed_by_modality import modality_heat_maps
from qualm.runners.reporting.sections.perturbed_gallery import gallery
from qualm.runners.reporting.sections.perturbed_shifts import coverage, sweeps
from qualm.runners.reporting.sections.perturbed_tested import TITLES, read_tested
from qualm.runners.reporting.sections.research_questions import HELD_OUT, answer_questions, validated_models
from qualm.runners.reporting.text import aside, between, counted, display_name, heading_name, number, percent, rounded, visible
from qualm.runners.results.attribution import MEASURES
from qualm.runners.runtime.marks import excludes_zero
from qualm.runners.scoring.cells import NO_REFERENCE
from qualm.runners.scoring.families import stars
from qualm.runners.scoring.measuring.slices import CHANGED

MAX_GRIDS = 40
"""Grids of one kind; beyond them the page would grow without being read."""
MAX_ROWS = 60


def perturbed(results: Report) -> dict[str, Any] | None:
    """Return the template values of the perturbation section; None if it has nothing to show."""
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
    attributions = results.source.scan("attributions").collect()
    agreement = results.source.scan("blames").collect()
    means = results.source.labelled("modality_scores").collect()
    means = with_decimals(means, column_decimals(means))
    compared_means = results.source.scan("modality_comparisons").collect()
    drawn = {
        "modalities": modality_heat_maps(means),
        "urr": _heat_maps(urr, order, about, "tie_rate", "ties", 1.0),
        "hcc": _heat_maps(hcc, right, about, "hallucination_rate", say.BECAME_WRONG, colour_scale(hcc)),
        "kinds": heat_maps_by_kind(results, right, about, tested),
    }
    figures = hcc_by_kind(results, right, about, tested)
    found = answer_questions(results, means, compared_means, urr, hcc, attributions, agreement)
    content = {
        "gallery": gallery(results),
        "answers": [(question, text) for question, text in found if not text.startswith(say.NOT_ANSWERED)],
        **{name: heats[:MAX_GRIDS] for name, heats in drawn.items()},
        "compared": modality_tests_table(compared_means, results),
        "hcc_by_kind": figures[:MAX_GRIDS],
        "tests": tested.sheet(order, about),
        "blame": _attribution_grids(attributions, validated_models(agreement)),
        "blamed": _agreement_sheet(agreement, results),
        "stability": _stability(results.source.scan("rank_stability").collect(), results),
        "means": _modality_means_table(means, results),
        "sweeps": sweeps(results),
        "coverage": coverage(results, order),
    }
    if not any(content.values()):
        return None
    rest = {name: _not_shown(len(heats), MAX_GRIDS, "grids", results.stage.inputs.get(ALL[name])) for name, heats in drawn.items()}
    unanswered = [(question, text.removeprefix(say.NOT_ANSWERED)) for question, text in found if text.startswith(say.NOT_ANSWERED)]
    names = ", ".join(visible(v, 60) for v in unscored)
    left_out = say.LEFT_OUT.format(names=names, why=NO_REFERENCE) if names else ""
    return {**content, "rest": rest, "unanswered": unanswered, "unscored": left_out}


ALL = {"modalities": "modality_scores", "urr": "urr", "hcc": "hcc", "kinds": "scores"}
"""Which input has everything that a kind of grid shows."""


def _not_shown(n_items: int, max_shown: int, plural: str, table_path: str | None) -> str:
    """Return a sentence that only the first `max_shown` items are shown; "" if that is all."""
    if n_items <= max_shown:
        return ""
    where = say.ALL_ARE_IN.format(path=visible(table_path, 200)) if table_path else ""
    return say.FIRST_OF_KIND_SHOWN.format(shown=max_shown, n=n_items, what=plural, where=where)


def _column_heading(
    variant: str, variant_facts: dict[str, Any], unchanged_share: float | None, why_collapsed: str | None
) -> tuple[str, str]:
    """Return (heading, small text: strength, unchanged inputs, collapse) of a variant column."""
    name, strength = variant_heading(variant, variant_facts)
    parts = [strength, f"{percent(unchanged_share, 0)} unchanged" if unchanged_share else "", "collapse" if why_collapsed else ""]
    return name, " · ".join(p for p in parts if p)


def _heat_maps(
    frame: pl.DataFrame, order: list[str], variant_facts: dict[str, Any], side_column: str, side_label: str, scale: float
) -> list[HeatMap]:
    """Return heat maps per model, dataset and metric: estimators by variants; [] if no rows.

    `side_column` has a second number for each cell; `scale` is the absolute value with the strongest colour.
    """
    if frame.is_empty():
        return []
    heats = []
    for (model, dataset, metric), part in frame.group_by("model", "dataset", "metric", maintain_order=True):
        cells = {(r["estimator"], r["variant"]): r for r in part.iter_rows(named=True)}
        variants = [v for v in order if any(k[1] == v for k in cells)]
        names = list(dict.fromkeys(k[0] for k in cells))
        rows = [(display_name(e), [_cell(cells.get((e, v)), side_column, side_label, scale) for v in variants]) for e in names]
        of_variant = {v: next(r for (_, other), r in cells.items() if other == v) for v in variants}
        sweep = str(metric).partition("@")[2]
        caption = " · ".join(visible(t, 60) for t in (model, dataset, sweep) if t)
        heads = [_column_heading(v, variant_facts, of_variant[v]["unchanged_rate"], of_variant[v]["collapsed"]) for v in variants]
        heats += split_heat_map(HeatMap(caption, "Estimator", heads, rows, count_runs([variant_facts[v]["modality"] for v in variants])))
    return heats


def _cell(row: dict[str, Any] | None, side_column: str, side_label: str, scale: float) -> HeatCell:
    if row is None:
        return HeatCell("–", title=say.NOT_MEASURED)
    n = counted(row)
    side = f"{side_label} {number(row[side_column])}" if row[side_column] is not None else ""
    if row["value"] is None:
        why = visible(row["why"] or "undefined", 80)
        return HeatCell("undefined", why, title="; ".join(t for t in (why, side, n) if t), undefined=True)
    interval, p = between(row), row["p_adjusted"]
    small = side if side_column == "tie_rate" and (row[side_column] or 0) >= 0.1 else interval
    if row["unchanged_rate"] and row["value_changed"] is not None:
        small = say.OF_CHANGED.format(value=number(row["value_changed"]))
    title = [interval, side, n, "" if p is None else f"p = {number(p, 4)}", _value_over_changed(row)]
    if row["collapsed"]:
        return HeatCell(rounded(row), small, title="; ".join(t for t in (*title, visible(row["collapsed"], 200)) if t))
    heat, tone = shade(row["value"], scale)
    clear = p is not None and p < SURE
    if clear and side_column == "hallucination_rate" and not excludes_zero(row):
        clear = False
        title.append(say.INTERVAL_CONTAINS_0 if interval else say.NOT_SIGNIFICANT_WITHOUT_INTERVAL)
    return HeatCell(rounded(row), small, heat, tone, "; ".join(t for t in title if t), clear, mark=stars(p) if clear else "")


def _value_over_changed(row: dict[str, Any]) -> str:
    """Return tooltip text of the value over changed inputs; "" if all changed or not known."""
    if not row["unchanged_rate"] or row["value_changed"] is None:
        return ""
    of = {"value": row["value_changed"], "low": row["low_changed"], "high": row["high_changed"]}
    return say.CHANGED_INPUTS.format(n=row["n_changed"], value=rounded(of), interval=aside(between(of)))


def _attribution_grids(frame: pl.DataFrame, trusted: list[str]) -> list[HeatMap]:
    """Return heat maps by model: known (if trusted, any) against attributed modality."""
    rows = frame.filter(pl.col("truth").is_not_null() | pl.col("model").is_in(trusted))
    return [_attribution_grid(rows.filter(pl.col("model") == model), model) for model in rows["model"].unique(maintain_order=True)]


def _attribution_grid(part: pl.DataFrame, model: str) -> HeatMap:
    names = [m for m in MODALITIES if part[m].is_not_null().any()]
    counts = {(r["dataset"], r["truth"], r["blamed"]): r["len"] for r in part.group_by("dataset", "truth", "blamed").len().to_dicts()}
    order = (*MODALITIES, CLEAN, None)
    rows = []
    for dataset, truth in sorted({key[:2] for key in counts}, key=lambda key: (key[0], order.index(key[1]))):
        total = sum(counts.get((dataset, truth, b), 0) for b in names)
        cells = [_share(counts.get((dataset, truth, b), 0), total, b == truth) for b in names]
        rows.append((f"{visible(dataset, 60)}: {truth or 'unknown'}", cells))
    return HeatMap(visible(model, 60), "Dataset: known modality", [(name, "") for name in names], rows, [("attributed to", len(names))])


def _share(count: int, total: int, right: bool) -> HeatCell:
    if not total:
        return HeatCell("undefined", say.NO_ATTRIBUTION, title=say.SAMPLES_WITHOUT_ATTRIBUTION, undefined=True)
    return HeatCell(percent(count / total, 0), "", shade(count / total, 1.0)[0], "up", f"{count:,} of {total:,}", right)


def _agreement_sheet(agreement: pl.DataFrame, results: Report) -> Sheet | None:
    if agreement.is_empty():
        return None
    rows = [
        [
            visible(r["model"], 60),
            HELD_OUT[r["held_out"]].removeprefix("of "),
            *(rounded(of) + aside(between(of)) for m in MEASURES if (of := {"value": r[m], "low": r[f"{m}_low"], "high": r[f"{m}_high"]})),
            number(r["floor"]),
            f"{r['n']:,}",
        ]
        for r in agreement.head(MAX_ROWS).to_dicts()
    ]
    rest = _not_shown(agreement.height, MAX_ROWS, "rows", results.stage.inputs.get("blames"))
    note = say.ATTRIBUTION_NOTE.format(fits=rest).strip()
    return Sheet(say.ATTRIBUTION_ACCURACY, [*say.ATTRIBUTION_COLUMNS], rows, note=note)


def _stability(frame: pl.DataFrame, results: Report) -> Sheet | None:
    if frame.is_empty():
        return None
    rows = []
    for r in frame.head(MAX_ROWS).to_dicts():
        one, other = (f"{visible(r['model_' + s], 40)} on {visible(r['dataset_' + s], 40)}" for s in "ab")
        by = [_ranked_by(r[f"metric_{s}"]) for s in "ab"]
        first, second = (one, other) if by[0] == by[1] else (f"{one}: {by[0]}", by[1])
        interval = between(r, 2) or say.NO_INTERVAL
        rows.append([by[0] if by[0] == by[1] else say.TWO_METRICS, first, second, number(r["tau_b"], 2), interval, f"{r['n_estimators']}"])
    note = (say.RANK_STABILITY_NOTE + _not_shown(frame.height, MAX_ROWS, "pairs", results.stage.inputs.get("rank_stability"))).strip()
    return Sheet(say.RANK_STABILITY, ["ranked by", "first", "second", "τ-b", "interval", "estimators"], rows, note=note, wordy=True)


def _ranked_by(metric: str) -> str:
    name, _, sweep = metric.partition("@")
    return f"{TITLES.get(name, heading_name(name))} {visible(sweep, 40)}".strip()


def _modality_means_table(frame: pl.DataFrame, results: Report) -> Sheet | None:
    """Return a table of answer and conformal metrics by modality; None if there are none."""
    rows = frame.filter(~pl.col("metric").str.contains("|".join(NAMES)))
    if rows.is_empty():
        return None
    cells = {(r["model"], r["dataset"], r["metric"], r["slice"], r["variant"]): r for r in rows.to_dicts()}
    columns = [v for v in (CLEAN, *MODALITIES) if any(k[4] == v for k in cells)]
    keys = list(dict.fromkeys(k[:4] for k in cells))
    body = []
    for key in keys[:MAX_ROWS]:
        heading = [*(visible(text, 60) for text in key[:3]), *([say.ONLY_CHANGED_INPUTS] if key[3] == CHANGED else [])]
        found = [cells.get((*key, v)) for v in columns]
        body.append([" · ".join(heading), *("–" if row is None else rounded(row) + aside(between(row)) for row in found)])
    note = say.MODALITY_MEANS
    if any(metric.startswith("coverage") for _, _, metric, _ in keys[:MAX_ROWS]):
        note += say.MODALITY_COVERAGE
    note += _not_shown(len(keys), MAX_ROWS, "rows", results.stage.inputs.get("modality_scores"))
    return Sheet(say.METRICS_BY_MODALITY, ["model · dataset · metric", *columns], body, note=note)


READS = ("perturbed", "effects", "modality_scores", "modality_comparisons", "rank_stability", "attributions", "blames")
ASSETS = ["../templates/perturbed.html"]
SECTION = Section("perturbations", say.UNDER_PERTURBATION, perturbed, "perturbed.html")
