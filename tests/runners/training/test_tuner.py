import contextlib
import math
from types import SimpleNamespace

import pytest
import torch

from qualm.runners.contracts.finetunes import FinetuneError
from qualm.runners.training.tuner import Course, Preferer, Tuner


def course(schedule="constant", warmup=0.0):
    return Course(1e-3, schedule, warmup, 0.0, 0.95, 7)


def test_the_rate_rises_in_equal_steps_to_its_highest():
    assert [course(warmup=0.4).share_at(step, 10) for step in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert course().share_at(0, 10) == 1.0 and course(warmup=0.01).share_at(0, 10) == 1.0


@pytest.mark.parametrize(
    "schedule, half_way, at_the_end",
    [("constant", 1.0, 1.0), ("linear", 0.5, 0.0), ("cosine", 0.5, 0.0)],
)
def test_then_it_falls_by_its_schedule(schedule, half_way, at_the_end):
    falling = course(schedule, warmup=0.2)
    assert falling.share_at(2, 10) == 1.0
    assert falling.share_at(6, 10) == pytest.approx(half_way) and falling.share_at(10, 10) == pytest.approx(at_the_end, abs=1e-12)
    quarter = {"constant": 1.0, "linear": 0.75, "cosine": 0.5 * (1 + math.cos(math.pi / 4))}[schedule]
    assert falling.share_at(4, 10) == pytest.approx(quarter)


def test_a_training_that_only_rises():
    assert course("linear", warmup=1.0).share_at(3, 4) == 1.0 and course("linear", warmup=1.0).share_at(4, 4) == 1.0


class Tiny(torch.nn.Module):
    """Two layers, of which one is not trained."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(4, 2)
        self.frozen = torch.nn.Linear(2, 2).requires_grad_(False)
        self.norm = torch.nn.LayerNorm(2)

    def get_input_embeddings(self):
        return self.embed


def tuner(**changes):
    values = {"rate": 1e-3, "schedule": "linear", "warmup": 0.5, "decay": 0.1, "beta2": 0.95, "seed": 7}
    return Tuner(SimpleNamespace(network=Tiny()), Course(**values | changes), 4)


def test_matrices_alone_decay_and_what_is_frozen_is_not_moved():
    configured = tuner().configure_optimizers()
    optimizer, schedule = configured["optimizer"], configured["lr_scheduler"]
    matrices, others = optimizer.param_groups
    assert [p.shape for p in matrices["params"]] == [(4, 2)] and [p.shape for p in others["params"]] == [(2,), (2,)]
    assert (matrices["weight_decay"], others["weight_decay"], matrices["betas"]) == (0.1, 0.0, (0.9, 0.95))
    assert schedule["interval"] == "step" and [group["lr"] for group in optimizer.param_groups] == [0.0005] * 2, (
        "the first of two that rise"
    )


def test_a_checkpoint_holds_what_is_trained():
    module = tuner()
    checkpoint = {"state_dict": module.state_dict()}
    module.on_save_checkpoint(checkpoint)
    assert sorted(checkpoint["state_dict"]) == ["network.embed.weight", "network.norm.bias", "network.norm.weight"]
    assert module.strict_loading is False


@pytest.mark.parametrize(("packed", "fine"), [(-2.0, True), (-2.00001, True), (-2.0001, False), (float("nan"), False)])
def test_packing_is_held_to_padding(monkeypatch, packed, fine):
    module = tuner()
    monkeypatch.setattr(module, "transfer_batch_to_device", lambda batch, device, place: batch)
    losses = {"padded": -2.0, "packed": packed}
    monkeypatch.setattr(
        "qualm.runners.training.tuner.answer_logprobs", lambda network, batch, smoothing: (torch.tensor([losses[batch]]), 0)
    )
    module.check_packing = lambda: ("padded", "packed")
    if fine:
        module.on_train_start()
    else:
        with pytest.raises(FinetuneError, match="in this model examples in one row see each other; leave `packed` out"):
            module.on_train_start()
    module.check_packing = None
    module.on_train_start()


def test_a_model_that_cannot_be_packed(monkeypatch):
    module = tuner()
    monkeypatch.setattr(module, "transfer_batch_to_device", lambda batch, device, place: batch)

    def failing(network, batch, smoothing):
        if batch == "packed":
            raise IndexError("out of range")
        return torch.tensor([-1.0]), 0

    monkeypatch.setattr("qualm.runners.training.tuner.answer_logprobs", failing)
    module.check_packing = lambda: ("padded", "packed")
    with pytest.raises(FinetuneError, match=r"takes one example in a row \(out of range\)"):
        module.on_train_start()


def test_preferences_by_hand(monkeypatch):
    """Two pairs, chosen answers first; tokens (owner): what the model and what the one before gives them."""
    owner = torch.tensor([0, 0, 1, 2, 3])
    now, before = torch.tensor([-1.0, -0.5, -2.0, -3.0, -0.25]), torch.tensor([-1.0, -1.0, -1.0, -2.0, -1.0])
    tables = {"now": now, "before": before}
    monkeypatch.setattr(
        "qualm.runners.training.tuner.logprobs_of_all", lambda network, batches, smoothing: (tables.get(network, now), owner)
    )
    tuning = SimpleNamespace(network=Tiny(), reference=lambda: lambda: contextlib.nullcontext("before"))
    course = Course(1e-3, "constant", 0.0, 0.0, 0.95, 7)
    plain = Preferer(tuning, course, 4, False, beta=0.5, smoothing=0.0, sft_weight=0.0)
    batch = {"batches": [], "pairs": 2, "per_pair": 0.5, "per_token": 0.25}
    loss, measures = plain.share_loss(batch)
    margins = [0.5 * 0.5, 0.5 * -1.0], [0.5 * -1.0, 0.5 * 0.75]
    by_hand = [math.log1p(math.exp(-(chosen - rejected))) for chosen, rejected in zip(*margins, strict=True)]
    assert loss.item() == pytest.approx(sum(by_hand) / 2)
    found = {name: float(value) for name, value in measures.items()}
    assert found == pytest.approx({"chosen_reward": sum(margins[0]) / 2, "rejected_reward": sum(margins[1]) / 2, "preferred": 0.5})
    both = Preferer(tuning, course, 4, False, beta=0.5, smoothing=0.0, sft_weight=2.0)
    heavier, measures = both.share_loss(batch)
    assert float(measures["sft_loss"]) == pytest.approx(3.5 / 4) and heavier.item() == pytest.approx(loss.item() + 2 * 3.5 / 4)
