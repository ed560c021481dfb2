"""Corrections against other implementations, and the error rate of a family by simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import false_discovery_control
from statsmodels.stats.multitest import multipletests

from qualm.runners.scoring.families import NORMAL_TAIL, TAIL, Evidence, Family, adjusted, balanced_spread, describe_margin, max_t


def test_corrections():
    """Hand-made for Holm; scipy for Benjamini-Hochberg."""
    p = [0.01, 0.04, 0.03, 0.005]
    assert adjusted(p, "holm") == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjusted(p, "benjamini_hochberg") == pytest.approx(stats.false_discovery_control(p))
    assert adjusted(p, "none") == p
    assert adjusted([np.nan, 0.02], "holm") == pytest.approx([np.nan, 0.02], nan_ok=True)
    assert adjusted([], "holm") == []
    assert adjusted([0.9, 0.2, 0.8], "holm") == pytest.approx([1, 0.6, 1])
    assert adjusted([0.9, 0.2, 0.8], "benjamini_hochberg") == pytest.approx([0.9, 0.6, 0.9])
    with pytest.raises(ValueError, match="correction: expected holm"):
        adjusted(p, "bonferoni")


@pytest.mark.slow
@settings(max_examples=15)  # a call of statsmodels takes a tenth of a second
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holms_correction_is_that_of_statsmodels(values):
    np.testing.assert_allclose(adjusted(values, "holm"), multipletests(values, method="holm")[1], atol=1e-12)


def evidence_of(values, times, rng):
    """Student's t of each row's mean, and its bootstrap: (m, n) -> evidence of m tests that share their resamples."""
    drawn = values[:, rng.integers(0, values.shape[1], (times, values.shape[1]))].mean(axis=2)
    centred = drawn - drawn.mean(axis=1, keepdims=True)
    draws = (centred / centred.std(axis=1, keepdims=True)).astype(np.float32)
    return [Evidence(float(p), d) for p, d in zip(stats.ttest_1samp(values, 0, axis=1).pvalue, draws, strict=True)]


def test_one_test_alone_is_hardly_corrected():
    rng = np.random.default_rng(1)
    (test,) = evidence_of(rng.normal(0.3, 1, (1, 40)), 1999, rng)
    assert max_t([test]) == [pytest.approx(test.p, rel=0.2)] and max_t([test])[0] >= test.p


def test_by_hand():
    """The largest deviate against the largest of all, the second against the largest of the others; order kept, undefined left out."""
    p_of = lambda z: float(2 * stats.norm.sf(z))  # noqa: E731
    tests = [
        Evidence(p_of(1.0), np.array([0.5, -1.5, 0.5], np.float32)),
        Evidence(np.nan),
        Evidence(p_of(2.0), np.array([-2.5, 0.1, 0.1], np.float32)),
    ]
    assert max_t(tests) == pytest.approx([0.5, np.nan, 0.5], nan_ok=True)
    assert max_t([tests[1]]) == pytest.approx([np.nan], nan_ok=True) and max_t([]) == []
    as_large = Evidence(p_of(1.0), np.array([1.0, 0.5, 0.2, 7.0], np.float32))
    assert max_t([as_large]) == [3 / 5], "what is equal is as large"
    fewer = Evidence(p_of(3.0), np.array([0.1, 9.0], np.float32))
    assert max_t([as_large, fewer])[1] == pytest.approx(3 / 5), "two resamples, repeated beside four"
    assert max_t([Evidence(0.04, np.array([0.1, 0.2], np.float32))]) == [pytest.approx(1 / 3)]
    assert max_t([Evidence(0.4, np.zeros(9, np.float32))]) == [0.4], "never below the raw p"
    assert max_t([Evidence(0.01), Evidence(0.03), Evidence(np.nan)]) == pytest.approx([0.02, 0.03, np.nan], nan_ok=True), "Holm's"


def test_tests_that_go_together_count_once():
    rng = np.random.default_rng(2)
    (test,) = evidence_of(rng.normal(0.4, 1, (1, 50)), 999, rng)
    assert max_t([test] * 100) == max_t([test]) * 100
    assert adjusted([test.p] * 100, "holm")[0] == pytest.approx(min(1, 100 * test.p))


@pytest.mark.slow
def test_the_error_rate_of_a_family_and_its_power():
    """60 tests that share half of what they see: no more false alarms than .06; of one real difference at least what Holm finds."""
    rng = np.random.default_rng(3)
    false, found, by_holm = 0, 0, 0
    for _ in range(300):
        values = rng.normal(size=(60, 50)) + rng.normal(size=50)
        false += min(max_t(evidence_of(values, 199, rng))) < 0.05
        values[0] += 0.85
        tests = evidence_of(values, 1999, rng)
        found += max_t(tests)[0] < 0.05
        by_holm += adjusted([t.p for t in tests], "holm")[0] < 0.05
    assert false / 300 <= 0.06 + 2 * np.sqrt(0.05 * 0.95 / 300)
    assert found >= by_holm


def test_a_clear_difference_is_found_in_a_large_family():
    rng = np.random.default_rng(4)
    tests = evidence_of(np.vstack([rng.normal(size=(527, 60)), rng.normal(1, 0.5, (1, 60))]), 999, rng)
    assert max_t(tests)[-1] == pytest.approx(1 / 1000)


def test_margins_are_corrected_by_holms_method_beside_max_t():
    family = Family("max_t", "study")
    for p in (0.01, 0.03, None):
        family.add({"dataset": "d", "slice": "all", "metric": "m", "p_equivalent": p, "p_not_worse": p}, Evidence(0.5))
    family.correct()
    assert [row["p_equivalent"] for row, _ in family.rows] == [pytest.approx(0.02), pytest.approx(0.03), None]
    assert [row["p_not_worse"] for row, _ in family.rows] == [pytest.approx(0.02), pytest.approx(0.03), None]
    assert describe_margin({"p_equivalent": 0.05, "p_not_worse": 0.05, "margin": 0.1}) == ""


@pytest.mark.parametrize("span", ["metric", "slice", "study"])
def test_what_is_corrected_together(span):
    """On one dataset and slice all variants and estimators of a metric, or all metrics too; or everything."""
    rng = np.random.default_rng(3)
    names = [(d, s, m, e) for d in ("d1", "d2") for s in ("all", "kind=a") for m in ("urr", "hcc") for e in ("x", "y", "z")]
    family = Family("benjamini_hochberg", span)
    for d, s, m, e in names:
        p = rng.random() / 5
        family.add({"dataset": d, "slice": s, "metric": f"{m}[{e}]", "variant": "blur", "p": p}, Evidence(p))
    family.correct()
    rows = [row for row, _ in family.rows]
    for dataset, part, metric in {(d, s, m) for d, s, m, _ in names}:
        here = [
            r
            for r in rows
            if span == "study" or ((r["dataset"], r["slice"]) == (dataset, part) and (span == "slice" or r["metric"].startswith(metric)))
        ]
        assert [r["p_adjusted"] for r in here] == pytest.approx(false_discovery_control([r["p"] for r in here]).tolist())


@pytest.mark.parametrize("times", [1, 2, 50, 101, 1000])
@pytest.mark.parametrize("kind", ["normal", "heavy", "none", "with gaps"])
def test_a_spread_is_the_larger_of_two_to_the_bit(kind, times):
    rng = np.random.default_rng(times)
    deviations = rng.standard_t(2, (7, times)) if kind == "heavy" else rng.normal(size=(7, times)) * (kind != "none")
    if kind == "with gaps" and times > 1:
        deviations[2, 0] = np.nan
    tail = np.nanquantile(np.abs(deviations), TAIL, axis=-1) / NORMAL_TAIL
    expected = np.maximum(np.sqrt(np.nanmean(deviations**2, axis=-1)), tail)
    assert balanced_spread(deviations).tobytes() == expected.tobytes()
    assert float(balanced_spread(deviations[0])) == expected[0]
