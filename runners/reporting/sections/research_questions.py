"""VLM-UQBench's three questions and one more, each answered in a few sentences from the tables that stand below them.

Wang, Chen, Ahmad, Batmanghelich, Li. A question that a spec's metrics cannot answer says what is missing; where that is all of them,
the block is left out, and a sentence says what would answer them.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from qualm.registry import MODALITIES
from qualm.runners.reporting.charts.heat import SURE
from qualm.runners.reporting.load import Results
from qualm.runners.reporting.sections.by_modality import captured, hallucinated, leaning
from qualm.runners.reporting.text import aside, between, number, percent, visible, words
from qualm.runners.scoring.cells import NO_REFERENCE
from qualm.runners.studies.attribution import UNDECIDED
from qualm.runners.studies.perturbation import CONSISTENCY, PERTURBED, REFLECTION

CAPTURE = "How well do estimators capture the uncertainty of each modality?"
REACT = "How consistently do they react, and more to one modality than to others?"
WARN = "Does it make models hallucinate, and do estimators warn of it?"
ATTRIBUTION = "Where does the uncertainty come from?"
UNASKED = (
    f"Name the metrics {PERTURBED}, {REFLECTION} and {CONSISTENCY} in the spec, beside estimators, and this section answers which "
    "modality’s uncertainty is captured, how consistently estimators react, and whether they warn of hallucination."
)


def answers(
    results: Results, means: pl.DataFrame, urr: pl.DataFrame, hcc: pl.DataFrame, attributions: pl.DataFrame, agreement: pl.DataFrame
) -> list[tuple[str, str]]:
    """Each question with its answer, or with what it takes; nothing where none is answered.

    Args:
        results: of the spec.
        means: metrics by modality.
        urr: the grid of reflection rates, empty where the spec names none.
        hcc: that of hallucination change correlations, without perturbations under which nothing is right or wrong.
        attributions: the modality that each sample's uncertainty is attributed to.
        agreement: how often that is right.
    """
    wrong, warned = hallucinated(results, means), "" if hcc.is_empty() else _grid_sentences(hcc, "hallucination_rate", "warns")
    if wrong and not warned:
        warned = f"Whether estimators warn of it is not answered: {_unwarned(results)}"
    texts = {
        CAPTURE: captured(results, means),
        REACT: "" if urr.is_empty() else f"{_grid_sentences(urr, 'tie_rate', 'rises')} {leaning(means)}",
        WARN: wrong + warned,
        ATTRIBUTION: _attribution_sentences(attributions, agreement),
    }
    if not any(texts.values()):
        return []
    takes = {
        CAPTURE: f"no data set says which questions are uncertain, and the spec does not name {PERTURBED}.",
        REACT: f"the spec does not name {REFLECTION}.",
        WARN: _unwarned(results),
        ATTRIBUTION: "it takes perturbations of at least two modalities and an estimator.",
    }
    return [(question, text.strip() or f"Not answered: {takes[question]}") for question, text in texts.items()]


def _unwarned(results: Results) -> str:
    """Why there is no grid of HCC."""
    if results.plots.get("hcc", pl.DataFrame()).is_empty():
        return f"the spec does not name {CONSISTENCY}."
    return f"under all of these perturbations right and wrong are undefined ({NO_REFERENCE})."


def _grid_sentences(frame: pl.DataFrame, beside: str, what: str) -> str:
    """Sentences about a grid that has cells: in how many it is clear of chance, and the most extreme ones."""
    rows = [r for r in frame.iter_rows(named=True) if r["value"] is not None]
    if not rows:
        return "Every cell is undefined, with its reason below."

    def middle(row: dict[str, Any]) -> float:
        return (1 - (row["tie_rate"] or 0)) / 2 if what == "rises" else 0.0

    clear = [r for r in rows if r["p_adjusted"] is not None and r["p_adjusted"] < SURE]
    up = sum(r["value"] > middle(r) for r in clear)
    top, last = max(rows, key=lambda r: r["value"]), min(rows, key=lambda r: r["value"])
    side = (
        ("more samples rise in uncertainty than fall", "more fall than rise")
        if what == "rises"
        else ("uncertainty rises where answers become wrong", "it falls there instead")
    )
    text = f"In {up:,} of {len(rows):,} cells {side[0]} (p < .05, corrected), in {len(clear) - up:,} {side[1]}"
    text += f"; {frame.height - len(rows):,} are undefined. " if frame.height > len(rows) else ". "
    measure = "URR" if what == "rises" else "HCC"
    note = f", ties {number(last[beside])}" if what == "rises" and last[beside] is not None else ""
    text += f"Most: {_named(top)}, {measure} {number(top['value'])}. Least: {_named(last)}, {number(last['value'])}{note}."
    return text


def _named(row: dict[str, Any]) -> str:
    where = f"{visible(row['model'], 40)} on {visible(row['dataset'], 40)}"
    return f"{words(row['estimator'])} under {visible(row['variant'], 60)} ({where})"


def _attribution_sentences(attributions: pl.DataFrame, agreement: pl.DataFrame) -> str:
    """What uncertainty is attributed to, and how often that is right where it is known; nothing without attributions."""
    if attributions.is_empty():
        return ""
    modalities = attributions.drop_nulls("blamed")["blamed"].to_list()
    shares = [
        f"{name} {percent(modalities.count(name) / len(modalities), 0)}" for name in (*MODALITIES, UNDECIDED) if modalities.count(name)
    ]
    text = f"Attribution over samples, estimators and models: {', '.join(shares)}. " if modalities else "No sample has an attribution. "
    scored = agreement.filter(pl.col("n") > 0).sort("accuracy", descending=True).to_dicts()
    if not scored:
        return text + "No sample says which modality is right, so these shares cannot be checked."
    best = scored[0]
    interval = aside(between(best))
    text += f"Where it is known, {words(best['estimator'])} of {visible(best['model'], 40)} names it right most often: "
    return text + (
        f"{number(best['accuracy'])}{interval}, n = {best['n']:,}, picked among {len(scored):,}. "
        f"Always naming the most frequent gives {number(best['floor'])}."
    )
