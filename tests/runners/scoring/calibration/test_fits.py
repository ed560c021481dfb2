"""Recalibrated confidences: which rows are fitted and which read, options, undefined fits, fits made anew."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from qualm.runners.contracts.grouped_weights import Weights
from qualm.runners.plugins.calibrators.platt import platt
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.calibration import fits
from qualm.runners.scoring.calibration.drawing import FirstResamples, HeldDraws
from qualm.runners.scoring.calibration.fits import RAW, FittedOn, Scores, recalibrations
from qualm.runners.scoring.calibration.kinds import log_odds

RNG = np.random.default_rng(0)
N = 120
GROUPS = np.arange(N) // 2
CALIBRATES = GROUPS % 2 == 0
NONE = np.zeros(N, dtype=bool)
NO_TRUTH = np.full(N, -1)


def ref(plugin, **args):
    return {"label": plugin, "plugin": plugin, "args": args}


def setting(*methods, of=("",), refits=60):
    return {"label": "held", "methods": [ref(m) for m in methods], "of": list(of), "refits": refits}


def open_scores(**changes):
    confidence = RNG.uniform(0.05, 0.95, N)
    columns = {"confidence": confidence, "correct": (RNG.random(N) < confidence**2).astype(float), "uncertainties": {"u": -confidence}}
    columns["confidence"][[3, 8]] = np.nan
    return Scores(**(columns | {"probabilities": None} | changes))


def option_scores():
    logits = RNG.normal(size=(N, 4)) * 2
    logits[::3, 3] = np.nan
    probs = np.exp(logits) / np.nansum(np.exp(logits), axis=1, keepdims=True)
    truth = np.array([RNG.choice(4, p=np.nan_to_num(p) ** 0.5 / (np.nan_to_num(p) ** 0.5).sum()) for p in probs])
    predicted = np.nanargmax(probs, axis=1)
    return Scores(np.nanmax(probs, axis=1), (predicted == truth).astype(float), probs, {}), truth


def fitted(setting, scores, own, choice, truth, groups, calibrates):
    """Calibrators that are fitted on some of the answers that they are read at."""
    return recalibrations(setting, FittedOn(scores, choice, truth, groups, calibrates), own, choice, truth)


def of_open(scores, *methods, **more):
    return {r.label: r for r in fitted(setting(*methods, **more), scores, scores, NONE, NO_TRUTH, GROUPS, CALIBRATES)}


def test_the_fit_is_of_the_calibration_rows_and_is_read_on_the_others_alone():
    scores = open_scores()
    found = of_open(scores, "platt")
    assert list(found) == ["held/raw", "held/platt"]
    fit = CALIBRATES & ~np.isnan(scores.confidence)
    read = ~CALIBRATES & ~np.isnan(scores.confidence)
    expected = platt(logit(scores.confidence[fit]), scores.correct[fit], np.ones((1, fit.sum())), logit(scores.confidence[read]))[0]
    column = found["held/platt"].columns["confidence"]
    np.testing.assert_allclose(column[read], expected)
    assert np.isnan(column[~read]).all() and np.isnan(found["held/raw"].columns["confidence"][CALIBRATES]).all()
    np.testing.assert_array_equal(np.sort(found["held/platt"].rows), np.flatnonzero(fit))


def test_no_answer_that_is_read_has_a_say_in_the_fit():
    scores = open_scores()
    other = Scores(scores.confidence, np.where(CALIBRATES, scores.correct, 1 - scores.correct), None, scores.uncertainties)
    one, two = (of_open(s, "platt")["held/platt"].columns["confidence"] for s in (scores, other))
    np.testing.assert_array_equal(one, two)


def combined(scores, groups=GROUPS, calibrates=CALIBRATES, own=None):
    asked = setting("platt", "logistic_regression", of=("u", ("", "u")))
    found = fitted(asked, scores, own or scores, NONE, NO_TRUTH, groups, calibrates)
    return {r.label: r for r in found}


def test_several_scores_are_combined_by_methods_that_can():
    scores = open_scores()
    scores.uncertainties["u"] = RNG.normal(size=N) - scores.correct
    scores.uncertainties["u"][[5, 20]] = np.nan, np.inf
    found = combined(scores)
    assert list(found) == ["held/platt/u", "held/logistic_regression/u", "held/logistic_regression/confidence+u"]
    both = np.column_stack([logit(scores.confidence), -scores.uncertainties["u"]])
    known = ~np.isnan(both).any(axis=1)
    fit, read = CALIBRATES & known, ~CALIBRATES & known
    both[20, 1] = both[fit & (np.arange(N) != 20), 1].min()
    model = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-10)).fit(both[fit], scores.correct[fit])
    column = found["held/logistic_regression/confidence+u"].columns["confidence"]
    np.testing.assert_allclose(column[read], model.predict_proba(both[read])[:, 1], atol=2e-6)
    assert np.isnan(column[~read]).all()


def test_no_answer_that_is_read_has_a_say_in_the_combination():
    scores = open_scores()
    scores.uncertainties["u"] = RNG.normal(size=N)
    other = replace(scores, correct=np.where(CALIBRATES, scores.correct, 1 - scores.correct))
    one, two = (combined(s)["held/logistic_regression/confidence+u"].columns["confidence"] for s in (scores, other))
    np.testing.assert_array_equal(one, two)
    noise = replace(scores, uncertainties={"u": np.where(CALIBRATES, scores.uncertainties["u"], 9.0)})
    own = combined(noise, own=scores)["held/logistic_regression/confidence+u"].columns["confidence"]
    np.testing.assert_array_equal(one, own)
    assert not set(GROUPS[~np.isnan(one)]) & set(GROUPS[CALIBRATES])


def test_each_resample_has_the_combination_of_the_rows_that_it_draws():
    scores = open_scores()
    scores.uncertainties["u"] = RNG.normal(size=N)
    found = combined(scores)["held/logistic_regression/confidence+u"]
    some = FirstResamples(Bootstrap(GROUPS, 100, 7, "d", "all"), 5)
    drawn = np.concatenate([columns["confidence"] for columns in found.each(some)])
    weights = np.concatenate([np.asarray(block) for block in some.blocks()]).astype(int)
    both = np.column_stack([logit(scores.confidence), -scores.uncertainties["u"]])
    read = ~CALIBRATES & ~np.isnan(scores.confidence)
    for confidence, times in zip(drawn, weights, strict=True):
        rows = np.repeat(found.rows, times[found.rows])
        model = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-10)).fit(both[rows], scores.correct[rows])
        np.testing.assert_allclose(confidence[read], model.predict_proba(both[read])[:, 1], atol=2e-6)
    assert len({tuple(row) for row in drawn[:, read].round(9)}) == 5, "each by its own fit"


@pytest.mark.parametrize(
    ("correct", "calibrates", "why"),
    [
        (np.ones(N), CALIBRATES, "every answer that calibrates is right"),
        (None, GROUPS < 5, "8 answers that calibrate: a fit needs 20"),
    ],
)
def test_a_combination_without_enough_answers_is_undefined_and_says_why(correct, calibrates, why):
    scores = open_scores(**({} if correct is None else {"correct": correct}))
    found = combined(scores, calibrates=calibrates)["held/logistic_regression/confidence+u"]
    assert found.why.startswith(why) and np.isnan(found.columns["confidence"]).all() and found.refits == 0


def test_an_estimator_is_turned_round_and_methods_for_probabilities_leave_it_out():
    scores = open_scores()
    scores.uncertainties["u"][:2] = [np.inf, -np.inf]
    found = of_open(scores, "temperature", "platt", of=("u",))
    assert list(found) == ["held/platt/u"]
    column = found["held/platt/u"].columns["confidence"]
    order = np.argsort(scores.uncertainties["u"][~CALIBRATES])
    assert (np.diff(column[~CALIBRATES][order]) <= 1e-12).all()
    rising = of_open(scores, "isotonic", of=("u",))["held/isotonic/u"].columns["confidence"]
    assert np.ptp(rising[~CALIBRATES]) > 0.3, "by a method that takes no falling order: the more doubt, the less likely right"


def test_options_one_against_the_rest_by_hand():
    scores, truth = option_scores()
    choice = np.ones(N, dtype=bool)
    _, found = fitted(setting("platt"), scores, scores, choice, truth, GROUPS, CALIBRATES)
    there = ~np.isnan(scores.probabilities)
    row, option = np.nonzero(there & CALIBRATES[:, None])
    score, right = logit(scores.probabilities[row, option]), (truth[row] == option).astype(float)
    for i in np.flatnonzero(~CALIBRATES)[:10]:
        own = platt(score, right, np.ones((1, len(score))), logit(scores.probabilities[i][there[i]]))[0]
        assert found.columns["confidence"][i] == pytest.approx((own / own.sum()).max())
        assert found.columns["predicted"][i] == own.argmax()
        assert found.columns["correct"][i] == (own.argmax() == truth[i])


@pytest.mark.parametrize("wider", ["fitted", "read"])
def test_options_that_only_one_side_has_change_nothing(wider):
    scores, truth = option_scores()
    choice = np.ones(N, dtype=bool)
    more = replace(scores, probabilities=np.column_stack([scores.probabilities, np.full(N, np.nan)]))
    fit_on, own = (more, scores) if wider == "fitted" else (scores, more)
    for method in ("platt", "temperature"):
        same, found = (
            list(fitted(setting(method), *of, choice, truth, GROUPS, CALIBRATES))[1].columns for of in ((scores, scores), (fit_on, own))
        )
        for name in ("confidence", "predicted", "correct"):
            np.testing.assert_array_equal(found[name], same[name])


def test_one_temperature_for_all_options_keeps_what_is_predicted():
    scores, truth = option_scores()
    choice = np.ones(N, dtype=bool)
    _, found = fitted(setting("temperature"), scores, scores, choice, truth, GROUPS, CALIBRATES)
    read = ~CALIBRATES
    np.testing.assert_array_equal(found.columns["predicted"][read], np.nanargmax(scores.probabilities[read], axis=1))
    np.testing.assert_array_equal(found.columns["correct"][read], scores.correct[read])
    assert (found.columns["confidence"][read] < scores.confidence[read]).mean() > 0.9


def test_a_data_set_of_both_kinds_has_a_fit_of_each():
    (mixed, truth), plain = option_scores(), open_scores()
    choice = np.arange(N) % 4 < 2
    both = Scores(
        np.where(choice, mixed.confidence, plain.confidence), np.where(choice, mixed.correct, plain.correct), mixed.probabilities, {}
    )
    _, found = fitted(setting("platt"), both, both, choice, np.where(choice, truth, -1), GROUPS, GROUPS % 4 < 2)
    assert len(found.parts) == 2
    read = GROUPS % 4 >= 2
    assert np.isnan(found.columns["confidence"][read]).sum() == (np.isnan(both.confidence) & read).sum()
    np.testing.assert_array_equal(found.columns["correct"][read & ~choice], plain.correct[read & ~choice])
    apart = replace(both, correct=np.where(choice, both.correct, both.confidence > 0.5))
    made = {"label": "held", "methods": [ref("platt", prior_correction=False)], "of": [""], "refits": 60}
    _, found = fitted(made, apart, apart, choice, np.where(choice, truth, -1), GROUPS, GROUPS % 4 < 2)
    assert found.why.startswith("platt has no fit to these answers") and found.parts == [], "none of open ones, so none at all"


MORE = "score more questions, raise `calibration: {fraction}`, or calibrate on a split: `fit: val`"


@pytest.mark.parametrize(
    ("correct", "calibrates", "why"),
    [
        (np.ones(N), CALIBRATES, "every answer that calibrates is right, so there is nothing to learn; ask harder questions"),
        (np.zeros(N), CALIBRATES, "every answer that calibrates is wrong, so there is nothing to learn; ask easier questions"),
        (None, GROUPS < 5, f"8 answers that calibrate: a fit needs 20; {MORE}"),
        (np.full(N, np.nan), CALIBRATES, f"0 answers that calibrate: a fit needs 20; {MORE}"),
    ],
)
def test_where_there_is_nothing_to_fit_it_is_undefined_and_says_why(correct, calibrates, why):
    scores = open_scores(**({} if correct is None else {"correct": correct}))
    _, found = fitted(setting("platt"), scores, scores, NONE, NO_TRUTH, GROUPS, calibrates)
    assert found.why == why and np.isnan(found.columns["confidence"]).all() and found.refits == 0


def test_few_groups():
    scores = open_scores()
    _, found = fitted(setting("platt"), scores, scores, NONE, NO_TRUTH, np.arange(N) // 40, np.arange(N) < 40)
    assert found.why == f"1 groups that calibrate: a fit needs 5, whatever the number of answers; {MORE}"
    for groups, why in ((4, f"4 groups that calibrate: a fit needs 5, whatever the number of answers; {MORE}"), (5, "")):
        _, found = fitted(setting("platt"), scores, scores, NONE, NO_TRUTH, np.arange(N) // 10, np.arange(N) < 10 * groups)
        assert found.why == why
    for answers, why in ((19, f"19 answers that calibrate: a fit needs 20; {MORE}"), (20, "")):
        known = np.isfinite(scores.confidence) & np.isfinite(scores.correct)
        _, found = fitted(setting("platt"), scores, scores, NONE, NO_TRUTH, np.arange(N), known & (np.cumsum(known) <= answers))
        assert found.why == why


def test_a_fit_that_is_none():
    score = np.linspace(0.02, 0.98, N)
    scores = open_scores(confidence=score, correct=(score > 0.5).astype(float))
    made = {"label": "held", "methods": [ref("platt", prior_correction=False)], "of": [""], "refits": 60}
    _, found = fitted(made, scores, scores, NONE, NO_TRUTH, GROUPS, CALIBRATES)
    assert found.why == "platt has no fit to these answers; `isotonic`, `venn_abers` and `platt: {prior_correction: true}` always have one"


def test_each_resample_has_the_fit_of_the_rows_that_it_draws(monkeypatch):
    scores = open_scores()
    found = of_open(scores, "platt")["held/platt"]
    some = FirstResamples(Bootstrap(GROUPS, 100, 7, "d", "all"), 20)
    drawn = np.concatenate([columns["confidence"] for columns in found.each(some)])
    assert len(drawn) == 20
    kept = list(found.each(some))
    for most, is_kept in ((20 * N, True), (20 * N - 1, False)):
        monkeypatch.setattr(fits, "MAX_NUMBERS", most)
        assert (next(found.each(some)) is kept[0]) is is_kept, "all are kept where they are few"
    weights = np.concatenate([np.asarray(block) for block in some.blocks()]).astype(int)
    read = ~CALIBRATES & ~np.isnan(scores.confidence)
    for confidence, times in list(zip(drawn, weights, strict=True))[:5]:
        rows = np.repeat(found.rows, times[found.rows])
        own = platt(logit(scores.confidence[rows]), scores.correct[rows], np.ones((1, len(rows))), logit(scores.confidence[read]))[0]
        np.testing.assert_allclose(confidence[read], own, atol=1e-8)


@pytest.mark.parametrize("held", [None, HeldDraws(GROUPS // 3, 40, 3, "d")], ids=["scored", "held"])
def test_resamples_are_fitted_some_at_a_time_each_by_its_own_draw(held, monkeypatch):
    resamples = Bootstrap(GROUPS, 40, 7, "d", "all")
    found = of_open(open_scores(), "platt")["held/platt"]
    groups = GROUPS[found.rows] if held is None else GROUPS[found.rows] // 3
    found = replace(found, parts=[replace(part, held=held) for part in found.parts])
    assert found.groups(resamples) == len(np.unique(groups))
    counts, group = np.concatenate([block.counts for block in resamples.blocks()]), GROUPS
    blocks = SimpleNamespace(blocks=lambda: iter([Weights(counts[:25], group), Weights(counts[25:], group)]))
    monkeypatch.setattr(fits, "MAX_NUMBERS", 4 * N - 1)
    apart = [columns["confidence"] for columns in found._chunks(blocks)]
    assert [len(columns) for columns in apart] == [3] * 8 + [1] + [3] * 5
    np.testing.assert_allclose(np.concatenate(apart), found._columns(Weights(counts, group), N, 0)["confidence"])
    monkeypatch.setattr(fits, "MAX_NUMBERS", N - 1)
    assert {len(columns["confidence"]) for columns in found._chunks(blocks)} == {1}, "one at least"


def test_some_rows_and_those_of_another_model():
    one, two = (of_open(open_scores(), "platt")["held/platt"] for _ in range(2))
    read = one.parts[0].at
    gone = np.where(np.arange(N) == read[0], np.nan, two.columns["confidence"])
    two = replace(two, calibrates=two.calibrates | (np.arange(N) == read[1]), columns={"confidence": gone}, why="no")
    common = one.on_common_rows(two)
    assert common.calibrates[read[1]] and common.calibrates.sum() == CALIBRATES.sum() + 1 and common.why == "no"
    np.testing.assert_array_equal(common.columns["confidence"], np.where(np.arange(N) == read[0], np.nan, one.columns["confidence"]))
    for kept in (np.arange(N - 1, -1, -2), np.arange(0, N, 3)):
        some = one.select(kept)
        for taken, whole in ((some.columns["confidence"], one.columns["confidence"]), (some.calibrates, one.calibrates)):
            np.testing.assert_array_equal(taken, whole[kept])
        np.testing.assert_array_equal(kept[some.rows], one.rows[np.isin(one.rows, kept)])
        own = some._columns(Weights(np.ones((1, len(kept))), np.arange(len(kept))), len(kept))["confidence"]
        drawn = one._columns(Weights(np.isin(np.arange(N), kept)[None] * 1.0, np.arange(N)), N)["confidence"]
        np.testing.assert_allclose(own, drawn[:, kept])


def test_log_odds_are_finite():
    found = log_odds(np.array([0.0, 0.2, 0.5, 1.0, np.nan]))
    assert np.isfinite(found[:4]).all() and np.isnan(found[4]) and found[2] == 0
    np.testing.assert_allclose(expit(found[1]), 0.2)
    assert RAW == "raw"
