"""Draws: from the right distribution, by numbers that depend on stream, draw and step alone."""

import numpy as np
import pytest
import torch

from qualm.runners.inference.hf.sampling import Chooser, many_uniforms, sample_tokens, uniforms


def test_numbers_do_not_depend_on_how_many_are_wanted():
    assert uniforms(5, 1, 40)[:7].tolist() == uniforms(5, 1, 7).tolist()


def test_every_stream_and_draw_has_numbers_of_its_own():
    streams = (0, 1, 1 << 64, (1 << 128) - 1)
    numbers = np.concatenate([uniforms(stream, draw, 16) for stream in streams for draw in (1, 2, 3)])
    assert len(set(numbers.tolist())) == len(numbers)
    assert numbers.min() >= 0 and numbers.max() < 1


def test_numbers_are_the_same_on_every_machine():
    philox = np.random.Philox(key=[7, 9], counter=[0, 0, 0, 3])
    assert uniforms((9 << 64) + 7, 3, 5).tolist() == np.random.Generator(philox).random(5).tolist()


@pytest.mark.parametrize("steps", [1, 3, 4, 5, 33])
def test_numbers_of_many_draws_at_once_are_those_of_each(steps):
    draws = [(stream, draw) for stream in (0, 7, (9 << 64) + 7, (1 << 128) - 1, 0x0123456789ABCDEFFEDCBA9876543210) for draw in (1, 2, 10)]
    assert many_uniforms(draws, steps).tolist() == [uniforms(*draw, steps).tolist() for draw in draws]


@pytest.mark.parametrize("temperature", [0.3, 0.7, 2.0])
def test_draws_have_the_shares_of_the_softmax(temperature):
    logits = torch.tensor([2.0, 1.0, -torch.inf, 0.0])
    numbers = torch.from_numpy(uniforms(1, 1, 20_000))
    found = sample_tokens(logits.expand(20_000, 4), numbers, temperature, 1.0)
    shares = torch.bincount(found, minlength=4) / 20_000
    torch.testing.assert_close(shares, torch.softmax(logits / temperature, 0), atol=0.01, rtol=0)
    assert shares[2] == 0


def test_top_p_keeps_the_likeliest_and_rescales():
    logits = torch.log(torch.tensor([0.1, 0.5, 0.15, 0.25]))
    numbers = torch.from_numpy(uniforms(1, 1, 20_000))
    shares = torch.bincount(sample_tokens(logits.expand(20_000, 4), numbers, 1.0, 0.7), minlength=4) / 20_000
    torch.testing.assert_close(shares, torch.tensor([0.0, 2 / 3, 0.0, 1 / 3]), atol=0.01, rtol=0)


@pytest.mark.parametrize(("top_k", "top_p"), [(1, 1.0), (2, 1.0), (3, 0.6), (4, 0.9), (9, 1.0)])
def test_top_k_then_top_p_leave_the_tokens_of_transformers(top_k, top_p):
    from transformers import TopKLogitsWarper, TopPLogitsWarper

    logits = torch.log(torch.tensor([[0.1, 0.3, 0.15, 0.25, 0.2]]))
    left = TopPLogitsWarper(top_p)(None, TopKLogitsWarper(top_k)(None, logits / 0.8))
    numbers = torch.from_numpy(uniforms(1, 1, 20_000))
    shares = torch.bincount(sample_tokens(logits.expand(20_000, 5), numbers, 0.8, top_p, top_k=top_k), minlength=5) / 20_000
    torch.testing.assert_close(shares, torch.softmax(left[0], 0), atol=0.01, rtol=0)


@pytest.mark.parametrize("number", [0.0, np.nextafter(1.0, 0.0)])
def test_the_ends_of_the_interval_are_possible_tokens(number):
    logits = torch.tensor([[-torch.inf, 0.0, 0.0, -torch.inf]])
    assert sample_tokens(logits, torch.tensor([number], dtype=torch.float64), 1.0, 1.0).item() in (1, 2)


def test_greedy_rows_take_the_likeliest_among_drawn_ones():
    chooser = Chooser([(1, 0), (1, 1), (2, 0)], 4, 50.0, 1.0, torch.device("cpu"))
    logits = torch.tensor([[0.0, 3.0], [3.0, 0.0], [2.0, 1.0]])
    rows = torch.tensor([2, 0])
    assert chooser(0, logits[[2, 0]], rows).tolist() == [0, 1]


@pytest.mark.parametrize("top_p", [1.0, 0.6])
def test_draws_from_one_distribution_are_those_from_copies_of_it(top_p):
    logits = torch.randn(5, 11, generator=torch.Generator().manual_seed(2))
    at = torch.tensor([3, 0, 3, 4, 3, 0, 1])
    numbers = torch.from_numpy(uniforms(4, 1, len(at)))
    assert sample_tokens(logits, numbers, 0.8, top_p, at).tolist() == sample_tokens(logits[at], numbers, 0.8, top_p).tolist()
