"""Shares and agreement against scikit-learn, statsmodels, SciPy and a published worked example."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.stats import binomtest
from sklearn.metrics import cohen_kappa_score

from qualm.runners.data.agreement import cohen_kappa, fleiss_kappa, jackknife, krippendorff_alpha, raw_agreement, wilson


@pytest.mark.parametrize(("k", "n"), [(0, 5), (5, 5), (4, 5), (801, 1000), (938, 1000), (1, 1)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_wilson_is_scipys(k: int, n: int, level: float) -> None:
    expected = binomtest(k, n).proportion_ci(level, "wilson")
    assert wilson(k, n, level) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_of_nothing_is_undefined() -> None:
    assert wilson(0, 0) is None
    with pytest.raises(ValueError, match="got 3 of 2"):
        wilson(3, 2)


@pytest.mark.parametrize("seed", range(5))
def test_two_raters_as_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.choice(["valid", "invalid"], 60, p=[0.8, 0.2])
    b = np.where(rng.random(60) < 0.8, a, rng.choice(["valid", "invalid"], 60))
    assert cohen_kappa(a.tolist(), b.tolist()) == pytest.approx(cohen_kappa_score(a, b))
    assert raw_agreement(list(zip(a, b, strict=True))) == pytest.approx(float(np.mean(a == b)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("raters", [2, 3, 5])
def test_many_raters_as_statsmodels(seed: int, raters: int) -> None:
    inter_rater = pytest.importorskip("statsmodels.stats.inter_rater")
    votes = np.random.default_rng(seed).choice(["valid", "invalid"], (40, raters), p=[0.7, 0.3])
    table, _ = inter_rater.aggregate_raters(votes)
    assert fleiss_kappa(votes.tolist()) == pytest.approx(inter_rater.fleiss_kappa(table))


def test_alpha_of_krippendorffs_own_example() -> None:
    """Four observers, twelve units, labels missing: nominal alpha .743."""
    rows = ["1 2 3 3 2 1 4 1 2 . . .", "1 2 3 3 2 2 4 1 2 5 . 3", ". 3 3 3 2 3 4 2 2 5 1 .", "1 2 3 3 2 4 4 1 2 5 1 ."]
    votes = [[label for label in unit if label != "."] for unit in zip(*(r.split() for r in rows), strict=True)]
    assert krippendorff_alpha(votes) == pytest.approx(0.743, abs=5e-4)


def test_alpha_of_two_complete_raters_is_close_to_kappa_and_below_one() -> None:
    """Two raters, no gaps, 10 binary items, Krippendorff's .095."""
    a, b = list("0100000010"), list("1110010000")
    assert krippendorff_alpha(list(zip(a, b, strict=True))) == pytest.approx(0.095, abs=5e-4)


def test_what_chance_explains_is_undefined() -> None:
    same = [["valid", "valid", "valid"]] * 4
    assert raw_agreement(same) == 1.0
    assert cohen_kappa(["valid"] * 4, ["valid"] * 4) is None
    assert fleiss_kappa(same) is None
    assert krippendorff_alpha(same) is None
    assert raw_agreement([["valid"]]) is None
    assert raw_agreement([]) is cohen_kappa([], []) is fleiss_kappa([]) is krippendorff_alpha([]) is None
    assert fleiss_kappa([["valid"], ["invalid"]]) is None


def test_total_disagreement_is_negative() -> None:
    assert cohen_kappa(["valid", "invalid"], ["invalid", "valid"]) == -1.0
    assert math.isclose(fleiss_kappa([["valid", "invalid"]] * 3) or 0, -1.0)


def test_ragged_labels_are_refused_by_fleiss() -> None:
    with pytest.raises(ValueError, match="1 to 2"):
        fleiss_kappa([["valid"], ["valid", "valid"]])


def test_the_jackknife_of_a_mean_is_students_interval():
    values = [0.1, 0.4, -0.2, 0.3, 0.2, 0.0]
    expected = stats.t.interval(0.95, 5, np.mean(values), stats.sem(values))
    assert jackknife(lambda items: sum(items) / len(items), values) == pytest.approx(expected)


@pytest.mark.parametrize("votes", [[["a", "b"]] * 4, [["a", "a"]] * 20, [["a", "a"]] * 19 + [["b", "b"]]])
def test_no_interval_of_few_items_or_where_nothing_varies(votes):
    assert jackknife(krippendorff_alpha, votes) is None


@pytest.mark.parametrize(("n", "least"), [(30, 0.9), pytest.param(100, 0.92, marks=pytest.mark.slow)])
def test_the_interval_of_kappa_holds_the_truth(n, least):
    """Two raters who copy the truth, a fair coin, with probability .8 and else toss one themselves: kappa is .64."""
    rng = np.random.default_rng(3)
    held = []
    for _ in range(300):
        truth = rng.integers(0, 2, n)
        raters = [np.where(rng.random(n) < 0.8, truth, rng.integers(0, 2, n)) for _ in range(2)]
        votes = [[str(a), str(b)] for a, b in zip(*raters, strict=True)]
        low, high = jackknife(lambda items: cohen_kappa([v[0] for v in items], [v[1] for v in items]), votes)
        held.append(low <= 0.64 <= high)
    assert np.mean(held) >= least
