import numpy as np
import pytest

from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns
from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.plugins.estimators.semantic_density import semantic_density
from qualm.runners.runtime.settings import Settings
from tests.support.models.tiny_nli import Answered, Told

CONTEXT = EstimatorContext(Settings(progress=False))


def by_definition(answer, p, texts, probabilities, distance):
    """Over the set of different answers, the target with it."""
    above, below = p, p
    for text in dict.fromkeys(texts):
        own = probabilities[texts.index(text)]
        above += own * max(0.0, 1.0 - distance(answer, text))
        below += own
    return 1 - above / below


def test_worked_example():
    """(.8 + .8) / (.8 + .8 + .2)"""
    logprobs = [[np.log([0.8]), np.log([0.2]), np.log([0.8])]]
    value = semantic_density(CONTEXT, ["red"], [np.log([0.8])], [["red", "blue", "red"]], logprobs, None)[0]
    assert value == pytest.approx(1 - 1.6 / 1.8) == pytest.approx(0.111111, abs=1e-6)


def test_against_the_definition():
    rng = np.random.default_rng(3)
    words = list("abcde")
    logits = {(a, b): rng.normal(size=3) * 2 for a in words for b in words}
    logits |= {(a, a): np.array([50.0, 0.0, -50.0]) for a in words}

    def distance(a, b):
        shares = np.exp(logits[a, b]) / np.exp(logits[a, b]).sum()
        return shares[2] + shares[1] / 2

    answers = [str(rng.choice(words)) for _ in range(20)]
    texts = [[str(w) for w in rng.choice(words, 6)] for _ in answers]
    greedy = [-rng.random(rng.integers(1, 4)) for _ in answers]
    drawn = [[-rng.random(rng.integers(1, 4)) for _ in own] for own in texts]
    context = Answered(Told({pair: tuple(row) for pair, row in logits.items()}))
    values = semantic_density(context, answers, greedy, texts, drawn, None)
    expected = [
        by_definition(a, np.exp(g.mean()), t, [np.exp(row.mean()) for row in d], distance)
        for a, g, t, d in zip(answers, greedy, texts, drawn, strict=True)
    ]
    np.testing.assert_allclose(values, expected, atol=1e-12)


def test_the_question_may_stand_before_both():
    told = Told({("Q? a", "Q? b"): (-9.0, 9.0, -9.0)})
    value = semantic_density(Answered(told), ["a"], [np.log([0.5])], [["b"]], [[np.log([0.5])]], ["Q?"], compared="with_question")[0]
    assert value == pytest.approx(0.25, abs=1e-6) and told.asked == [("Q? a", "Q? b")]
    read = columns(registry.get("estimators", "semantic_density"), {"compared": "answers"})
    assert read["question"] is None and read["draw_logprobs"] == "draw_logprobs"


def test_edges():
    one, none = np.log([0.5]), np.empty(0)
    values = semantic_density(CONTEXT, ["", "a", "a"], [none, one, one], [["a"], [], ["a"]], [[one], [], [none]], None)
    assert np.isnan(values).all()
