"""Features of a probe."""

import numpy as np

from qualm.runners.contracts.probes import stack_rows


def test_rows_become_a_table() -> None:
    assert stack_rows([np.array([1.0, 2.0]), np.array([3.0, 4.0])]).tolist() == [[1, 2], [3, 4]]
    assert stack_rows([]).shape == (0, 0)
