import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from qualm.compiler.results.paired import PairedDifference, mcnemar_p


@given(st.integers(0, 30), st.integers(0, 30))
def test_mcnemars_exact_p_by_the_binomial(only_a, only_b):
    n, least = only_a + only_b, min(only_a, only_b)
    expected = min(1.0, 2 * binom.cdf(least, n, 0.5)) if n else 1.0
    assert mcnemar_p(only_a, only_b) == pytest.approx(expected) == mcnemar_p(only_b, only_a)


def difference(low, high, delta=0.1, higher=True):
    return PairedDifference("d", "m", 0.5, 0.6, delta, low, high, 10, higher)


@pytest.mark.parametrize(
    "low, high, separate",
    [(0.01, 0.2, True), (-0.2, -0.01, True), (-0.1, 0.2, False), (0.0, 0.2, False), (-0.1, 0.0, False), (None, None, False)],
)
def test_an_interval_that_does_not_hold_zero(low, high, separate):
    assert difference(low, high).separate is separate and difference(low, high).as_json()["separate"] is separate


@pytest.mark.parametrize(
    "delta, higher, better",
    [(0.1, True, "b"), (0.1, False, "a"), (-0.1, True, "a"), (-0.1, False, "b"), (0.1, None, None), (None, True, None)],
)
def test_the_better_side_follows_from_the_metrics_direction(delta, higher, better):
    ends = (0.01, 0.2) if delta is None or delta > 0 else (-0.2, -0.01)
    assert difference(*ends, delta, higher).better == better
    assert difference(-1.0, 1.0, delta, higher).better is None
