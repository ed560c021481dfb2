"""Questions answered in sentences: counted by hand, and what is missing where one has no answer."""

from typing import Any

import polars as pl

from qualm.registry.sample import ATTRIBUTIONS, BLAMES, LABELLED_SCORES, MODALITY_COMPARISONS
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.sections.research_questions import (
    UNCHECKED,
    answer_questions,
)
from qualm.runners.results.attribution import GROUP, GROUP_AND_KIND
from qualm.runners.results.perturbation import CONSISTENCY, HALLUCINATION, PERTURBED, REFLECTION
from qualm.runners.scoring.cells import NO_REFERENCE
from tests.runners.reporting.made_results import frame, made_results, score

GRID = {
    "model": pl.String, "dataset": pl.String, "variant": pl.String, "estimator": pl.String, "value": pl.Float64, "p_adjusted": pl.Float64,
    "tie_rate": pl.Float64, "hallucination_rate": pl.Float64, "value_changed": pl.Float64, "collapsed": pl.String,
    "low": pl.Float64, "high": pl.Float64, "low_changed": pl.Float64, "high_changed": pl.Float64,
}  # fmt: skip


def grid(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([{name: row.get(name) for name in GRID} for row in rows], schema=GRID)


def cell(value, p=None, estimator="a", variant="blur", tie_rate=None, model="m", dataset="d", **more):
    row = more | {"value": value, "p_adjusted": p, "estimator": estimator, "variant": variant, "tie_rate": tie_rate, "model": model}
    return {**row, "dataset": dataset, "hallucination_rate": 0.5}


def asked(means=(), urr=(), hcc=(), attributions=(), agreement=(), plots=None, scores=(), variants=("image", "text")):
    results = made_results([*scores, score("accuracy", 0.5), *(score("accuracy", 0.5, variant=v) for v in variants)], plots=plots)
    results.stage.params["variants"] = [{"variant": v, "modality": v, "plugin": v} for v in (*variants, "solarize")]
    tables = (
        frame(means, LABELLED_SCORES),
        frame((), MODALITY_COMPARISONS),
        grid(*urr),
        grid(*hcc),
        frame(attributions, ATTRIBUTIONS),
        frame(agreement, BLAMES),
    )
    return dict(answer_questions(results, *tables))


def attribution(blamed, truth=None, model="m"):
    return {"model": model, "dataset": "d", "sample_id": "s", "blamed": blamed, "truth": truth}


def blame(accuracy, low, held_out=GROUP, model="m", n=1200):
    return {"model": model, "held_out": held_out, "n": n, "accuracy": accuracy, "accuracy_low": low, "accuracy_high": 0.875, "floor": 0.5}


def test_where_nothing_is_answered_nothing_is_said():
    assert asked() == {}


def test_what_each_unanswered_question_takes():
    said = asked(urr=[cell(0.5)])
    assert said[say.CAPTURE] == f"Not answered: there is no value of auroc_uncertain or {PERTURBED}."
    assert said[say.WARN] == f"Not answered: the spec does not name {CONSISTENCY}."
    assert said[say.ATTRIBUTION] == f"Not answered: {UNCHECKED}"
    assert asked(urr=[cell(0.5)], attributions=[attribution("image")])[say.ATTRIBUTION] == f"Not answered: {UNCHECKED}"
    collapse = [score("accuracy", 0.0, variant="solarize", collapsed="its accuracy is at most 0.010")]
    assert asked(urr=[cell(0.5)], variants=["image"], scores=collapse)[say.ATTRIBUTION] == f"Not answered: {say.ONE_MODALITY}"
    assert asked(agreement=[blame(0.5, 0.4)], scores=collapse)[say.ATTRIBUTION].endswith(f"0.500. {say.COLLAPSES_EXCLUDED}")
    said = asked(agreement=[blame(0.5, 0.4)], plots={"hcc": grid(cell(None))})
    assert said[say.REACT] == f"Not answered: the spec does not name {REFLECTION}."
    assert said[say.WARN] == f"Not answered: under all of these perturbations, correctness is undefined ({NO_REFERENCE})."


def test_rising_is_counted_against_half_of_what_is_no_tie():
    """Of no ties half of all must rise; of a fifth ties two fifths: .45 is then above."""
    urr = [
        cell(0.75, 0.01), cell(0.5, 0.01), cell(0.25, 0.0499), cell(0.45, 0.01, tie_rate=0.2), cell(0.4, 0.04, tie_rate=0.2),
        cell(0.9, 0.05, "p_true", "typos"), cell(0.1, None, "perplexity", "typos", 0.125), cell(None, None),
    ]  # fmt: skip
    assert asked(urr=urr)[say.REACT] == (
        "In 2 of 7 combinations of model, dataset, estimator and perturbation, uncertainty rises in more samples than it falls "
        "(p < .05), in 1 it falls in more; 1 are undefined. "
        "Highest URR: P(True) under typos (m on d), 0.900. Lowest: perplexity under typos (m on d), 0.100, ties 0.125. "
        f"{say.MODALITIES_UNTESTED}"
    )


def test_the_most_is_over_changed_inputs_and_collapses_are_left_out():
    """Of typos that leave half of the questions alone .4 of all are .8 of the changed; solarize is out whatever it has."""
    urr = [cell(0.6, 0.01, value_changed=0.6), cell(0.4, 0.01, variant="typos", value_changed=0.8, tie_rate=0.5),
           cell(0.99, 0.01, variant="solarize", collapsed="its accuracy is at most 0.010"), cell(None, None)]  # fmt: skip
    assert asked(urr=urr)[say.REACT] == (
        "In 2 of 2 combinations of model, dataset, estimator and perturbation, uncertainty rises in more samples than it falls "
        "(p < .05), in 0 it falls in more; 1 are undefined; "
        "1 more are excluded, since the model collapses. Highest URR over the changed inputs: a under typos (m on d), 0.800. "
        f"Lowest: a under blur (m on d), 0.600. {say.MODALITIES_UNTESTED}"
    )


def test_warning_is_counted_against_no_correlation():
    """A significant coefficient without an interval is not counted."""
    hcc = [cell(0.5, 0.01, tie_rate=0.9, low=0.25, high=0.75), cell(0.0, 0.01, low=-0.25, high=0.25), cell(0.625, 0.01),
           cell(-0.25, 0.01, tie_rate=0.5, low=-0.375, high=-0.125), cell(0.75, 0.5)]  # fmt: skip
    said = asked(means=[score(HALLUCINATION, 0.25, variant="image")], hcc=hcc)[say.WARN]
    assert said == (
        "Share of questions whose right answer becomes wrong: image 0.250 "
        "(means over perturbations, models and datasets, of all questions). "
        "In 1 of 5 combinations of model, dataset, estimator and perturbation, uncertainty rises where answers become wrong "
        "(p < .05, and an interval without 0), in 1 it falls there. "
        "Highest HCC: a under blur (m on d), 0.750. Lowest: a under blur (m on d), −0.25 (−0.38 – −0.12). "
        "These intervals are not selection-adjusted."
    )


def test_a_coefficient_whose_interval_holds_0_is_not_counted_and_the_extremes_have_theirs():
    """As in the grid: where answers seldom become wrong, the interval is the wider of the two."""
    ends = {"low": -0.125, "high": 0.625}
    hcc = [cell(0.25, 0.01, **ends), cell(0.5, 0.01, low=0.25, high=0.75), cell(0.125, 0.5, low=0.0, high=0.25, variant="dark")]
    hcc += [cell(0.125, 0.01, value_changed=0.75, low_changed=0.5, high_changed=1.0, low=0.0625, high=0.25)]
    said = asked(means=[score(HALLUCINATION, 0.25, variant="image")], hcc=hcc)[say.WARN]
    assert said.endswith(
        "In 2 of 4 combinations of model, dataset, estimator and perturbation, uncertainty rises where answers become wrong "
        "(p < .05, and an interval without 0), in 0 it falls there. "
        "Highest HCC over the changed inputs: a under blur (m on d), 0.8 (0.5 – 1.0). "
        "Lowest: a under dark (m on d), 0.12 (0.00 – 0.25). These intervals are not selection-adjusted."
    )


def test_hallucination_without_a_warning_says_why():
    means = [score(HALLUCINATION, 0.25, variant="image")]
    assert asked(means)[say.WARN].endswith(
        f"questions). Whether estimators indicate it is not answered: the spec does not name {CONSISTENCY}."
    )
    undefined = asked(means, hcc=[cell(None)], plots={"hcc": grid(cell(None))})[say.WARN]
    assert undefined.endswith("questions). All cells are undefined; the reasons are given below.")


def test_capture_is_that_of_the_means():
    said = asked([score(f"{PERTURBED}[a]", 0.625, variant="image")])[say.CAPTURE]
    assert "chance): image: a of m, 0.625. They are the best" in said


def test_attribution_is_stated_where_it_beats_the_floor():
    rows = [attribution(b) for b in ["text", "image", "image", "image", None]] + [attribution("text", "image")]
    assert asked(attributions=rows, agreement=[blame(0.75, 0.625)])[say.ATTRIBUTION] == (
        "Validated: for m, the known modality is named for 0.75 (0.62 – 0.88) of samples of unseen scenes or images, n = 1,200; "
        "the majority baseline has 0.500. Of 4 other samples: image 75%, text 25%."
    )
    unsure = asked(attributions=rows, agreement=[blame(0.75, 0.5), blame(0.9, 0.8, model="other")])[say.ATTRIBUTION]
    assert unsure.startswith("Not validated, so other samples are not attributed: for m, the known") and "Validated: for other" in unsure
    assert "Of 4 other" not in unsure


def test_what_is_claimed_of_others_must_hold_for_damage_that_was_held_out():
    rows = [attribution("text")]
    both = [blame(0.75, 0.625), blame(0.625, 0.49, GROUP_AND_KIND)]
    said = asked(attributions=rows, agreement=both)[say.ATTRIBUTION]
    assert said == (
        "Not validated, so other samples are not attributed: for m, the known modality is named for 0.75 (0.62 – 0.88) of samples of "
        "unseen scenes or images and 0.62 (0.49 – 0.88) of samples with an unseen kind of damage, n = 1,200; "
        "the majority baseline has 0.500."
    )
    assert asked(attributions=rows, agreement=[both[0], blame(0.625, 0.51, GROUP_AND_KIND)])[say.ATTRIBUTION].endswith(
        "other samples: text 100%."
    )
