import numpy as np
import pytest
import torch
from scipy.special import log_softmax, rel_entr, softmax

from qualm.registry.formats.plausible import MIN_LOGPROB
from qualm.runners.inference.hf.token_numbers import divergences, token_logprobs, top_logprobs, top_tokens, uniform_divergences


def logits(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


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


def test_a_token_that_only_the_blind_model_rules_in_adds_nothing():
    seeing, blind = torch.tensor([[[0.0, -torch.inf, 1.0]]]), torch.tensor([[[0.5, 0.0, 0.0]]])
    ((found,),) = divergences(seeing, blind, [[2]])
    p, q = softmax([0.0, 1.0]), softmax([0.5, 0.0, 0.0])
    assert found == pytest.approx(rel_entr(p, q[[0, 2]]).sum())


def test_the_likeliest_tokens_are_sorted_and_a_ruled_out_one_has_the_least_logprob():
    raw = torch.tensor([[[0.0, 1.0, 2.0, -torch.inf], [3.0, 0.0, 0.0, 0.0]], [[0.0] * 4, [1.0] * 4]])
    (two, k), (one, _), (none, _) = top_logprobs(torch.cat([raw, raw[:1]]), [[0, 1], [2], []])
    assert (k, none) == (4, [])
    assert two[:4] == pytest.approx([*np.log(softmax([2.0, 1.0, 0.0])), MIN_LOGPROB])
    assert two[4:] == pytest.approx(np.log(softmax([3.0, 0, 0, 0]))) and one == pytest.approx([np.log(1 / 4)] * 4)
    many, k = top_logprobs(torch.arange(50.0)[None, None], [[0]])[0]
    assert k == 20 and many == pytest.approx(np.log(softmax(np.arange(50.0)))[:-21:-1])


def test_the_likeliest_tokens_are_those_of_their_log_probabilities_and_of_equals_the_answers_own_is_first():
    raw = logits(2, 3, 50, seed=4)
    raw[0, 2, [7, 9, 30]] = 10.0
    found = top_tokens(raw, [[0, 9], [1, 2, 3]])
    expected = log_softmax(raw.numpy(), axis=-1)
    for row, positions in enumerate(found):
        values = [expected[row, place, ids] for place, ids in enumerate(positions, 3 - len(positions))]
        assert np.concatenate(values) == pytest.approx(top_logprobs(raw, [[0, 9], [1, 2, 3]])[row][0])
    assert found[0][1][0] == 9 and sorted(found[0][1][:3]) == [7, 9, 30] and len(set(found[0][1])) == 20
    assert top_tokens(torch.zeros(1, 1, 50), [[49]])[0][0][0] == 49, "also one that is not among the first 20 of so many equals"
    assert top_tokens(raw[:1], [[]]) == [[]]


def test_uniform_divergence_leaves_out_tokens_that_are_ruled_out():
    raw = torch.tensor([[[0.0, 1.0, 2.0, -torch.inf], [3.0, 0.0, 0.0, 0.0]], [[0.0] * 4, [1.0] * 4]])
    found = uniform_divergences(raw, [[0, 1], [2]])
    three, four = np.full(3, 1 / 3), np.full(4, 1 / 4)
    assert found[0] == pytest.approx([rel_entr(three, softmax([0.0, 1.0, 2.0])).sum(), rel_entr(four, softmax([3.0, 0, 0, 0])).sum()])
    assert found[1] == pytest.approx([0.0], abs=1e-7)
