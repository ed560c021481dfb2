"""A threshold for each part: against order statistics by hand, crepes' Mondrian classifier, and coverage in simulated draws."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from qualm.registry import OPTION_PARTS
from qualm.registry.plugins import registry
from qualm.registry.sample import SAMPLES
from qualm.runners.contracts.grouped_weights import Weights
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.calibration.conformal_band import band, describe_guarantee, design_effect
from qualm.runners.scoring.calibration.conformal_draws import redraw
from qualm.runners.scoring.calibration.conformal_parts import QuestionParts, parts_of
from qualm.runners.scoring.calibration.conformal_sets import prediction_sets, threshold

K, ALPHA = 3, 0.1357


def some(n, seed=0):
    """Samples of three categories, one of them rare; probabilities that know the last option least."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, K, n)
    category = ["rare" if i < 6 else "ab"[i // 2 % 2] for i in range(n)]
    rows = [
        {"sample_id": f"s{i}", "question": "?", "answerable": True, "category": c, "answer_index": int(t)}
        | {"choices": ["Yes", " no", "maybe"][:: (-1) ** i]}
        for i, (t, c) in enumerate(zip(truth, category, strict=True))
    ]
    logits = rng.normal(size=(n, K)) + np.array([2.5, 1.5, 0.3])[truth][:, None] * (np.arange(K) == truth[:, None])
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES)), probs, truth, np.array(category)


def by_hand(scores, alpha):
    """The k-th smallest; none where k is more than there are."""
    k = math.ceil((len(scores) + 1) * (1 - alpha))
    return np.sort(scores)[k - 1] if k <= len(scores) else np.nan


@pytest.mark.parametrize("per", ["label", "category", "option"])
def test_each_part_has_the_order_statistic_of_its_own_rows(per):
    samples, probs, truth, category = some(120)
    parts = parts_of(samples, {"per": per})
    own = np.where(np.arange(120) % 2 == 0, 1 - probs[np.arange(120), truth], np.nan)
    text = np.array([samples.table["choices"][i].as_py()[truth[i]].strip().casefold() for i in range(120)])
    of_row = {"label": np.array(list("ABC"))[truth], "category": category, "option": text}[per]
    names = {"label": ("A", "B", "C"), "category": ("a", "b", "rare"), "option": ("maybe", "no", "yes")}[per]
    assert parts.names == names
    limits = parts.thresholds(own, ALPHA, "standard", np.arange(len(own)))
    assert limits == pytest.approx([by_hand(own[(of_row == name) & ~np.isnan(own)], ALPHA) for name in names], nan_ok=True)
    assert np.isnan(limits).tolist() == [name == "rare" for name in names], "3 rows of it calibrate"
    assert parts.of_labels == (per in OPTION_PARTS)
    assert parts.why_incomplete(limits) == (
        "too few questions (or groups of questions) calibrate a threshold of category 'rare': take more, or a larger alpha"
        if per == "category"
        else ""
    )


def test_a_question_of_a_part_without_a_threshold_has_none_and_such_a_label_is_in_every_set():
    samples, _, truth, category = some(120)
    groups = parts_of(samples, {"per": "category"})
    limits = np.array([0.4, 0.7, np.nan])
    assert np.isnan(groups.of_options(limits)[category == "rare"]).all()
    assert (groups.of_options(limits)[category == "b"] == 0.7).all()
    assert (groups.lacks_threshold(limits) == (category == "rare")).all()
    labels = parts_of(samples, {"per": "label"})
    np.testing.assert_array_equal(labels.of_options(limits)[0], [0.4, 0.7, np.inf])
    assert (labels.lacks_threshold(limits) == (truth == 2)).all()


def test_questions_that_have_no_value_of_the_field_are_of_no_part_and_counted():
    rows = [{"sample_id": f"s{i}", "question": "?", "choices": ["x", "y"], "answer_index": 0, "answerable": True} for i in range(4)]
    rows[0]["meta"], rows[1]["meta"] = [("kind", "u")], [("kind", "v")]
    parts = parts_of(Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES)), {"per": "kind"})
    assert parts.names == ("u", "v") and parts.of_row.tolist() == [0, 1, -1, -1]
    assert parts.why_incomplete(np.array([0.5, 0.5])) == "no 'kind' of 2 questions"
    assert parts_of(None, {}) is None


@pytest.mark.parametrize("per", ["label", "category"])
def test_sets_are_those_of_crepes(per):
    crepes = pytest.importorskip("crepes")
    n = 300
    samples, probs, truth, _ = some(n, 4)
    parts = parts_of(samples, {"per": per})
    scores, calibrates = 1 - probs, np.arange(n) % 2 == 0
    own = np.where(calibrates, scores[np.arange(n), truth], np.nan)
    limits = parts.thresholds(own, ALPHA, "standard", np.arange(len(own)))
    inside, _ = prediction_sets(scores, probs, parts.of_options(limits), "empty")
    test = np.flatnonzero(~calibrates & ~np.isnan(np.append(limits, np.nan)[parts.of_row]))
    fitted = crepes.base.ConformalClassifier()
    fitted.fit(own[calibrates], bins=parts.of_row[calibrates])
    for option in range(K):
        bins = np.full(len(test), option) if per == "label" else parts.of_row[test]
        p = fitted.predict_p(scores[test][:, [option]], bins=bins, smoothing=False)
        np.testing.assert_array_equal(inside[test, option], p[:, 0] > ALPHA)


@pytest.mark.parametrize("per", ["label", "category"])
def test_a_resample_takes_the_thresholds_of_its_own_rows_written_out(monkeypatch, per):
    n = 90
    samples, probs, truth, _ = some(n, 2)
    calibrates = (np.arange(n) % 2 == 0) * 1.0
    setting = {"alpha": ALPHA, "quantile": "standard", "empty_set": "empty", "per": per, "calibration": {"split": "groups"}}
    one = redraw(setting, {"label": "lac", "plugin": "lac", "args": {}}, probs, probs, truth, calibrates, samples)
    scores = registry.load("conformal", "lac")(probs)
    resamples = Bootstrap(np.arange(n) // 3, 12, 5)
    counts = np.concatenate([np.asarray(block) for block in resamples.blocks()]).astype(int)
    monkeypatch.setattr("qualm.runners.scoring.calibration.conformal_draws.CHUNK", 5)
    chunks = list(one.each(resamples))
    covered, size = (np.concatenate([columns[name] for columns in chunks]) for name in ("covered", "set_size"))
    assert all(kept is made for kept, made in zip(one.each(resamples), chunks, strict=True)), "made once for all slices"
    for most, is_kept in ((12 * n, True), (12 * n - 1, False)):
        monkeypatch.setattr("qualm.runners.scoring.calibration.conformal_draws.MAX_NUMBERS", most)
        again = list(one.each(resamples))
        assert [kept is made for kept, made in zip(again, chunks, strict=True)] == [is_kept] * 3, "or anew where they are many"
        assert all((kept["covered"] == made["covered"]).all() for kept, made in zip(again, chunks, strict=True))
    for b, drawn in enumerate(counts):
        rows = np.repeat(np.arange(n), drawn * (calibrates == 1))
        limits = np.array([by_hand(scores[r, truth[r]] if len(r := rows[one.parts.of_row[rows] == p]) else [], ALPHA) for p in range(3)])
        limits[np.isnan(limits)] = np.inf
        inside = scores <= limits[one.parts.of_option] + 1e-12
        assert (covered[b] == inside[np.arange(n), truth]).all() and (size[b] == inside.sum(axis=1)).all()


def test_the_band_of_parts_has_the_rows_of_each_that_has_any():
    samples, probs, truth, category = some(120)
    setting = {"alpha": ALPHA, "quantile": "standard", "empty_set": "empty", "per": "category", "calibration": {"split": "groups"}}
    calibrates = np.arange(120) % 3 > 0
    one = redraw(setting, {"label": "lac", "plugin": "lac", "args": {}}, probs, probs, truth, calibrates * 1.0, samples)
    rows = np.arange(6, 107)  # none of the rare category
    sizes = [(int((calibrates & (category == name)).sum()), int((category[rows] == name).sum())) for name in "ab"]
    covered, group = np.tile([1.0, 1, 1, 0, 0], 21)[: len(rows)], np.arange(len(rows)) // 5
    expected = band(ALPHA, "standard", sizes, design_effect(covered, group))
    assert sizes[0] != sizes[1]
    assert one.band(rows, covered, group) == replace(expected, promise=describe_guarantee("question", expected, shared_by_part="category"))


@pytest.mark.parametrize("split", ["groups", "rows"])
def test_the_threshold_of_a_part_is_by_the_groups_that_have_a_question_of_it(split):
    samples, probs, truth, category = some(240)
    group = np.arange(240) // 10
    grouped = Samples("d", samples.table.set_column(samples.table.schema.get_field_index("group"), "group", [[str(g) for g in group]]))
    setting = {"alpha": 0.2, "quantile": "standard", "empty_set": "empty", "per": "category", "calibration": {"split": split}}
    calibrates = group % 2 == 0
    one = redraw(setting, {"label": "lac", "plugin": "lac", "args": {}}, probs, probs, truth, calibrates * 1.0, grouped)
    limits = one.parts.thresholds(one.calibration_scores, 0.2, "standard", one.units)
    for p, name in enumerate(one.parts.names):
        rows = calibrates & (category == name)
        units = group if split == "groups" else np.arange(240)
        assert one.calibrating_units[p] == len(set(units[rows]))
        limit = threshold(one.calibration_scores[rows], 0.2, "standard", units[rows])
        assert (np.isnan(limits[p]) and math.isinf(limit)) or limits[p] == limit
    assert np.isnan(limits[one.parts.names.index("rare")]) == (split == "groups"), "six rows, all in one group"


def test_of_many_parts_without_a_threshold_five_are_named():
    for n, more in ((5, ""), (6, " and 1 more"), (7, " and 2 more")):
        names = tuple("abcdefg"[:n])
        parts = QuestionParts("kind", names, np.arange(n), np.arange(n)[:, None])
        listed = "'a', 'b', 'c', 'd', 'e'"
        assert parts.why_incomplete(np.full(n, np.nan)).startswith(
            f"too few questions (or groups of questions) calibrate a threshold of kind {listed}{more}: "
        )
    assert QuestionParts("kind", ("a", "b"), np.array([0, 0]), np.zeros((2, 1))).why_incomplete(np.array([0.5, np.nan])) == "", (
        "none is of it"
    )


def test_open_questions_are_of_no_part_and_letters_end_with_z():
    rows = [
        {
            "sample_id": "s0",
            "question": "?",
            "category": "x",
            "choices": [f"o{i}" for i in range(28)],
            "answer_index": 27,
            "answerable": True,
        },
        {"sample_id": "s1", "question": "?", "category": "y", "references": ["a"], "answerable": True},
        {"sample_id": "s2", "question": "?", "category": "x", "references": ["a"], "answerable": True},
    ]
    mixed = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    by_category, by_label, by_option = (parts_of(mixed, {"per": per}) for per in ("category", "label", "option"))
    assert by_category.names == ("x",) and by_category.of_row.tolist() == [0, -1, -1] and (by_category.of_option[1:] == -1).all()
    assert by_label.names[:26] == tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ") and by_label.names[26:] == ("27", "28")
    assert by_label.of_row.tolist() == [27, -1, -1] and by_label.of_option[0].tolist() == list(range(28))
    assert by_option.names[by_option.of_row[0]] == "o27" and by_option.of_row[1:].tolist() == [-1, -1]
    alone = parts_of(Samples("d", pa.Table.from_pylist(rows[1:], schema=SAMPLES)), {"per": "option"})
    assert alone.names == () and alone.of_row.tolist() == [-1, -1]


def test_some_rows_keep_their_parts():
    samples, probs, truth, _ = some(60)
    setting = {"alpha": 0.1, "quantile": "standard", "empty_set": "empty", "per": "category", "calibration": {"split": "groups"}}
    one = redraw(setting, {"label": "lac", "plugin": "lac", "args": {}}, probs, probs, truth, np.ones(60), samples)
    backwards = one.select(np.arange(59, -1, -1))
    assert backwards.parts.of_row.tolist() == one.parts.of_row[::-1].tolist() and backwards.lacking == one.lacking != ""

    class Whole:
        def blocks(self):
            yield Weights(np.ones((1, 1)), np.zeros(60, dtype=np.int64))

    assert backwards.thresholds(Whole()).tolist() == one.thresholds(Whole()).tolist()


def test_the_band_of_several_parts_is_that_of_the_sum_of_their_beta_binomials():
    sizes = [(40, 30), (99, 70), (5, 10)]
    found = band(0.1, "standard", sizes, 1.0)
    chance = np.ones(1)
    for calibration, test in sizes[:2]:
        k = math.ceil((calibration + 1) * 0.9 - 1e-9)
        chance = np.convolve(chance, stats.betabinom(test, k, calibration + 1 - k).pmf(np.arange(test + 1)))
    chance = np.append(np.zeros(10), chance)
    summed = np.cumsum(chance)
    assert found.low == np.searchsorted(summed, 0.025) / 110 and found.high == np.searchsorted(summed, 0.975) / 110
    said = describe_guarantee("question", found, shared_by_part="category")
    assert said.startswith("at least 0.9 given the category on average") and "of the same part" in said


@pytest.mark.parametrize("per", ["label", "category"])
def test_coverage_holds_within_each_part_where_one_threshold_for_all_misses_it(per):
    """400 draws of 150 calibration and 150 test questions: mean coverage of each part is in [1 - alpha, 1 - alpha + 1 / (n + 1)], within
    three standard errors of the simulation."""
    draws, n = 400, 300
    within, pooled, least = [], [], []
    for seed in range(draws):
        rng = np.random.default_rng([9, seed])
        part = rng.integers(0, K, n)
        scores = rng.beta(np.array([2.0, 4.0, 8.0])[part], 5.0)  # of right options: parts differ in how badly they fit
        parts = QuestionParts(per, ("A", "B", "C"), part, np.repeat(part[:, None], K, axis=1))
        own = np.where(np.arange(n) < 150, scores, np.nan)
        limits = parts.thresholds(own, 0.1, "standard", np.arange(n))
        test = np.arange(n) >= 150
        within.append([(scores <= limits[p])[test & (part == p)].mean() for p in range(K)])
        pooled.append([(scores <= by_hand(own[:150], 0.1))[test & (part == p)].mean() for p in range(K)])
        least.append(min(int(((part == p) & ~test).sum()) for p in range(K)))
    mean, error = np.mean(within, axis=0), np.std(within, axis=0) / np.sqrt(draws)
    assert (mean > 0.9 - 3 * error).all() and (mean < 0.9 + 1 / (np.mean(least) + 1) + 3 * error).all()
    assert np.mean(pooled, axis=0)[2] < 0.82 < 0.98 < np.mean(pooled, axis=0)[0]
