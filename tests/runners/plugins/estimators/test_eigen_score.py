import numpy as np
import pytest

from qualm.runners.plugins.estimators.eigen_score import eigen_score

EXAMPLE = [np.array([1.0, -1.0]), np.array([0.0, 2.0])]
RNG = np.random.default_rng(2)


@pytest.mark.parametrize(("form", "expected"), [("paper", 0.804719), ("code", 0.349485)])
def test_worked_example(form, expected):
    assert eigen_score([EXAMPLE], alpha=1.0, form=form)[0] == pytest.approx(expected, abs=1e-6)


def test_the_formulas_of_paper_and_code():
    """The paper's with its centring matrix written out, as LM-Polygraph has it; the code's by numpy's covariance and singular values."""
    states = RNG.normal(size=(5, 40))
    centring = np.eye(40) - np.ones((40, 40)) / 40
    values = np.linalg.eigvalsh(states @ centring @ states.T + 0.001 * np.eye(5))
    assert eigen_score([list(states)])[0] == pytest.approx(np.log(values).mean(), rel=1e-9)
    singular = np.linalg.svd(np.cov(states) + 0.001 * np.eye(5))[1]
    assert eigen_score([list(states)], form="code")[0] == pytest.approx(np.log10(singular).mean(), rel=1e-9)


def test_of_equal_draws_by_hand():
    one = RNG.normal(size=30)
    assert eigen_score([[one] * 4])[0] == pytest.approx(
        (3 * np.log(0.001) + np.log(4 * ((one - one.mean()) ** 2).sum() + 0.001)) / 4, rel=1e-6
    )


def test_edges():
    assert np.isnan(eigen_score([[]])[0])
    assert eigen_score([[np.ones(7)] * 3])[0] == pytest.approx(np.log(0.001))
    assert np.isfinite(eigen_score([[np.ones(1)]], form="code")[0])
    assert np.isnan(eigen_score([[np.array([0.0, 2e12])] * 2])[0]), "alpha is lost in numbers of that size"
