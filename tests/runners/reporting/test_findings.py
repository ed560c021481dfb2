"""One sentence for each finding: what carries it stands in it, and nothing is called different that was statistically tied."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from qualm.registry import BLIND
from qualm.registry.sample import COMPARISONS, RANKINGS, SHORTCUTS
from qualm.runners.reporting.findings import _ties_in_words, findings
from qualm.runners.reporting.load import read_report
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.stage import Stage
from tests.runners.reporting.conftest import Fabric
from tests.runners.reporting.made_results import frame, ranked


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Fabric(tmp_path_factory.mktemp("findings")).stage()


@pytest.fixture
def results(stage: Stage) -> Any:
    """The report's tables, which a test may change."""
    return read_report(replace(stage, params={**stage.params}, inputs={**stage.inputs}))


def of(results: Any) -> list[str]:
    """The findings of the first dataset, after a test has changed the tables."""
    for kept in ("cells", "overall", "labels", "baseline", "tests", "_clean_rankings"):
        vars(results).pop(kept, None)
    others = tuple(f"{name}: " for name in results.datasets[1:])
    return [s.removeprefix(f"{results.datasets[0]}: ") for s in findings(results) if not s.startswith(others)]


def test_the_best_model_stands_with_its_interval_and_what_cannot_be_told_from_it(results: Any) -> None:
    models = results.models
    assert len(models) > 1
    label = next(text for text in results.labels if text.startswith("accuracy"))
    results.rankings = frame(ranked(results, "models", label, models, 0), RANKINGS)
    (first,) = [s for s in of(results) if "best accuracy" in s]
    choice = "0.5 (0.2 – 0.8, selection-adjusted)"
    assert first.startswith(f"{models[0]} has the best accuracy of {len(models)} models, {choice}; it is significantly better than")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((0.25, 0.75), "m: over 2 prompts, accuracy is 0.25 (a) to 0.75 (b), a spread of 0.50."),
        ((0.75, 0.25), "m: over 2 prompts, accuracy is 0.25 (b) to 0.75 (a), a spread of 0.50."),
        ((0.5, 0.5), "m: over 2 prompts, accuracy is always 0.50."),
    ],
)
def test_the_spread_over_prompts(results: Any, values: tuple[float, float], said: str) -> None:
    row = results.scores.filter((pl.col("metric") == "accuracy") & (pl.col("variant") == "clean") & (pl.col("slice") == "all"))[:1]
    names = ["m@prompt=a", "m@prompt=b"]
    ends = [pl.lit(value).alias(name) for name, value in {"low": 0.2, "high": 0.8}.items()]
    rows = [row.with_columns(pl.lit(n).alias("model"), pl.lit(v).alias("value"), *ends) for n, v in zip(names, values, strict=True)]
    results.scores = pl.concat([results.scores, *rows])
    results.stage.params["prompts"] = {"m": names}
    assert [s for s in of(results) if "prompts" in s] == [said]


def test_what_has_a_value_and_could_not_be_compared_is_named(results: Any) -> None:
    """Of three models the one with the best value may be the one that no resamples say enough of."""
    a, b = results.models[:2]
    results.models.append("third")
    label = next(text for text in results.labels if text.startswith("accuracy"))
    row = results.scores.filter((pl.col("model") == a) & (pl.col("metric") == label) & (pl.col("variant") == "clean"))
    results.scores = pl.concat([results.scores, row.with_columns(pl.lit("third").alias("model"), pl.lit(1.0).alias("value"))])
    results.rankings = frame(ranked(results, "models", label, [a, b], 1), RANKINGS)
    choice = "0.5 (0.2 – 0.8, selection-adjusted)"
    compared = "the 2 models that could be compared (not third)"
    assert f"{a} has the best accuracy of {compared}, {choice}; the other is statistically tied." in of(results)
    tied = [one | {"value": 0.5} for one in ranked(results, "models", label, [a, b], 1)]
    results.rankings = frame(tied, RANKINGS)
    assert f"All {compared} have the same accuracy, 0.5." in of(results)
    results.rankings = frame(ranked(results, "estimators", "auroc", ["luq", "perplexity"], 1, a), RANKINGS)
    (said,) = [s for s in of(results) if "estimators" in s]
    assert said.startswith("Of the 2 estimators that could be compared (not mean token entropy), LUQ ranks")


def test_models_that_were_asked_a_part_are_not_ranked_among_the_others(results: Any) -> None:
    """Two dear models with 100 questions of each category have a ranking of their own, whatever its values."""
    label = next(text for text in results.labels if text.startswith("accuracy"))
    dear = [row | {"value": row["value"] + 0.3, "leader": "dear"} for row in ranked(results, "models", label, ["dear", "dearer"], 1)]
    results.rankings = frame([*dear, *ranked(results, "models", label, [*results.models, "more"], 0)], RANKINGS)
    assert [row["candidate"] for row in results.candidates("models", results.datasets[0], label)] == [*results.models, "more"]
    assert results.ranks("models", results.datasets[0], label) == {results.models[0]: "best"}
    (said,) = [s for s in of(results) if "best accuracy" in s]
    assert said.startswith(f"{results.models[0]} has the best accuracy of 3 models")


def test_models_without_a_ranking_say_why_with_their_values(results: Any) -> None:
    results.rankings = results.rankings.clear()
    few = pl.when(pl.col("variant") == "clean").then(14).otherwise(pl.col("n_groups")).alias("n_groups")
    results.scores = results.scores.with_columns(few)
    for kept in ("cells", "overall"):
        vars(results).pop(kept, None)
    said = [s for s in of(results) if "Models are not ranked by accuracy, since a ranking needs 20 groups" in s]
    assert len(said) > 0 and all(f"{m} 0." in s for s in said for m in results.models)
    assert "and 14 have a score" in said[0]


def test_a_single_model_without_an_interval_says_why(results: Any) -> None:
    a = results.models[0]
    results.models[1:] = []
    here = (pl.col("model") == a) & pl.col("metric").str.starts_with("accuracy") & (pl.col("variant") == "clean")
    none = {"low": None, "high": None, "why_no_interval": "4 scored groups: an interval needs 5"}
    changes = [
        pl.when(here).then(pl.lit(value, results.scores.schema[name])).otherwise(pl.col(name)).alias(name) for name, value in none.items()
    ]
    results.scores = results.scores.with_columns(changes)
    for kept in ("cells", "overall", "labels"):
        vars(results).pop(kept, None)
    (said,) = [s for s in of(results) if s.startswith(f"{a} has accuracy")]
    assert "(no interval: 4 scored groups: an interval needs 5) on choice" in said


def test_models_that_share_the_best_value(results: Any) -> None:
    a, b = results.models[:2]
    label = next(text for text in results.labels if text.startswith("accuracy"))
    rows = [row | {"value": 1.0, "low": None, "high": None} for row in ranked(results, "models", label, [a, b], 1)]
    results.rankings = frame(rows, RANKINGS)
    assert "Both models have the same accuracy, 1.000." in of(results)


def test_one_that_the_second_alone_beats_is_not_told_from_the_best(results: Any) -> None:
    rows = ranked(results, "estimators", "auroc", ["luq", "perplexity", "mean_token_entropy"], 0, results.models[0])
    rows[1]["p_adjusted"], rows[2]["p_adjusted"] = 0.01, 0.2
    results.rankings = frame(rows, RANKINGS)
    (said,) = [s for s in of(results) if "estimators" in s]
    choice = "AUROC 0.5 (0.2 – 0.8, selection-adjusted), where chance is 0.5"
    expected = (
        f"Of 3 estimators, LUQ ranks the wrong answers of {results.models[0]} best: {choice}; 1 of the 2 others is statistically tied."
    )
    assert said == expected, "its own interval would leave out .5 in most runs of useless estimators"


def test_estimators_that_tell_uncertain_questions(results: Any) -> None:
    rows = ranked(results, "estimators", "auroc_uncertain", ["luq", "perplexity"], 0, results.models[0])
    results.rankings = frame([row | {"p_adjusted": 0.2} for row in rows], RANKINGS)
    (said,) = [s for s in of(results) if "estimators" in s]
    assert said.startswith(f"Of 2 estimators, LUQ ranks the uncertain questions asked of {results.models[0]} best: AUROC 0.5 (")


def test_prediction_sets_have_one_sentence_per_model_and_say_where_they_are_uninformative(results: Any) -> None:
    of_sets = pl.col("metric").str.starts_with("coverage")
    band = {"target": 0.9, "band_low": 0.8, "band_high": 0.95, "promise": "at least 0.9 on average"}
    bands = [pl.when(of_sets).then(pl.lit(value)).otherwise(pl.col(name)).alias(name) for name, value in band.items()]
    results.scores = results.scores.with_columns(bands)
    model, dataset = results.models[0], results.datasets[0]
    vars(results)["uninformative"] = {(model, dataset, "ours", "aps")}
    said = [s for s in of(results) if "sets cover" in s]
    assert [s.partition(":")[0] for s in said] == results.models
    assert "LAC sets cover 0.90 of questions (target 0.90, band 0.80 – 0.95: within) with 1.7 options on average" in said[0].replace(
        "0.91", "0.90"
    )
    assert "but contain every option, so they are uninformative" in said[0] and "uninformative" not in said[1]
    vars(results)["uninformative"] = {(m, d, "ours", score) for m in results.models for d in results.datasets for score in ("aps", "lac")}
    assert sum("Prediction sets are uninformative: " in s for s in of(results)) == len([s for s in of(results) if "sets" in s]) > 0
    vars(results)["uninformative"] = set()
    results.scores = results.scores.with_columns(pl.lit("nothing is promised").alias("promise"))
    assert not [s for s in of(results) if "sets cover" in s]


def test_a_baseline_is_beaten_only_where_the_corrected_test_says_so(results: Any) -> None:
    a, b = results.models[:2]
    results.stage.params["baseline"] = a
    same = {
        "a": a,
        "b": b,
        "dataset": results.datasets[0],
        "slice": "all",
        "value_a": 0.5,
        "value_b": 0.75,
        "n": 9,
        "higher_is_better": True,
    }
    label = next(text for text in results.labels if text.startswith("accuracy"))
    row = same | {"metric": label, "difference": 0.25, "low": 0.1, "high": 0.4, "p": 0.001, "p_adjusted": 0.004}
    results.comparisons = frame([row], COMPARISONS)
    (said,) = [s for s in of(results) if f"than {a}" in s]
    assert said == f"{b} is significantly better than {a} on accuracy: +0.25 (+0.10 to +0.40), p = 0.0040."


@pytest.mark.parametrize(
    ("p", "told"),
    [
        (0.01, ", and than the baseline without the image ({}+blind_refuser)."),
        (
            0.5,
            "; it was not shown to be significantly better than every baseline without the image "
            "(least favourable test: against {}+blind_refuser).",
        ),
        (None, "; it was not shown to be significantly better than every baseline without the image."),
    ],
)
def test_a_gain_is_held_against_what_does_not_look(results: Any, p: float | None, told: str) -> None:
    a, b = results.models[:2]
    results.stage.params["baseline"] = a
    blind = f"{a}+blind_refuser"
    results.models.append(blind)
    label = next(text for text in results.labels if text.startswith("accuracy"))
    same = {"b": b, "dataset": results.datasets[0], "slice": "all", "metric": label, "n": 9, "higher_is_better": True, "difference": 0.25}
    rows = [same | {"a": a, "low": 0.1, "high": 0.4, "p_adjusted": 0.004}]
    rows += [] if p is None else [same | {"a": blind, "p_adjusted": p}]
    results.comparisons = frame([dict.fromkeys(COMPARISONS.names) | row for row in rows], COMPARISONS)
    (said,) = [s for s in of(results) if f"than {a}" in s]
    assert said == f"{b} is significantly better than {a} on accuracy: +0.25 (+0.10 to +0.40), p = 0.0040{told.format(a)}"


def with_rows(results: Any, values: dict[str, float]) -> str:
    """Further rows with these values of accuracy; its label."""
    a = results.models[0]
    label = next(text for text in results.labels if text.startswith("accuracy"))
    row = results.scores.filter((pl.col("model") == a) & (pl.col("metric") == label) & (pl.col("variant") == "clean"))
    more = [
        row.with_columns(model=pl.lit(name), value=pl.lit(value), low=pl.lit(value), high=pl.lit(value)) for name, value in values.items()
    ]
    results.scores = pl.concat([results.scores, *more])
    for kept in ("models", "cells", "overall", "labels"):
        vars(results).pop(kept, None)
    return str(label)


def test_what_does_not_look_is_told_of_beside_models(results: Any) -> None:
    a, b = results.models[:2]
    blind = [f"{a}+blind_refuser", f"{a}+swapped_picture"]
    label = with_rows(results, {blind[0]: 0.25, blind[1]: 0.125})
    held = "Of 2 baselines without the image, " + blind[0] + " has the best accuracy, 0.25 (0.25 – 0.25)"
    assert f"{held}; {a} was not shown to be significantly better than every such baseline." in of(results), "the best model, not tested"
    same = {"b": a, "dataset": results.datasets[0], "slice": "all", "metric": label, "n": 9, "higher_is_better": True, "difference": 0.25}
    tests = [dict.fromkeys(COMPARISONS.names) | same | {"a": name, "p_adjusted": 0.01} for name in blind]
    results.comparisons = frame(tests, COMPARISONS)
    assert f"{held}; {a} is significantly better than {blind[0]} and {blind[1]}." in of(results)
    results.comparisons = frame([tests[0], tests[1] | {"p_adjusted": 0.2}], COMPARISONS)
    told = f"{held}; {a} was not shown to be significantly better than every such baseline (least favourable test: against {blind[1]})."
    assert told in of(results)
    results.stage.params["baseline"] = b
    vars(results).pop("baseline", None), vars(results).pop("tests", None)
    assert f"{held}." in of(results), "what beats the baseline has a sentence of its own"


def test_a_version_of_a_model_is_no_further_model(results: Any) -> None:
    a, b = results.models[:2]
    version = f"{a}+thresholding"
    label = with_rows(results, {version: 0.5})
    rows = ranked(results, "models", label, [a, b, version], 0)
    results.rankings, results.abstaining = frame(rows, RANKINGS), {version: a}
    (said,) = [s for s in of(results) if "has the best accuracy" in s]
    assert said.startswith(f"{a} has the best accuracy of 2 models and 1 model with abstention or recalibration, ")


def test_what_is_not_distinguished_is_said_so(results: Any) -> None:
    a, b = results.models[:2]
    results.stage.params["baseline"] = a
    label = next(text for text in results.labels if text.startswith("accuracy"))
    same = {
        "a": a,
        "b": b,
        "dataset": results.datasets[0],
        "slice": "all",
        "value_a": 0.5,
        "value_b": 0.75,
        "n": 9,
        "higher_is_better": True,
    }
    row = same | {"metric": label, "difference": 0.25, "low": -0.1, "high": 0.6, "p": 0.2, "p_adjusted": 0.4}
    results.comparisons = frame([row], COMPARISONS)
    assert [s for s in of(results) if a in s and "statistically tied" in s] == [
        f"On accuracy {b} is statistically tied with {a}, which does not prove equality."
    ]
    results.comparisons = frame([row | {"margin": 0.7, "p_equivalent": 0.01, "p_not_worse": 0.005}], COMPARISONS)
    assert [s for s in of(results) if f"than {a}" in s or f"to {a}" in s or "apart from" in s] == [
        f"{b} is equal within 0.7 to {a} on accuracy: +0.2 (−0.1 to +0.6), p = 0.0100."
    ]


@pytest.mark.parametrize(
    ("p_adjusted", "told"),
    [
        ([0.4, 0.4], "all 2 tested models are"),
        ([0.01, 0.4], "1 of 2 tested models is"),
        ([0.01, 0.4, 0.4], "2 of 3 tested models are"),
        ([0.01, 0.02, 0.4], "1 of 3 tested models is"),
        ([0.01, 0.01], None),
    ],
)
def test_how_many_are_not_distinguished_from_the_baseline(results: Any, p_adjusted: list[float], told: str | None) -> None:
    """Those that are told apart come first, the largest difference before the others, whatever its sign."""
    a, b = results.models[:2]
    others = [b, "third", "fourth"][: len(p_adjusted)]
    results.models.extend(others[1:])
    results.stage.params["baseline"] = a
    label = next(text for text in results.labels if text.startswith("accuracy"))
    same = {"a": a, "dataset": results.datasets[0], "slice": "all", "metric": label, "n": 9, "higher_is_better": True}
    rows = [
        dict.fromkeys(COMPARISONS.names) | same | {"b": model, "difference": difference, "low": -0.5, "high": 0.5, "p_adjusted": p}
        for model, difference, p in zip(others, (0.125, -0.25, 0.0625), p_adjusted, strict=False)
    ]
    results.comparisons = frame(rows, COMPARISONS)
    said = [s for s in of(results) if f"than {a} on accuracy" in s or ("statistically tied with" in s and "equality" in s)]
    apart = [(m, "worse" if m == "third" else "better") for m, p in zip(others, p_adjusted, strict=True) if p < 0.05]
    expected = [f"{model} is significantly {better} than {a}" for model, better in sorted(apart, key=lambda one: one[0] != "third")]
    assert [s.partition(" on ")[0] for s in said if " p = " in s] == expected
    assert [s for s in said if "equality" in s] == (
        [f"On accuracy {told} statistically tied with {a}, which does not prove equality."] if told else []
    )


def test_how_many_are_distinguished() -> None:
    assert _ties_in_words(0, 1) == "it is significantly better than the other" and _ties_in_words(1, 1) == "the other is statistically tied"
    assert (
        _ties_in_words(0, 5) == "it is significantly better than all 5 others"
        and _ties_in_words(5, 5) == "all 5 others are statistically tied"
    )
    assert _ties_in_words(2, 5) == "2 of the 5 others are statistically tied"


def test_nothing_to_say_leaves_no_section(results: Any) -> None:
    assert findings(results) == []
    label = next(text for text in results.labels if text.startswith("accuracy"))
    results.rankings = frame(ranked(results, "models", label, results.models[:2], 1), RANKINGS)
    assert of(results)


@pytest.mark.parametrize("sees, way", [("question", "refuser"), ("picture", "picture_refuser")])
def test_what_tells_questions_apart_by_itself_is_said_where_no_row_does_so(results: Any, tmp_path: Path, sees: str, way: str) -> None:
    """A model that has learnt the traces of paint is better than every row that does not see the image."""
    blank = dict.fromkeys(SHORTCUTS.names) | {"category": "all", "n_learnt": 9, "n": 9, "in_turn": False}
    rows = [
        blank | {"sees": one, "balanced_accuracy": 0.8, "balanced_low": 0.7, "balanced_high": 0.9, "above_limit": one == sees}
        for one in ("question", "picture")
    ]
    write_table(tmp_path / "shortcuts.parquet", rows, SHORTCUTS)
    results.stage.inputs["shortcuts"] = {results.datasets[0]: str(tmp_path / "shortcuts.parquet")}
    (said,) = [s for s in of(results) if "alone separates" in s]
    assert said == (
        f"All categories together: a classifier of the {'image' if sees == 'picture' else sees} "
        "alone separates answerable from unanswerable questions with "
        f"a balanced accuracy of 0.800 (0.700 to 0.900). No classifier baseline uses this (add `blind: {way}`), "
        "so an improvement may come from it."
    )
    results.models.append(f"{results.models[0]}+{BLIND[way]}")
    assert not [s for s in of(results) if "alone separates" in s]
