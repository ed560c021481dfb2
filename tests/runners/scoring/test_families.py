"""Corrections against other implementations, and the error rate of a family by simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import false_discovery_control
from statsmodels.stats.multitest import multipletests

from qualm.runners.scoring.families import NORMAL_TAIL, TAIL, Evidence, Family, adjusted, balanced_spread, max_t, standardised


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


def flipped(values, times, rng):
    """Sums of values under random signs, and the test of their own sum: (m, n) -> evidence of m tests that share their signs."""
    signs = rng.choice([-1.0, 1.0], (times, values.shape[1]))
    tests = []
    for row in values:
        chance = signs @ row
        p = (1 + (np.abs(chance) >= abs(row.sum()) - 1e-12).sum()) / (1 + times)
        tests.append(Evidence(p, *standardised(row.sum(), chance, np.arange(times), 1e-12)))
    return tests


def test_one_test_alone_is_not_corrected():
    rng = np.random.default_rng(1)
    (test,) = flipped(rng.normal(0.3, 1, (1, 40)), 999, rng)
    assert max_t([test]) == [pytest.approx(test.p)]


def test_by_hand():
    """The largest against the largest of all, the second against the largest of the others; order kept, undefined left out."""
    tests = [
        Evidence(0.25, 1.0, np.array([0.5, 1.5, 0.5], np.float32)),
        Evidence(np.nan),
        Evidence(0.25, 2.0, np.array([2.5, 0.1, 0.1], np.float32)),
    ]
    assert max_t(tests) == pytest.approx([0.5, np.nan, 0.5], nan_ok=True)
    assert max_t([tests[1]]) == pytest.approx([np.nan], nan_ok=True)
    as_large = Evidence(0.1, 1.0, np.array([1.0, 0.5, 0.2, 7.0], np.float32))
    assert max_t([as_large]) == [3 / 5], "what is equal is as large"
    longer = Evidence(0.1, 3.0, np.array([0.1, 0.1, 0.1, 9.0, 9.0], np.float32))
    assert max_t([as_large, longer]) == [3 / 5, 2 / 5], "four exchanges are shared"


def test_tests_that_go_together_count_once():
    rng = np.random.default_rng(2)
    (test,) = flipped(rng.normal(0.4, 1, (1, 50)), 999, rng)
    assert max_t([test] * 100) == pytest.approx([test.p] * 100)
    assert adjusted([test.p] * 100, "holm")[0] == pytest.approx(min(1, 100 * test.p))


@pytest.mark.slow
def test_the_error_rate_of_a_family_and_its_power():
    """60 tests that share half of what they see: no more false alarms than .06; of one real difference at least what Holm finds."""
    rng = np.random.default_rng(3)
    false, found, by_holm = 0, 0, 0
    for _ in range(300):
        values = rng.normal(size=(60, 50)) + rng.normal(size=50)
        tests = flipped(values, 199, rng)
        false += min(max_t(tests)) < 0.05
        values[0] += 0.85
        tests = flipped(values, 1999, rng)
        found += max_t(tests)[0] < 0.05
        by_holm += adjusted([t.p for t in tests], "holm")[0] < 0.05
    assert false / 300 <= 0.06 + 2 * np.sqrt(0.05 * 0.95 / 300)
    assert found >= by_holm


def test_few_exchanges_reach_significance_in_a_large_family():
    rng = np.random.default_rng(4)
    tests = flipped(np.vstack([rng.normal(size=(527, 60)), rng.normal(1, 0.5, (1, 60))]), 999, rng)
    assert max_t(tests)[-1] == pytest.approx(1 / 1000)
    assert adjusted([t.p for t in tests], "holm")[-1] > 0.5


@pytest.mark.parametrize("span", ["metric", "slice", "study"])
def test_what_is_corrected_together(span):
    """On one data set and slice all variants and estimators of a metric, or all metrics too; or everything."""
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


def test_tests_whose_chance_jumps_do_not_hide_the_others():
    """Twenty tests that chance moves seldom, and then far: a clear difference beside them is found; where there is none, nothing is."""
    rng = np.random.default_rng(5)
    exchanged = np.where(rng.random((20, 1000)) < 0.02, 10.0, 0.1) * rng.choice([-1, 1], (20, 1000))
    jumping = [Evidence(0.5, *standardised(0.1, each, np.arange(1000), 1e-12)) for each in exchanged]
    clear = Evidence(0.001, *standardised(4.0, rng.normal(size=1000), np.arange(1000), 1e-12))
    assert max_t([*jumping, clear])[-1] < 0.01
    assert min(max_t(jumping)) > 0.9


def test_models_that_answer_alike_do_not_hide_the_others():
    """Sums in another order differ in their last digits; these were 14 of their own spreads, and every p-value of the family was 1."""
    rng = np.random.default_rng(3)
    found = flipped(rng.normal(0.8, 1, (3, 60)), 999, rng)
    last_digits = np.where(rng.random(999) < 0.01, 4e-18, 0.0)
    alike = Evidence(1.0, *standardised(-5.6e-17, last_digits, np.arange(999), 1e-12))
    assert alike.size == 0 and not alike.chance.any()
    *others, p = max_t([*found, alike])
    assert p == 1 and others == max_t(found) and max(others) < 0.01
    size, chance = standardised(1e-12, np.array([1e-12, -1e-12]), np.arange(2), 1e-12)
    assert size == 0 and not chance.any(), "as large as rounding is nothing"


def test_a_difference_where_chance_makes_none_comes_first():
    rng = np.random.default_rng(4)
    found = flipped(rng.normal(0.0, 1, (2, 60)), 999, rng)
    always = Evidence(0.001, *standardised(-0.008, np.full(999, 1e-13), np.arange(999), 1e-12))
    assert max_t([*found, always])[-1] == pytest.approx(0.001)
    assert max_t([*found, always])[:2] == max_t(found)


def test_a_normal_spread_is_the_root_mean_square():
    exchanged = stats.norm.ppf((np.arange(1000) + 0.5) / 1000)
    size, chance = standardised(2.0, exchanged, np.arange(10), 1e-12)
    assert size == pytest.approx(2.0, rel=0.01) and chance == pytest.approx(np.abs(exchanged[:10]), rel=0.01)
    coin = np.tile([-3.0, 3.0], 50)
    assert standardised(3.0, coin, np.arange(4), 1e-12)[0] == 1.0


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
