"""VLM-UQBench's three questions and one more, each answered in a few sentences.

Wang, Chen, Ahmad, Batmanghelich, Li. A question that a spec's metrics cannot answer says what is missing; where that is all of them,
the block is left out, and a sentence says what would answer them.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from qualm.registry import MODALITIES
from qualm.runners.reporting.heat import SURE
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.sections.compared_modalities import leaning
from qualm.runners.reporting.sections.perturbed_by_modality import captured, hallucinated
from qualm.runners.reporting.text import aside, between, number, percent, rounded, visible, words
from qualm.runners.runtime.marks import leaves_out_zero
from qualm.runners.scoring.cells import NO_REFERENCE
from qualm.runners.studies.attribution import FEWEST, GROUP, GROUP_AND_KIND, beats_the_floor
from qualm.runners.studies.perturbation import CONSISTENCY, PERTURBED, REFLECTION

CAPTURE = "How well do estimators capture the uncertainty of each modality?"
REACT = "How consistently do they react, and do they react more to one modality than to others?"
WARN = "Do perturbations make models hallucinate, and do estimators indicate it?"
ATTRIBUTION = "Where does the uncertainty come from?"
NOT_ANSWERED = "Not answered: "
"""Beginning of the text of a question that a spec's metrics cannot answer."""
UNCHECKED = (
    f"attribution needs samples of known modality, at least {FEWEST} groups of each of two modalities; the datasets of this spec have "
    "fewer (specs/attribution_scenes.yaml has enough)."
)
ONE_MODALITY = "attribution needs perturbations of two modalities under which the model does not collapse; this spec has fewer."
WITHOUT_COLLAPSES = "Variants under which a model collapses are excluded."


def answers(
    results: Report,
    means: pl.DataFrame,
    tests: pl.DataFrame,
    urr: pl.DataFrame,
    hcc: pl.DataFrame,
    attributions: pl.DataFrame,
    agreement: pl.DataFrame,
) -> list[tuple[str, str]]:
    """Return each question with its answer or what it needs; empty if none is answered.

    Args:
        results: of the spec.
        means: metrics by modality.
        tests: modalities against each other.
        urr: the grid of reflection rates, empty where the spec names none.
        hcc: that of hallucination change correlations, without perturbations under which nothing is right or wrong.
        attributions: the modality that each sample's uncertainty is attributed to.
        agreement: how often that is right where it is known.
    """
    wrong, warned = hallucinated(results, means, tests), "" if hcc.is_empty() else _grid_sentences(hcc, "hallucination_rate", "warns")
    if wrong and not warned:
        warned = f"Whether estimators indicate it is not answered: {_unwarned(results)}"
    texts = {
        CAPTURE: captured(results, means),
        REACT: "" if urr.is_empty() else f"{_grid_sentences(urr, 'tie_rate', 'rises')} {leaning(tests) if _perturbs_two(results) else ''}",
        WARN: wrong + warned,
        ATTRIBUTION: _attribution_sentences(results, attributions, agreement),
    }
    if not any(texts.values()):
        return []
    takes = {
        CAPTURE: f"no dataset labels uncertain questions, and the spec does not name {PERTURBED}.",
        REACT: f"the spec does not name {REFLECTION}.",
        WARN: _unwarned(results),
        ATTRIBUTION: UNCHECKED if _perturbs_two(results) else ONE_MODALITY,
    }
    return [(question, text.strip() or f"{NOT_ANSWERED}{takes[question]}") for question, text in texts.items()]


def _unwarned(results: Report) -> str:
    """Explain why there is no grid of HCC."""
    if results.plots.get("hcc", pl.DataFrame()).is_empty():
        return f"the spec does not name {CONSISTENCY}."
    return f"under all of these perturbations, correctness is undefined ({NO_REFERENCE})."


def _grid_sentences(frame: pl.DataFrame, beside: str, what: str) -> str:
    """Describe how many cells of a grid differ from chance, and the most extreme ones."""
    cells = [r for r in frame.iter_rows(named=True) if r["collapsed"] is None]
    rows = [r for r in cells if r["value"] is not None]
    if not rows:
        return "All cells are undefined; the reasons are given below."

    def middle(row: dict[str, Any]) -> float:
        return (1 - (row["tie_rate"] or 0)) / 2 if what == "rises" else 0.0

    clear = [r for r in rows if r["p_adjusted"] is not None and r["p_adjusted"] < SURE and (what == "rises" or leaves_out_zero(r))]
    up, down = sum(r["value"] > middle(r) for r in clear), sum(r["value"] < middle(r) for r in clear)
    top, last = max(rows, key=_over_changed), min(rows, key=_over_changed)
    side = (
        ("uncertainty rises in more samples than it falls", "it falls in more")
        if what == "rises"
        else ("uncertainty rises where answers become wrong", "it falls there")
    )
    rule = "p < .05, corrected" + ("" if what == "rises" else ", and an interval without 0")
    text = f"In {up:,} of {len(rows):,} combinations of estimator and perturbation, {side[0]} ({rule}), in {down:,} {side[1]}"
    text += f"; {len(cells) - len(rows):,} are undefined" if len(cells) > len(rows) else ""
    text += f"; {frame.height - len(cells):,} more are excluded, since the model collapses. " if frame.height > len(cells) else ". "
    measure = "URR" if what == "rises" else "HCC"
    note = f", ties {number(last[beside])}" if what == "rises" and last[beside] is not None else ""
    over = " over changed inputs" if any(r["value_changed"] is not None for r in rows) else ""
    text += f"Highest {measure}{over}: {_named(top)}, {_stated(top)}. "
    text += f"Lowest: {_named(last)}, {_stated(last)}{note}."
    return f"{text} These intervals are not selection-adjusted." if between(_changed(top)) or between(_changed(last)) else text


def _over_changed(row: dict[str, Any]) -> float:
    """Return a cell's value over changed samples if known, else over all."""
    return float(row["value"] if row["value_changed"] is None else row["value_changed"])


def _changed(row: dict[str, Any]) -> dict[str, Any]:
    """Return the value that `_over_changed` gives with its interval."""
    of = "" if row["value_changed"] is None else "_changed"
    return {"value": _over_changed(row), **{end: row[f"{end}{of}"] for end in ("low", "high")}}


def _stated(row: dict[str, Any]) -> str:
    return rounded(_changed(row)) + aside(between(_changed(row)))


def _named(row: dict[str, Any]) -> str:
    where = f"{visible(row['model'], 40)} on {visible(row['dataset'], 40)}"
    return f"{words(row['estimator'])} under {visible(row['variant'], 60)} ({where})"


def validated(agreement: pl.DataFrame) -> list[str]:
    """Return the models whose attribution beats the floor in the strictest available check."""
    strictest = {row["model"]: row for row in sorted(agreement.to_dicts(), key=lambda row: str(row["held_out"]) == GROUP_AND_KIND)}
    return [model for model, row in strictest.items() if beats_the_floor(row)]


def _perturbs_two(results: Report) -> bool:
    """Return true if a model has perturbations of two modalities without a collapse."""
    cells = results.scores.group_by("model", "variant").agg(pl.col("collapsed").is_not_null().all())
    gone = {(model, variant) for model, variant, collapsed in cells.iter_rows() if collapsed}
    variants = results.stage.params.get("variants", ())
    left = [{v["modality"] for v in variants if (model, v["variant"]) not in gone} for model in results.models]
    return any(len(of & set(MODALITIES)) > 1 for of in left)


def _attribution_sentences(results: Report, attributions: pl.DataFrame, agreement: pl.DataFrame) -> str:
    """Describe how often attribution is right, and unknown samples of validated models."""
    if agreement.is_empty():
        return ""
    trusted, texts = validated(agreement), list[str]()
    for model in agreement["model"].unique(maintain_order=True).to_list():
        checks = {row["held_out"]: row for row in agreement.filter(pl.col("model") == model).to_dicts()}
        name = visible(model, 40)
        shares = [f"{_accuracy(r)} {HELD_OUT[key]}" for key in HELD_OUT if (r := checks.get(key))]
        first = next(iter(checks.values()))
        verdict = "Validated" if model in trusted else "Not validated, so other samples are not attributed"
        sentence = f"for {name}, the known modality is named for {' and '.join(shares)}, n = {first['n']:,}"
        texts.append(f"{verdict}: {sentence}; the majority baseline has {number(first['floor'])}.")
        if model in trusted:
            texts.append(_shares(attributions, model))
    if results.scores["collapsed"].drop_nulls().len():
        texts.append(WITHOUT_COLLAPSES)
    return " ".join(filter(None, texts))


HELD_OUT = {GROUP: "of samples of unseen scenes or images", GROUP_AND_KIND: "of samples with an unseen kind of damage"}


def _accuracy(row: dict[str, Any]) -> str:
    of = {"value": row["accuracy"], "low": row["accuracy_low"], "high": row["accuracy_high"]}
    return rounded(of) + aside(between(of))


def _shares(attributions: pl.DataFrame, model: str) -> str:
    """Describe the attribution of a model's samples of unknown modality; empty without any."""
    others = attributions.filter((pl.col("model") == model) & pl.col("truth").is_null()).drop_nulls("blamed")["blamed"].to_list()
    shares = [f"{name} {percent(others.count(name) / len(others), 0)}" for name in MODALITIES if others.count(name)]
    return f"Of {len(others):,} other samples: {', '.join(shares)}." if others else ""
