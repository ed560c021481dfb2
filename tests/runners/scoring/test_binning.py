import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.runners.contracts.grouped_weights import number_groups
from qualm.runners.scoring.binning import (
    Calibrated,
    bin_membership,
    bin_of,
    calibration_error_interval,
    group_deviations,
    normal_draws,
)
from qualm.runners.scoring.limits import critical, effective_units
from qualm.runners.scoring.measuring.bounded_means import mean_gap_interval

EDGES = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 1.0])
CONVENTIONS = ("torchmetrics", "guo", "lm_polygraph", "netcal")


@pytest.mark.parametrize(
    "convention, places",
    [
        ("torchmetrics", [0, 0, 1, 2, 3, 4]),
        ("guo", [-1, 0, 0, 1, 2, 3]),
        ("lm_polygraph", [0, 0, 0, 1, 2, 3]),
        ("netcal", [0, 0, 1, 2, 3, 3]),
    ],
)
def test_edges_fall_where_each_convention_puts_them(convention, places):
    assert bin_of(EDGES, 4, convention).tolist() == places


def test_decimals_that_numpy_puts_a_bit_off_the_edge():
    assert np.linspace(0, 1, 6)[3] > 0.6
    assert [int(bin_of(np.array([0.6]), 5, c)[0]) for c in CONVENTIONS] == [3, 2, 2, 2]


def test_a_decimal_that_is_an_edge_opens_its_bin_where_torchmetrics_may_put_it_one_lower():
    torch = pytest.importorskip("torch")
    decimals = [round(i / 15, 17) for i in range(15)]
    assert bin_of(np.array(decimals), 15, "torchmetrics").tolist() == list(range(15))
    assert bin_of(np.array([0.2, 0.4]), 15, "guo").tolist() == [2, 5]
    edges = torch.linspace(0, 1, 16)
    assert (torch.bucketize(torch.tensor([0.2, 0.4, 0.6]), edges, right=True) - 1).tolist() == [2, 5, 9], "what the docstring says of it"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(1, 20))
def test_inside_of_bins_all_conventions_agree(confidences, bins):
    inside = np.array([c for c in confidences if abs(c * bins - round(c * bins)) > 1e-9])
    for convention in CONVENTIONS:
        assert bin_of(inside, bins, convention).tolist() == [int(c * bins) for c in inside]


def test_members_are_the_bins_that_hold_a_row():
    assert bin_membership(np.array([0.1, 0.9, 0.95]), 4, "netcal").tolist() == [[1, 0], [0, 1], [0, 1]]
    assert bin_membership(np.array([0.0, 0.9]), 4, "guo").tolist() == [[0], [1]], "what is in no bin is a member of none"


def test_members_are_of_what_the_confidences_are_now():
    confidence = np.array([0.1, 0.9])
    first = bin_membership(confidence, 2, "guo")
    assert bin_membership(confidence.copy(), 2, "guo") is first, "equal ones are remembered"
    confidence[0] = 0.8
    assert bin_membership(confidence, 2, "guo").tolist() == [[1], [1]] and first.tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0
    assert bin_membership(np.full(20_000, 0.5), 2, "guo").shape == (20_000, 1), "too many to be remembered"


@pytest.mark.parametrize(
    "confidence, bins, convention, message",
    [
        ([0.5], 0, "guo", "bins: expected at least 1, got 0"),
        ([1.5], 5, "guo", r"confidence: expected numbers in \[0, 1\], got 1.5 to 1.5"),
        ([-0.1, 0.5], 5, "guo", r"got -0.1 to 0.5"),
        ([float("nan")], 5, "guo", "confidence"),
        ([0.5], 5, "mine", "convention: expected torchmetrics, guo, lm_polygraph or netcal, got 'mine'"),
    ],
)
def test_what_is_no_confidence_no_number_of_bins_no_convention(confidence, bins, convention, message):
    with pytest.raises(ValueError, match=message):
        bin_of(np.array(confidence), bins, convention)


def test_one_bin_and_no_rows():
    assert bin_of(np.array([0.2]), 1, "netcal").tolist() == [0] and bin_of(np.array([]), 3, "guo").tolist() == []


def test_sums_lie_apart_by_what_a_ratio_does_and_draws_have_that_covariance():
    rng = np.random.default_rng(0)
    group, columns = np.repeat(np.arange(30), rng.integers(1, 9, 30)), np.empty((0, 2))
    columns = rng.normal(size=(len(group), 2)) + 5
    total, apart = group_deviations(columns / len(group), group)
    assert total == pytest.approx(columns.mean(axis=0))
    by_hand = [(columns[group == g] - columns.mean(axis=0)).sum(axis=0) / len(group) for g in range(30)]
    covariance = 30 / 29 * np.einsum("gi,gj->ij", by_hand, by_hand)
    assert apart.T @ apart == pytest.approx(covariance)
    assert np.cov(normal_draws(apart).T) == pytest.approx(covariance, abs=0.1 * covariance[0, 0])


def test_the_error_is_at_least_the_distance_of_confidence_from_accuracy():
    """Bins whose gaps are of one sign: the interval reaches to where that distance, which the bins share, may lie."""
    rng = np.random.default_rng(3)
    gaps = (rng.normal(size=200) - 0.1)[:, None] * bin_membership(rng.random(200), 15, "netcal") / 200
    distance = float(gaps.sum())
    low, high = calibration_error_interval(gaps, np.arange(200), 0.95, (distance - 0.4, distance + 0.4))
    assert low < -distance and high == 0.4 - distance


def test_answers_of_a_group_are_correlated_as_they_are():
    rng = np.random.default_rng(1)
    confidence, group = np.full(6000, 0.8), np.repeat(np.arange(2000), 3)
    common = rng.random(2000)[group]
    uniform = np.where(rng.random(2000)[group] < 0.3, common, rng.random(6000))
    together = (uniform < 0.8).astype(float)  # in .3 of groups all three stand or fall together
    assert Calibrated.fit(confidence, together, group).within == pytest.approx(0.3, abs=0.03)
    assert Calibrated.fit(confidence, together, np.arange(6000)).within == 0
    # where each row is alone rounding leaves nothing of its square
    assert not any(Calibrated.fit(x := rng.random(14), (rng.random(14) < x) * 1.0, rng.permutation(14)).within for _ in range(100))


def test_answers_without_a_second_one_in_their_group_are_no_pairs():
    """Whatever the last digits of sums in another order, which would else be divided by each other."""
    rng = np.random.default_rng(2)
    for n in range(5, 60):
        assert Calibrated.fit(rng.random(n), rng.integers(0, 2, n) * 1.0, rng.permutation(n)).within == 0


def test_the_band_is_the_binomials_and_wider_where_answers_go_together():
    from scipy.stats import binom

    confidence, rows = np.full(60, 0.7), np.arange(60)
    alone = Calibrated(confidence, rows, 0.5)
    assert alone.band(rows) == (binom.ppf(0.025, 60, 0.7) / 60, binom.ppf(0.975, 60, 0.7) / 60)
    low, high = Calibrated(confidence, rows // 3, 1.0).band(rows)
    assert (low, high) == (binom.ppf(0.025, 20, 0.7) / 20, binom.ppf(0.975, 20, 0.7) / 20), "three that are one"
    assert Calibrated(np.full(3, 0.9), np.zeros(3, dtype=int), 1.0).band(np.arange(3)) == (0, 1), "one answer in all: right or wrong"


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_answers_that_are_all_alike_may_differ_by_wilsons_interval_of_their_groups(right):
    """Forty answers of one confidence: q^2 / (40 + q^2) of accuracy is open, on the side of the errors that were not seen."""
    confidence, correct, group = np.full(40, 0.9), np.full(40, right), np.arange(40)
    q2 = critical(0.95, 39) ** 2
    distance = mean_gap_interval(confidence, correct, group, 0.95)
    unseen = q2 / (40 + q2)
    assert distance == pytest.approx((0.1 - unseen, 0.1) if right else (-0.9, unseen - 0.9))
    ends = calibration_error_interval((correct - confidence)[:, None] / 40, group, 0.95, distance)
    assert ends == pytest.approx((0.1 - unseen if right else 0.9 - unseen, 0.1 if right else 0.9))


def test_the_p_of_calibration_is_that_of_drawn_answers():
    """Against the consistency resampling of Broecker and Smith itself: right answers drawn by confidence."""
    rng = np.random.default_rng(5)
    confidence = rng.uniform(0.3, 1, 400)
    inside = bin_membership(confidence, 10, "netcal")
    for off in (0.0, 0.03):
        correct = (rng.random(400) < confidence - off).astype(float)
        observed = np.abs(inside.T @ (correct - confidence)).sum()
        drawn = (rng.random((4000, 400)) < confidence) - confidence
        expected = (np.abs(drawn @ inside).sum(axis=1) >= observed).mean()
        found = Calibrated(confidence, np.arange(400), 0.0).null_test(correct, inside)[0]
        assert found == pytest.approx(expected, abs=0.05)
    assert Calibrated(confidence, np.arange(400), 0.0).null_test(np.zeros(400), inside)[0] == pytest.approx(1 / 1001)


def plain_crossing(total, draws, observed, level):
    """Bisection with all draws looked at in every step."""

    def share(factor):
        return np.mean(np.abs(factor * total + draws).sum(axis=1) >= observed - 1e-12)

    low, high = 0.0, 1.0
    if share(0.0) >= level:
        return 0.0
    while share(high) < level and high < 1e6:
        high *= 2
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle) < level else (low, middle)
    return (low + high) / 2


@pytest.mark.parametrize("seed", range(12))
def test_ends_are_those_of_plain_bisection_to_the_bit(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(20, 800)), int(rng.integers(1, 20))
    confidence, group = rng.beta(2, 1, n), rng.integers(0, n // 2, n)
    correct = (rng.random(n) < np.clip(confidence + rng.normal(0, 0.1) * (seed % 3), 0, 1)) * 1.0
    gaps = bin_membership(confidence, k, "guo") * ((correct - confidence) / n)[:, None]
    total, apart = group_deviations(gaps, group)
    q = critical(0.95, effective_units(group) - 1)
    draws = normal_draws(apart) * (q / critical(0.95, np.inf))
    observed = float(np.abs(total).sum())
    low, high = (observed * plain_crossing(total, draws, observed, level) for level in ((1 - 0.95) / 2, 1 - (1 - 0.95) / 2))
    mean = float(total.sum())
    assert calibration_error_interval(gaps, group, 0.95, (mean, mean)) == (low, high)
    assert calibration_error_interval(gaps, group, 0.95, (mean - 0.9, mean + 0.9)) == (
        max(0, min(low, observed - abs(mean))),
        min(1, abs(mean) + 0.9),
    )


@pytest.mark.parametrize("group", [[], [3, 1, 3, 0], [-1, 5, 5], [10**9, 0, 10**9]])
def test_numbers_of_groups_are_those_of_numpy(group):
    group = np.array(group, dtype=np.int64)
    _, place, rows = np.unique(group, return_inverse=True, return_counts=True)
    assert [part.tolist() for part in number_groups(group)] == [place.tolist(), rows.tolist()]
