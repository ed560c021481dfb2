"""VLM-UQBench's three questions and one more, each answered in a few sentences.

Wang, Chen, Ahmad, Batmanghelich, Li. A question that a spec's metrics cannot answer says what is missing; where that is all of them,
the block is left out, and a sentence says what would answer them.
"""

from typing import Any

import polars as pl

from qualm.registry import MODALITIES
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.heat import SURE
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.sections.compared_modalities import describe_modality_differences
from qualm.runners.reporting.sections.perturbed_by_modality import describe_detection, describe_hallucination
from qualm.runners.reporting.text import aside, between, display_name, number, percent, rounded, visible
from qualm.runners.results.attribution import GROUP, GROUP_AND_KIND, MIN_LABELLED_GROUPS, beats_the_floor
from qualm.runners.results.perturbation import CONSISTENCY, PERTURBED, REFLECTION
from qualm.runners.runtime.marks import excludes_zero
from qualm.runners.scoring.cells import NO_REFERENCE

UNCHECKED = say.ATTRIBUTION_UNCHECKED.format(n=MIN_LABELLED_GROUPS)


def answer_questions(
    results: Report,
    means: pl.DataFrame,
    tests: pl.DataFrame,
    urr: pl.DataFrame,
    hcc: pl.DataFrame,
    attributions: pl.DataFrame,
    agreement: pl.DataFrame,
) -> list[tuple[str, str]]:
    """Return (question, answer or what it needs) pairs; [] if no question can be answered.

    `means` are metrics by modality, `tests` those of modalities against each other. The grids `urr` and `hcc` are empty where the spec
    names no such metric; `hcc` is without perturbations under which nothing is right or wrong. `agreement` says how often `attributions`
    are right where the modality is known.
    """
    wrong, warned = describe_hallucination(results, means, tests), ""
    if not hcc.is_empty():
        warned = _grid_sentences(hcc, "hallucination_rate", "warns")
    elif wrong:
        warned = say.WARNING_NOT_ANSWERED.format(why=_why_no_hcc(results))
    reaction = "" if urr.is_empty() else f"{_grid_sentences(urr, 'tie_rate', 'rises')} "
    if reaction and _perturbs_two(results):
        reaction += describe_modality_differences(tests)
    texts = {
        say.CAPTURE: describe_detection(results, means),
        say.REACT: reaction,
        say.WARN: wrong + warned,
        say.ATTRIBUTION: _attribution_sentences(results, attributions, agreement),
    }
    if not any(texts.values()):
        return []
    takes = {
        say.CAPTURE: say.NO_UNCERTAIN_LABELS.format(metric=PERTURBED),
        say.REACT: say.METRIC_MISSING.format(metric=REFLECTION),
        say.WARN: _why_no_hcc(results),
        say.ATTRIBUTION: UNCHECKED if _perturbs_two(results) else say.ONE_MODALITY,
    }
    return [(question, text.strip() or f"{say.NOT_ANSWERED}{takes[question]}") for question, text in texts.items()]


def _why_no_hcc(results: Report) -> str:
    """Say why there is no HCC heat map: metric not in the spec, or correctness undefined."""
    if results.plots.get("hcc", pl.DataFrame()).is_empty():
        return say.METRIC_MISSING.format(metric=CONSISTENCY)
    return say.NO_CORRECTNESS.format(why=NO_REFERENCE)


def _grid_sentences(frame: pl.DataFrame, side_column: str, kind: str) -> str:
    """Return sentences on a grid: how many cells are unlike chance, the highest, the lowest."""
    cells = [r for r in frame.iter_rows(named=True) if r["collapsed"] is None]
    rows = [r for r in cells if r["value"] is not None]
    if not rows:
        return say.ALL_UNDEFINED

    def middle(row: dict[str, Any]) -> float:
        return (1 - (row["tie_rate"] or 0)) / 2 if kind == "rises" else 0.0

    clear = [r for r in rows if r["p_adjusted"] is not None and r["p_adjusted"] < SURE and (kind == "rises" or excludes_zero(r))]
    up, down = sum(r["value"] > middle(r) for r in clear), sum(r["value"] < middle(r) for r in clear)
    top, last = max(rows, key=_over_changed), min(rows, key=_over_changed)
    side, rule = (say.UNCERTAINTY_RISES, say.UNCERTAINTY_FALLS), say.SIGNIFICANCE_RULE
    if kind != "rises":
        side, rule = (say.UNCERTAINTY_RISES_WHERE_WRONG, say.UNCERTAINTY_FALLS_WHERE_WRONG), rule + say.AND_INTERVAL_WITHOUT_0
    text = say.COMBINATIONS.format(up=up, n=len(rows), rises=side[0], rule=rule, down=down, falls=side[1])
    text += say.COMBINATIONS_UNDEFINED.format(n=len(cells) - len(rows)) if len(cells) > len(rows) else ""
    text += say.COMBINATIONS_EXCLUDED.format(n=frame.height - len(cells)) if frame.height > len(cells) else ". "
    measure = "URR" if kind == "rises" else "HCC"
    note = say.AND_TIES.format(share=number(last[side_column])) if kind == "rises" and last[side_column] is not None else ""
    over = say.OVER_CHANGED_INPUTS if any(r["value_changed"] is not None for r in rows) else ""
    text += say.HIGHEST.format(measure=measure, over=over, cell=_named(top), value=_stated(top))
    text += say.LOWEST.format(cell=_named(last), value=_stated(last), ties=note)
    return say.NOT_ADJUSTED.format(text=text) if between(_interval_over_changed(top)) or between(_interval_over_changed(last)) else text


def _over_changed(row: dict[str, Any]) -> float:
    """Return a row's value over changed samples if known, else over all."""
    return float(row["value"] if row["value_changed"] is None else row["value_changed"])


def _interval_over_changed(row: dict[str, Any]) -> dict[str, Any]:
    """Return `value`, `low` and `high` of a row: over changed samples if known, else over all."""
    of = "" if row["value_changed"] is None else "_changed"
    return {"value": _over_changed(row), **{end: row[f"{end}{of}"] for end in ("low", "high")}}


def _stated(row: dict[str, Any]) -> str:
    return rounded(_interval_over_changed(row)) + aside(between(_interval_over_changed(row)))


def _named(row: dict[str, Any]) -> str:
    names = {name: visible(row[name], 60 if name == "variant" else 40) for name in ("model", "dataset", "variant")}
    return say.CELL.format(estimator=display_name(row["estimator"]), **names)


def validated_models(agreement: pl.DataFrame) -> list[str]:
    """Return the models whose attribution beats the floor in the strictest available check."""
    strictest = {row["model"]: row for row in sorted(agreement.to_dicts(), key=lambda row: str(row["held_out"]) == GROUP_AND_KIND)}
    return [model for model, row in strictest.items() if beats_the_floor(row)]


def _perturbs_two(results: Report) -> bool:
    """Return true if some model has perturbations of two modalities without a collapse."""
    cells = results.scores.group_by("model", "variant").agg(pl.col("collapsed").is_not_null().all())
    gone = {(model, variant) for model, variant, collapsed in cells.iter_rows() if collapsed}
    variants = results.stage.params.get("variants", ())
    left = [{v["modality"] for v in variants if (model, v["variant"]) not in gone} for model in results.models]
    return any(len(of & set(MODALITIES)) > 1 for of in left)


def _attribution_sentences(results: Report, attributions: pl.DataFrame, agreement: pl.DataFrame) -> str:
    """Return how often attribution is right, and what unknown samples get; "" if untested."""
    if agreement.is_empty():
        return ""
    trusted, texts = validated_models(agreement), list[str]()
    for model in agreement["model"].unique(maintain_order=True).to_list():
        checks = {row["held_out"]: row for row in agreement.filter(pl.col("model") == model).to_dicts()}
        name = visible(model, 40)
        shares = [f"{_accuracy(r)} {HELD_OUT[key]}" for key in HELD_OUT if (r := checks.get(key))]
        first = next(iter(checks.values()))
        verdict = say.VALIDATED if model in trusted else say.NOT_VALIDATED
        sentence = say.NAMED_FOR.format(model=name, shares=" and ".join(shares), n=first["n"])
        texts.append(say.ATTRIBUTION_CHECK.format(verdict=verdict, shares=sentence, floor=number(first["floor"])))
        if model in trusted:
            texts.append(_shares(attributions, model))
    if results.scores["collapsed"].drop_nulls().len():
        texts.append(say.COLLAPSES_EXCLUDED)
    return " ".join(filter(None, texts))


HELD_OUT = {GROUP: say.OF_UNSEEN_SCENES, GROUP_AND_KIND: say.OF_UNSEEN_DAMAGE}


def _accuracy(row: dict[str, Any]) -> str:
    of = {"value": row["accuracy"], "low": row["accuracy_low"], "high": row["accuracy_high"]}
    return rounded(of) + aside(between(of))


def _shares(attributions: pl.DataFrame, model: str) -> str:
    """Return a sentence: shares of modalities blamed on samples without a known one, or ""."""
    others = attributions.filter((pl.col("model") == model) & pl.col("truth").is_null()).drop_nulls("blamed")["blamed"].to_list()
    shares = [f"{name} {percent(others.count(name) / len(others), 0)}" for name in MODALITIES if others.count(name)]
    return say.OTHER_SAMPLES.format(n=len(others), shares=", ".join(shares)) if others else ""
