import numpy as np
import pytest
from scipy.sparse.csgraph import laplacian

from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.plugins.estimators.eigenvalue import eigenvalue, groups
from qualm.runners.runtime.settings import Settings

CONTEXT = EstimatorContext(Settings(progress=False))


def test_values_of_lm_polygraph():
    assert groups(np.array([[1, 0.9, 0.2], [0.8, 1, 0.1], [0.3, 0.2, 1]])) == pytest.approx(1.69047619, abs=1e-8)
    texts = ["a red car", "a red car", "the red cars", "a blue truck"]
    assert eigenvalue(CONTEXT, [texts], similarity="jaccard")[0] == pytest.approx(2.26190476, abs=1e-8)


def test_against_the_general_eigenvalues_of_the_laplacian():
    """Of D^-1 (D - W), which are those of the symmetric form."""
    rng = np.random.default_rng(0)
    for n in (2, 5, 10):
        w = rng.random((n, n))
        np.fill_diagonal(w, 1)
        s = (w + w.T) / 2
        plain = laplacian(s - np.diag(np.diag(s)))  # scipy's leaves loops out of the degree
        values = np.linalg.eigvals(np.diag(1 / s.sum(axis=1)) @ plain).real
        assert groups(w) == pytest.approx(np.maximum(0, 1 - values).sum())


def test_counts_groups_and_edges():
    texts = [["red"] * 10, ["red"] * 5 + ["blue"] * 5, [f"word{i}" for i in range(10)], ["red"], ["", ""], ["", "red"]]
    np.testing.assert_allclose(eigenvalue(CONTEXT, texts), [1, 2, 10, np.nan, 1, 2])
