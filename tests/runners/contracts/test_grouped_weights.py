import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from qualm.runners.contracts.grouped_weights import Weights

ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 5), st.integers(-5, 5)), min_size=1, max_size=12)


@given(ROWS, st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=4))
def test_products_are_those_of_the_dense_matrix(rows, counts):
    group = np.array([row[0] for row in rows])
    columns = np.array([row[1:] for row in rows], dtype=float)
    weights = Weights(np.array(counts, dtype=float), group)
    dense = np.array([[draw[g] for g in group] for draw in counts], dtype=float)
    assert np.asarray(weights).tolist() == dense.tolist() and weights.shape == dense.shape
    assert (weights @ columns[:, 0]).tolist() == (dense @ columns[:, 0]).tolist()
    assert (weights @ columns).tolist() == (dense @ columns).tolist()


def test_a_choice_of_rows_keeps_each_row_with_its_group():
    weights = Weights(np.array([[1.0, 0, 3]]), np.array([2, 0, 1, 2]))
    assert np.asarray(weights.rows(np.array([3, 1]))).tolist() == [[3, 1]]
    assert np.asarray(weights, dtype=np.float32).dtype == np.float32
