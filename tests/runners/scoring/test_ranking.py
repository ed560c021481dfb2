import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from qualm.runners.contracts.grouped_weights import Weights
from qualm.runners.scoring.ranking import tie_sums

SCORE = np.array([3.0, 1.0, 3.0, -2.0])
COLUMNS = [np.array([1.0, 10.0, 100.0, 1000.0]), np.array([1.0, 1.0, 1.0, 1.0])]


def test_ties_are_summed_in_ascending_order():
    first, second = tie_sums(SCORE, COLUMNS, np.array([[1.0, 1, 1, 1], [2.0, 0, 1, 3]]))
    assert first.tolist() == [[1000, 10, 101], [3000, 0, 102]]
    assert second.tolist() == [[1, 1, 2], [3, 0, 3]]


def test_without_ties_every_row_stands_alone():
    (sums,) = tie_sums(np.array([2.0, 1.0]), [np.array([5.0, 7.0])], np.array([[1.0, 3.0]]))
    assert sums.tolist() == [[21, 5]]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=20))
def test_grouped_weights_give_what_dense_ones_do(rows):
    score, column, group = (np.array(values, dtype=float) for values in zip(*rows, strict=True))
    weights = Weights(np.array([[1.0, 1, 1], [0.0, 2, 1]]), group.astype(int))
    ((grouped,), (dense,)) = (tie_sums(score, [column], w) for w in (weights, np.asarray(weights)))
    assert grouped.tolist() == dense.tolist()
    assert grouped.sum(axis=1).tolist() == (np.asarray(weights) @ column).tolist()
