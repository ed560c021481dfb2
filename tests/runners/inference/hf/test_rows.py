import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, rel_entr, softmax

from qualm.runners.inference.hf.rows import divergences, first_stop, token_logprobs


def logits(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


@given(st.lists(st.integers(0, 4), max_size=8), st.sets(st.integers(0, 4)))
def test_the_first_stop(tokens, stops):
    found = first_stop(tokens, stops)
    places = [i for i, token in enumerate(tokens) if token in stops]
    assert found == (places[0] if places else None)


def test_log_probabilities_of_answers_of_several_lengths():
    raw = logits(2, 4, 5)
    answers = [[1, 2, 3, 4], [0, 3]]
    found = token_logprobs(raw, answers)
    expected = log_softmax(raw.numpy(), axis=-1)
    assert [len(row) for row in found] == [4, 2]
    for row, answer in enumerate(answers):
        assert found[row] == pytest.approx([expected[row, i - len(answer), token] for i, token in enumerate(answer)])


def test_divergence_is_the_relative_entropy_of_each_position():
    seeing, blind = logits(1, 3, 6, seed=1), logits(1, 3, 6, seed=2)
    (found,) = divergences(seeing, blind, [[5, 5]])
    p, q = softmax(seeing.numpy(), axis=-1), softmax(blind.numpy(), axis=-1)
    assert found == pytest.approx([rel_entr(p[0, i], q[0, i]).sum() for i in (1, 2)])
    assert divergences(seeing, seeing, [[1, 1, 1]]) == [pytest.approx([0, 0, 0], abs=1e-12)]
