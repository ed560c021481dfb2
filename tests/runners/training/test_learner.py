"""The losses of the small VLM against their own definitions, computed whole; and the rate of every step by hand."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy, log_softmax

from qualm.registry.scenes.world import VALUES
from qualm.runners.training.data import build_tokenizer, vocabulary
from qualm.runners.training.learner import MIDDLE_WEIGHT, SHARPNESS, WARM_UP, Learner
from qualm.runners.training.network import build_model
from qualm.runners.training.packing import IGNORE, attention_mask, pack

SIZE = {"pixels": 32, "patch": 16, "width": 32, "layers": 4, "heads": 4, "vision_layers": 1}


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(vocabulary())


@pytest.fixture
def learner(tokenizer):
    torch.manual_seed(2)
    made = Learner(build_model(tokenizer, **SIZE), tokenizer, looking=100, steps=1000, rate=0.01, cell_weight=0.5, point_weight=0.25)
    made.log_dict = made.log = lambda *_, **__: None
    return made


@pytest.fixture
def batch(tokenizer):
    prefix = tokenizer.convert_tokens_to_ids(["<user>"] + ["<image>"] * 4)
    texts = [[("What color is the cube?", "red"), ("Is there a cone?", "no")], [("How many objects are there?", "3")]]
    pairs = [
        [tuple(tokenizer.encode(t, add_special_tokens=False) for t in (q + "<assistant>", a + "</s>")) for q, a in row] for row in texts
    ]
    packed = {name: torch.from_numpy(array) for name, array in pack(prefix, pairs, tokenizer.pad_token_id).items()}
    torch.manual_seed(3)
    length, kinds = packed["input_ids"].shape[1], [*(len(values) for values in VALUES.values()), 2]
    cells = torch.stack([torch.randint(0, n, (2, 4)) for n in kinds], dim=1)
    cells[0, 0, 0] = IGNORE
    rows = {"cells": torch.tensor([[0, 0, 9], [0, 1, 9], [1, 0, 10]]), "option": torch.tensor([[1, 0, 10]])}
    looks = {}
    for name, of in rows.items():
        mask = torch.zeros(len(of), length, dtype=torch.bool)
        mask[:, 1:3] = True
        looks |= {f"{name}_from": of, f"{name}_to": mask}
    return {**packed, "pixel_values": torch.rand(2, 3, 32, 32), "cells": cells, **looks}


def cell_loss(learner, features, labels):
    """Cross-entropy of every attribute's words by their likeness to a cell, summed; objects' middles four times."""
    words, total = learner.model.get_input_embeddings().weight, 0.0
    for k, ids in enumerate(learner.names):
        logits = features @ words[ids].T
        values = [-log_softmax(logits[b, c], 0)[labels[b, k, c]] for b in range(len(logits)) for c in range(4) if labels[b, k, c] != IGNORE]
        total += float(torch.stack(values).mean()) * (MIDDLE_WEIGHT if k == len(learner.names) - 1 else 1.0)
    return total


def seen(learner, pixels):
    hidden = learner.model.model.vision_tower(pixel_values=pixels).last_hidden_state[:, 1:]
    return learner.model.model.multi_modal_projector(hidden) * SHARPNESS


def test_constants():
    assert (MIDDLE_WEIGHT, SHARPNESS, WARM_UP) == (4.0, 4.0, 60)


def test_labels_are_named_in_the_models_words(learner, tokenizer):
    named = [tokenizer.convert_ids_to_tokens(ids) for ids in learner.names]
    assert named == [list(words) for words in (*VALUES.values(), ("nothing", "object"))] and learner.watched == (2, 3)


def test_a_step_of_looking_is_the_loss_of_the_cells(learner, batch):
    with torch.no_grad():
        loss = learner.training_step({name: batch[name] for name in ("pixel_values", "cells")}, 0)
        assert float(loss) == pytest.approx(cell_loss(learner, seen(learner, batch["pixel_values"]), batch["cells"]), rel=1e-5)


def test_logits_are_those_of_the_whole_model(learner, batch):
    with torch.no_grad():
        mine = learner.answer_logits(batch)
        whole = learner.model(
            input_ids=batch["input_ids"], pixel_values=batch["pixel_values"], position_ids=batch["position_ids"],
            attention_mask=attention_mask(batch["segment"]),
        ).logits  # fmt: skip
    torch.testing.assert_close(mine, whole)


def shares(learner, batch, number):
    """Attention of a whole layer, as transformers computes it where it is asked for its weights."""
    model = learner.model
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model.model(
            input_ids=batch["input_ids"], pixel_values=batch["pixel_values"], position_ids=batch["position_ids"],
            attention_mask=attention_mask(batch["segment"]), use_cache=False, output_attentions=True,
        )  # fmt: skip
    return out.attentions[number]


def test_the_attention_of_a_few_heads_is_that_of_the_whole_layer(learner, batch):
    with torch.no_grad():
        learner.answer_logits(batch)
        for number, name in zip(learner.watched, ("cells", "option"), strict=True):
            few = learner._attention(number, batch[f"{name}_from"], batch["segment"])
            whole = shares(learner, batch, number)
            for row, (b, head, token) in zip(few, batch[f"{name}_from"].tolist(), strict=True):
                torch.testing.assert_close(row, whole[b, head, token], atol=1e-5, rtol=1e-4)


def test_a_step_of_questions_is_the_weighted_sum(learner, batch):
    with torch.no_grad():
        loss = float(learner.training_step(batch, 0))
        mask = batch["labels"] != IGNORE
        answers = float(cross_entropy(learner.answer_logits(batch)[mask], batch["labels"][mask]))
        cells = cell_loss(learner, seen(learner, batch["pixel_values"]), batch["cells"])
        looks = []
        for number, name in zip(learner.watched, ("cells", "option"), strict=True):
            whole = shares(learner, batch, number)
            looks += [-math.log(float(whole[b, h, t, 1:3].sum()) + 1e-6) for b, h, t in batch[f"{name}_from"].tolist()]
    assert loss == pytest.approx(answers + 0.5 * cells + 0.25 * sum(looks) / len(looks), rel=1e-4)


def test_questions_without_options_look_at_objects_alone(learner, batch):
    batch["option_from"], batch["option_to"] = batch["option_from"][:0], batch["option_to"][:0]
    with torch.no_grad():
        learner.answer_logits(batch)
        whole = shares(learner, batch, 2)
        looks = [-math.log(float(whole[b, h, t, 1:3].sum()) + 1e-6) for b, h, t in batch["cells_from"].tolist()]
        assert float(learner._look_loss(batch)) == pytest.approx(sum(looks) / 3, rel=1e-4)


def test_what_is_logged_is_right_or_not(learner, batch):
    told = {}
    learner.log_dict = told.update
    with torch.no_grad():
        learner.training_step(batch, 0)
        mask = batch["labels"] != IGNORE
        right = (learner.answer_logits(batch)[mask].argmax(-1) == batch["labels"][mask]).float().mean()
    assert set(told) == {"loss", "accuracy", "cell_loss", "look_loss"} and float(told["accuracy"]) == float(right)


@pytest.mark.parametrize(
    ("step", "share"),
    [
        (0, 1 / 60), (29, 0.5), (59, 1.0), (60, 1.0), (99, 1.0), (100, 1 / 60), (129, 0.5), (159, 1.0), (499, 1.0), (500, 1.0),
        (625, 0.01 + 0.495 * (1 + math.cos(math.pi / 4))), (750, 0.01 + 0.495), (1000, 0.01), (2000, 0.01),
    ],
)  # fmt: skip
def test_the_rate_of_a_step(learner, step, share):
    assert learner.rate_at(step) == pytest.approx(share)


def test_the_optimizer_takes_that_rate(learner):
    configured = learner.configure_optimizers()
    optimizer, schedule = configured["optimizer"], configured["lr_scheduler"]
    assert schedule["interval"] == "step" and optimizer.param_groups[0]["lr"] == pytest.approx(0.01 / 60)
    group = optimizer.param_groups[0]
    assert (group["weight_decay"], group["betas"], group["initial_lr"]) == (0.05, (0.9, 0.98), 0.01)
    assert len(group["params"]) == len(list(learner.parameters()))
