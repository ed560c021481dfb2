import numpy as np
import pytest

from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.plugins.estimators.cocoa import cocoa
from qualm.runners.runtime.settings import Settings

CONTEXT = EstimatorContext(Settings(progress=False))


def test_worked_example():
    """Half of the draws say something else: half of -ln .9 - ln .5."""
    draws, logprobs = [["red", "blue", "Red.", "green"]], [np.log([0.9, 0.5])]
    value = cocoa(CONTEXT, ["red"], draws, logprobs, None)[0]
    assert value == pytest.approx(-np.log(0.45) / 2) == pytest.approx(0.399254, abs=1e-6)
    assert cocoa(CONTEXT, ["red"], draws, logprobs, None, confidence="perplexity")[0] == pytest.approx(value / 2)
    entropies = [np.array([0.2, 0.4])]
    assert cocoa(CONTEXT, ["red"], draws, None, entropies, confidence="mean_token_entropy")[0] == pytest.approx(0.15)


def test_against_the_definition():
    def shared(a, b):
        a, b = set(a.split()), set(b.split())
        return len(a & b) / len(a | b)

    rng = np.random.default_rng(4)
    answers = [" ".join(rng.choice(list("abcd"), rng.integers(1, 4))) for _ in range(20)]
    draws = [[" ".join(rng.choice(list("abcd"), rng.integers(1, 4))) for _ in range(5)] for _ in answers]
    logprobs = [-rng.random(rng.integers(1, 5)) for _ in answers]
    expected = [-sum(p) * np.mean([1 - shared(a, d) for d in own]) for a, own, p in zip(answers, draws, logprobs, strict=True)]
    np.testing.assert_allclose(cocoa(CONTEXT, answers, draws, logprobs, None, similarity="jaccard"), expected)
