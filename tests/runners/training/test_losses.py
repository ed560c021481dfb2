"""Losses by hand: log-probabilities of answers; DPO's worked example of the facts, the formula's parts, and its gradient."""

import math
from types import SimpleNamespace

import pytest
import torch

from qualm.runners.training.batching import IGNORE
from qualm.runners.training.tuner import answer_logprobs, dpo_loss, logprobs_of_all


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


class Network(torch.nn.Module):
    """Logits of a token: its own, as many as its picture's value more of the first; notes what it is given."""

    def __init__(self, dtype, counts_positions):
        super().__init__()
        self.table = torch.nn.Embedding.from_pretrained(torch.arange(12.0).reshape(3, 4).sqrt()).to(dtype)
        if counts_positions:
            self.get_rope_index = None

    def forward(self, input_ids, attention_mask, pixel_values, use_cache, logits_to_keep, **more):
        self.given = {"mask": attention_mask.dtype, "pictures": pixel_values.dtype, "cache": use_cache, **more}
        logits = self.table(input_ids)
        logits[..., 0] += pixel_values
        return SimpleNamespace(logits=logits[logits_to_keep])


@pytest.mark.parametrize("counts_positions", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_log_probabilities_are_of_the_answers_tokens_alone(dtype, counts_positions):
    batch = {
        "input_ids": torch.tensor([[0, 1, 2], [2, 0, 1]]),
        "attention_mask": torch.ones(2, 3),
        "pixel_values": torch.tensor([[1.0], [2.0]]),
        "position_ids": torch.arange(3).expand(2, 3),
        "labels": torch.tensor([[IGNORE, 3, 0], [IGNORE, IGNORE, 2]]),
        "owner": torch.tensor([[4, 4, 5], [6, 6, 6]]),
    }
    network = Network(dtype, counts_positions)
    for smoothing in (0.0, 0.2):
        found, owner = answer_logprobs(network, batch, smoothing)
        expected = []
        for token, picture, label in ((1, 1.0, 3), (2, 1.0, 0), (1, 2.0, 2)):
            logits = network.table.weight[token] + picture * torch.eye(4, dtype=dtype)[0]
            logs = logits.float().log_softmax(0)
            expected.append((1 - smoothing) * logs[label] + smoothing * logs.mean())
        assert found.dtype == torch.float32 and owner.tolist() == [4, 5, 6]
        torch.testing.assert_close(found, torch.stack(expected))
    given = network.given
    assert (given["mask"], given["pictures"], given["cache"]) == (torch.float32, dtype, False)
    assert ("position_ids" in given) != counts_positions
    both, owners = logprobs_of_all(network, [batch, batch], 0.2)
    assert torch.equal(both, torch.cat([found, found])) and owners.tolist() == [4, 5, 6] * 2
