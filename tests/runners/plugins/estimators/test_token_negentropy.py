import numpy as np
import pytest

from qualm.runners.plugins.estimators.token_negentropy import token_negentropy

TOPS = [[np.log([0.9, 0.1]), np.log([0.5, 0.3]), np.log([0.8, 0.1])]]


def plain(probabilities):
    """The entropy of the shown tokens over that of as many equally likely ones, as uqlm has it."""
    return -sum(p * np.log(p) for p in probabilities) / np.log(len(probabilities))


def test_worked_example():
    by_token = [plain(p) for p in ((0.9, 0.1), (0.5, 0.3), (0.8, 0.1))]
    assert token_negentropy(TOPS)[0] == pytest.approx(np.mean(by_token)) == pytest.approx(0.693274, abs=1e-6)
    assert token_negentropy(TOPS, over="min")[0] == pytest.approx(max(by_token)) == pytest.approx(1.021090, abs=1e-6)


def test_k_reads_the_likeliest_and_is_undefined_where_fewer_are_shown():
    tops = [[np.log([0.4, 0.3, 0.2, 0.1])], [np.log([0.6, 0.4])]]
    values = token_negentropy(tops, k=3)
    assert values[0] == pytest.approx(plain((0.4, 0.3, 0.2))) and np.isnan(values[1])
    assert token_negentropy(tops)[0] == pytest.approx(plain((0.4, 0.3, 0.2, 0.1)))


@pytest.mark.parametrize("over", ["mean", "min"])
def test_certain_and_even_tokens_are_the_ends(over):
    tops = [[np.array([0.0, -300.0, -300.0])] * 2, [np.log(np.full(3, 1 / 3))] * 2]
    np.testing.assert_allclose(token_negentropy(tops, over=over), [0.0, 1.0], atol=1e-12)
