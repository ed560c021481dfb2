import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split

from qualm.runners.data.calibration_split import calibration_rows


@pytest.mark.parametrize("fraction, seed", [(0.5, 42), (0.3, 1)])
def test_rows_are_split_as_the_authors_split(fraction, seed):
    chosen = calibration_rows(np.arange(31), fraction, seed, "rows")
    expected, _ = train_test_split(np.arange(31), train_size=fraction, random_state=seed)
    assert np.flatnonzero(chosen).tolist() == sorted(expected.tolist())


@given(st.lists(st.integers(0, 6), min_size=2, max_size=40), st.floats(0.05, 0.95), st.integers(0, 99))
def test_no_group_is_divided_and_the_share_is_met_as_nearly_as_the_order_allows(groups, fraction, seed):
    codes = np.array(groups)
    if len(set(groups)) < 2:
        with pytest.raises(ValueError, match="one group"):
            calibration_rows(codes, fraction, seed, "groups")
        return
    chosen = calibration_rows(codes, fraction, seed, "groups")
    of_group = {g: set(chosen[codes == g].tolist()) for g in set(groups)}
    assert all(len(sides) == 1 for sides in of_group.values()) and 0 < chosen.sum() < len(codes)
    order = [g for g in np.random.default_rng(seed).permutation(len(of_group))]
    sizes = [groups.count(sorted(of_group)[g]) for g in order]
    prefixes = [sum(sizes[:k]) for k in range(1, len(sizes))]
    assert abs(chosen.sum() - fraction * len(codes)) == pytest.approx(min(abs(p - fraction * len(codes)) for p in prefixes))


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.5, float("nan")])
@pytest.mark.parametrize("split", ["rows", "groups"])
def test_a_share_that_is_none(fraction, split):
    with pytest.raises(ValueError, match="calibration fraction: expected a number between 0 and 1"):
        calibration_rows(np.arange(9), fraction, 1, split)


def test_a_side_that_would_be_empty():
    with pytest.raises(ValueError, match="of 3 rows leaves one side of the split empty"):
        calibration_rows(np.arange(3), 0.3, 1, "rows")
    assert calibration_rows(np.arange(3), 0.34, 1, "rows").sum() == 1
