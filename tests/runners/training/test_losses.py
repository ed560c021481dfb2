"""DPO's loss by hand: the worked example of the facts, the formula's parts, and its gradient."""

import math

import pytest
import torch

from qualm.runners.training.losses import dpo_loss


def loss(now, before, beta=0.1, smoothing=0.0):
    return dpo_loss(*(torch.tensor([x], dtype=torch.float64) for x in (*now, *before)), beta, smoothing).item()


def test_worked_example():
    """beta .1, pi (-12, -15), reference (-13, -14): margin .2, loss .598139."""
    assert loss((-12.0, -15.0), (-13.0, -14.0)) == pytest.approx(0.598139, abs=1e-6)
    assert loss((-12.0, -15.0), (-13.0, -14.0)) == pytest.approx(-math.log(1 / (1 + math.exp(-0.2))), rel=1e-12)


def test_a_model_like_its_reference_loses_ln_2():
    assert loss((-3.0, -9.0), (-3.0, -9.0)) == pytest.approx(math.log(2))


def test_label_smoothing_mixes_the_two_directions():
    now, before = (-12.0, -15.0), (-13.0, -14.0)
    other_way = loss(now[::-1], before[::-1])
    assert loss(now, before, smoothing=0.2) == pytest.approx(0.8 * loss(now, before) + 0.2 * other_way)


def test_a_large_margin_does_not_overflow():
    assert loss((0.0, -1e5), (-1e5, 0.0), beta=1.0) == 0.0
    assert loss((-1e5, 0.0), (0.0, -1e5), beta=1.0) == pytest.approx(2e5)


def test_gradient():
    """d loss / d ln pi(own) = -beta sigmoid(-margin), and the opposite for the other answer."""
    own, other = torch.tensor([-12.0], requires_grad=True), torch.tensor([-15.0], requires_grad=True)
    dpo_loss(own, other, torch.tensor([-13.0]), torch.tensor([-14.0]), 0.1).sum().backward()
    expected = 0.1 / (1 + math.exp(0.2))
    assert own.grad.item() == pytest.approx(-expected) and other.grad.item() == pytest.approx(expected)
