import numpy as np
import pytest

from qualm.runners.plugins.estimators.rauq import rauq


def test_worked_example():
    """-(ln .8 + ln .42 + ln .264) / 3, each confidence .2 p + .8 a times the one before."""
    (value,) = rauq([np.log([0.8, 0.5, 0.9])], [np.array([0.5, 0.25])])
    assert value == pytest.approx(0.807483, abs=1e-6)


def as_lm_polygraph(logprobs, attention, layers, alpha):
    """Its estimator, of attention (layers, heads, tokens, tokens) with row j of what the prediction of token j gives to those before it."""
    scores = []
    for layer in layers:
        to_previous = np.array([np.diagonal(head, offset=-1) for head in attention[layer]])
        own = to_previous[to_previous.mean(axis=1).argmax()]
        confidence = [np.exp(logprobs[0])]
        for j in range(1, len(logprobs)):
            confidence.append(alpha * np.exp(logprobs[j]) + (1 - alpha) * own[j - 1] * confidence[-1])
        scores.append(1 - np.log(confidence).mean())
    return max(scores), [np.array([np.diagonal(h, offset=-1) for h in attention[layer]]) for layer in layers]


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.5, 1.0])
def test_it_is_lm_polygraphs_less_one(alpha):
    rng = np.random.default_rng(3)
    rows, attentions, expected = [], [], []
    for length in (2, 3, 9):
        logprobs, attention = -rng.random(length), rng.random((4, 3, length, length))
        value, heads = as_lm_polygraph(logprobs, attention, (1, 2, 3), alpha)
        rows.append(logprobs)
        attentions.append(np.concatenate([layer[layer.mean(axis=1).argmax()] for layer in heads]))
        expected.append(value - 1)
    np.testing.assert_allclose(rauq(rows, attentions, alpha=alpha), expected, atol=1e-12)


def test_without_attention_it_is_the_log_of_perplexity():
    logprobs = np.log([0.5, 0.25, 0.125])
    assert rauq([logprobs], [np.ones(2)], alpha=1.0)[0] == pytest.approx(-logprobs.mean())


def test_one_token_follows_none():
    assert np.isnan(rauq([np.array([-0.1]), np.empty(0)], [np.empty(0)] * 2)).all()
    assert rauq([np.array([-np.inf, -0.1])], [np.array([0.0])], alpha=0.0)[0] == np.inf
