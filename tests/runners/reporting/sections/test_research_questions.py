"""Questions answered in sentences: counted by hand, and what is missing where one has no answer."""

from typing import Any

import polars as pl

from qualm.registry.sample import ATTRIBUTIONS, BLAMES, SCORES
from qualm.runners.reporting.sections.research_questions import ATTRIBUTION, CAPTURE, REACT, WARN, answers
from qualm.runners.scoring.cells import NO_REFERENCE
from qualm.runners.studies.perturbation import CONSISTENCY, HALLUCINATION, PERTURBED, REFLECTION
from tests.runners.reporting.made_results import frame, made_results, score

GRID = {
    "model": pl.String, "dataset": pl.String, "variant": pl.String, "estimator": pl.String, "value": pl.Float64, "p_adjusted": pl.Float64,
    "tie_rate": pl.Float64, "hallucination_rate": pl.Float64,
}  # fmt: skip


def grid(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([{name: row.get(name) for name in GRID} for row in rows], schema=GRID)


def cell(value, p=None, estimator="a", variant="blur", tie_rate=None, model="m", dataset="d"):
    row = {"value": value, "p_adjusted": p, "estimator": estimator, "variant": variant, "tie_rate": tie_rate, "model": model}
    return {**row, "dataset": dataset, "hallucination_rate": 0.5}


def asked(means=(), urr=(), hcc=(), attributions=(), agreement=(), plots=None, scores=()):
    results = made_results([*scores, score("accuracy", 0.5)], plots=plots)
    tables = frame(means, SCORES), grid(*urr), grid(*hcc), frame(attributions, ATTRIBUTIONS), frame(agreement, BLAMES)
    return dict(answers(results, *tables))


def attribution(blamed):
    return {"model": "m", "dataset": "d", "sample_id": "s", "estimator": "a", "blamed": blamed}


def blame(accuracy, estimator="a", n=5, model="m", **more):
    return {"model": model, "estimator": estimator, "n": n, "accuracy": accuracy, "floor": 0.25, **more}


def test_where_nothing_is_answered_nothing_is_said():
    assert asked() == {}


def test_what_each_unanswered_question_takes():
    said = asked(urr=[cell(0.5)])
    assert said[CAPTURE] == f"Not answered: no data set says which questions are uncertain, and the spec does not name {PERTURBED}."
    assert said[WARN] == f"Not answered: the spec does not name {CONSISTENCY}."
    assert said[ATTRIBUTION] == "Not answered: it takes perturbations of at least two modalities and an estimator."
    said = asked(attributions=[attribution("image")], plots={"hcc": grid(cell(None))})
    assert said[REACT] == f"Not answered: the spec does not name {REFLECTION}."
    assert said[WARN] == f"Not answered: under all of these perturbations right and wrong are undefined ({NO_REFERENCE})."


def test_rising_is_counted_against_half_of_what_is_no_tie():
    """Of no ties half of all must rise; of a fifth ties two fifths: .45 is then above."""
    urr = [
        cell(0.75, 0.01), cell(0.5, 0.01), cell(0.25, 0.0499), cell(0.45, 0.01, tie_rate=0.2), cell(0.4, 0.04, tie_rate=0.2),
        cell(0.9, 0.05, "p_true", "typos"), cell(0.1, None, "perplexity", "typos", 0.125), cell(None, None),
    ]  # fmt: skip
    assert asked(urr=urr)[REACT] == (
        "In 2 of 7 cells more samples rise in uncertainty than fall (p < .05, corrected), in 3 more fall than rise; 1 are undefined. "
        "Most: P(True) under typos (m on d), URR 0.900. Least: perplexity under typos (m on d), 0.100, ties 0.125."
    )


def test_warning_is_counted_against_no_correlation():
    hcc = [cell(0.5, 0.01, tie_rate=0.9), cell(0.0, 0.01), cell(-0.25, 0.01, tie_rate=0.5), cell(0.75, 0.5)]
    said = asked(means=[score(HALLUCINATION, 0.25, variant="image")], hcc=hcc)[WARN]
    assert said == (
        "Answers that were right become wrong: image 0.250 (means over perturbations, of all questions). "
        "In 1 of 4 cells uncertainty rises where answers become wrong (p < .05, corrected), in 2 it falls there instead. "
        "Most: a under blur (m on d), HCC 0.750. Least: a under blur (m on d), −0.250."
    )


def test_hallucination_without_a_warning_says_why():
    means = [score(HALLUCINATION, 0.25, variant="image")]
    assert asked(means)[WARN].endswith(f"questions). Whether estimators warn of it is not answered: the spec does not name {CONSISTENCY}.")
    undefined = asked(means, hcc=[cell(None)], plots={"hcc": grid(cell(None))})[WARN]
    assert undefined.endswith("questions). Every cell is undefined, with its reason below.")


def test_capture_is_that_of_the_means():
    said = asked([score(f"{PERTURBED}[a]", 0.625, variant="image")])[CAPTURE]
    assert "the highest are: image: a of m, 0.625. They were picked" in said


def test_attribution_in_shares_and_where_it_is_right():
    rows = [attribution(b) for b in ["text", "image", "image", "undecided", "image", "text", "image", "image", None]]
    agreement = [blame(0.5, "p_true"), blame(0.75, "perplexity", 1200, low=0.5, high=0.875), blame(0.99, "none", 0)]
    assert asked(attributions=rows, agreement=agreement)[ATTRIBUTION] == (
        "Attribution over samples, estimators and models: image 62%, text 25%, undecided 12%. Where it is known, perplexity of m names it "
        "right most often: 0.750 (0.500 – 0.875), n = 1,200, picked among 2. Always naming the most frequent gives 0.250."
    )
    assert asked(attributions=[attribution(None)], agreement=[blame(0.5, n=0)])[ATTRIBUTION] == (
        "No sample has an attribution. No sample says which modality is right, so these shares cannot be checked."
    )
