import numpy as np
import pytest

from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns, signals
from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.plugins.estimators.vase import vase
from qualm.runners.runtime.settings import Settings

CONTEXT = EstimatorContext(Settings(progress=False))


def by_definition(greedy, clean, clean_logprobs, distorted, distorted_logprobs, alpha):
    """Answers that are equal mean the same; cluster by cluster."""
    meanings = list(dict.fromkeys([greedy, *clean, *distorted]))

    def share(texts, logprobs):
        weights = [np.exp(np.mean(row)) for row in logprobs]
        return np.array([sum(w for t, w in zip(texts, weights, strict=True) if t == m) for m in meanings]) / sum(weights)

    p, other = share(clean, clean_logprobs), share(distorted, distorted_logprobs)
    powers = np.exp(p + alpha * (p - other))
    q = powers / powers.sum()
    return -sum(q * np.log(q))


def test_worked_example():
    """p = (1, 0) and p' = (1/2, 1/2): the entropy of softmax(1.5, -.5)."""
    logprobs = [[np.log([0.5])] * 2]
    value = vase(CONTEXT, ["red"], [["red", "red"]], logprobs, [["red", "blue"]], logprobs)[0]
    q = 1 / (1 + np.exp(-2))
    assert value == pytest.approx(-q * np.log(q) - (1 - q) * np.log(1 - q)) == pytest.approx(0.365334, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.0])
def test_against_the_definition(alpha):
    rng = np.random.default_rng(6)
    words = ["red", "blue", "green", "no"]
    rows = [[str(w) for w in rng.choice(words, 9)] for _ in range(30)]
    logprobs = [[-rng.random(rng.integers(1, 4)) for _ in range(8)] for _ in rows]
    parts = [(r[0], r[1:5], p[:4], r[5:], p[4:]) for r, p in zip(rows, logprobs, strict=True)]
    values = vase(CONTEXT, *(list(column) for column in zip(*parts, strict=True)), alpha=alpha)
    np.testing.assert_allclose(values, [by_definition(*part, alpha) for part in parts])


def test_edges():
    one, none = np.log([0.5]), np.empty(0)
    values = vase(CONTEXT, ["a", "a", "a"], [["a"], ["a"], []], [[none], [one], []], [["a"], [], ["a"]], [[one], [], [one]])
    assert np.isnan(values).all()
    read = columns(registry.get("estimators", "vase"), {"under": "blur"})
    assert read["distorted_texts"] == "draw_texts_under_blur" and read["distorted_logprobs"] == "draw_logprobs_under_blur"
    assert signals(read.values()) == {"draws", "text", "token_logprobs"}
