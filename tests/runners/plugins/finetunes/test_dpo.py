"""Preference optimisation on small models: the loss from plain forward passes, the reference, and that it prefers in the end."""

import csv
import io
import math

import pytest
import torch

from qualm.registry.sample import SAMPLES
from qualm.runners.contracts.finetunes import FinetuneContext, FinetuneError
from qualm.runners.contracts.models import ModelContext, Request
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.plugins.finetunes.dpo import dpo
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.prompts.question import messages
from qualm.runners.runtime.records import read_table, write_table
from tests.support.models.tiny_models import FAMILIES
from tests.support.projects.tiny_tuning import FULL, LORA, Tuning, bare_stage, write_pairs

DPO = {"base": "base", "train": ["pairs"], "tune": LORA, "batch": 6, "steps": 16, "rate": 0.01}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return {name: FAMILIES[name](tmp_path_factory.mktemp(name)) for name in ("llava", "idefics3")}


@pytest.fixture
def make(tmp_path, models):
    stage = bare_stage()

    def made(family="llava", pairs=12, **changes):
        if pairs is not None:
            write_pairs(tmp_path / "data", pairs)
        context = FinetuneContext(
            {"pairs": tmp_path / "data"},
            7,
            {"base": {"plugin": "hf_vlm", "args": {}}},
            {"base": models[family]},
            stage=stage,
        )
        return dpo(context, **{**DPO, **changes})

    made.counted, made.folder = stage.counters, tmp_path / "data"
    return made


def plain_logprob(model, network, data, row, said):
    """Sum of the log-probabilities of an answer's tokens by one plain forward pass."""
    conversation = messages(data.samples[row]["question"])
    prompt = model.encode([Request(model.render(conversation), data.image(row))]).tensors
    answer = model.answer_ids(conversation, said)
    ids = torch.cat([prompt["input_ids"][0], torch.tensor(answer)])
    given = {**prompt, "input_ids": ids[None], "attention_mask": torch.ones_like(ids)[None]}
    with torch.no_grad():
        logprobs = network(**given).logits[0].double().log_softmax(-1)
    start = prompt["input_ids"].shape[1]
    return sum(float(logprobs[t - 1, ids[t]]) for t in range(start, len(ids)))


@pytest.mark.slow
@pytest.mark.parametrize("tune", [LORA, FULL], ids=["lora", "full"])
@pytest.mark.parametrize("family", ["llava", "idefics3"])
def test_loss_is_that_of_plain_forward_passes(make, models, family, tune):
    recipe = make(family, tune=tune, beta=0.1, label_smoothing=0.1, sft_weight=0.5)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():  # away from the reference
        for parameter in recipe.module.parameters():
            if parameter.requires_grad:
                parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator))
    recipe.module.eval()
    loss, seen = recipe.module.share_loss(recipe.batches(1))
    model = hf_vlm(ModelContext("plain", models[family]))
    data, base = DatasetFolder("pairs", make.folder), hf_vlm(ModelContext("plain", models[family])).load()
    losses, rewards, tokens, told = [], [], 0, 0.0
    for example in recipe.share.mixture.batch(1, 6):
        sums = {
            n: [plain_logprob(model, n, data, example.row, s) for s in (example.answer, example.rejected)]
            for n in (recipe.module.network, base)
        }
        (own, other), (own_before, other_before) = sums.values()
        margin = 0.1 * ((own - own_before) - (other - other_before))
        losses.append(0.9 * math.log1p(math.exp(-margin)) + 0.1 * math.log1p(math.exp(margin)))
        rewards.append(0.1 * (own - own_before))
        told -= own
        tokens += len(model.answer_ids(list(example.conversation), example.answer))
    expected = sum(losses) / 6 + 0.5 * told / tokens
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert seen["chosen_reward"].item() == pytest.approx(sum(rewards) / 6, rel=1e-3, abs=1e-5)


def test_both_members_of_a_pair_prefer_their_own_answer(make):
    recipe = make()
    pool = recipe.share.mixture.pools[""]
    assert len(pool) == 24 and make.counted["dropped (no partner with another answer)"] == 3
    assert (pool[0].answer, pool[0].rejected) == (pool[1].rejected, pool[1].answer)


def test_before_training_the_loss_is_ln_2(make):
    recipe = make()
    loss, _ = recipe.module.share_loss(recipe.batches(0))
    assert loss.item() == pytest.approx(math.log(2), abs=1e-6)


def test_shares_add_up_and_packing_changes_nothing(make):
    padded, packed = make(batch=5), make(batch=5, packed=True)
    for recipe in (padded, packed):
        recipe.module.eval()
    whole = padded.module.share_loss(padded.batches(0))[0].item()
    assert packed.module.share_loss(packed.batches(0))[0].item() == pytest.approx(whole, rel=1e-5)
    shares = [padded.module.share_loss(padded.share(0, part, 3))[0].item() for part in range(3)]
    assert sum(shares) / 3 == pytest.approx(whole, rel=1e-6)


@pytest.mark.slow
def test_it_learns_to_prefer(tmp_path, models):
    project = Tuning(tmp_path, models["llava"])
    project.stage("dpo", DPO)
    project.run()
    rows = list(csv.DictReader(io.StringIO(project.log())))
    assert float(rows[0]["loss"]) == pytest.approx(math.log(2), abs=1e-4)
    assert float(rows[-1]["loss"]) < 0.5 and float(rows[-1]["preferred"]) > 0.8
    assert float(rows[-1]["chosen_reward"]) > float(rows[-1]["rejected_reward"])
    assert (project.model() / "adapter_model.safetensors").is_file()


def test_data_without_pairs(make):
    with pytest.raises(FinetuneError, match="dataset 'pairs': none of its 3 rows can be used by this recipe"):
        make(pairs=0)


def test_rated_preferences(make):
    """A worse answer that the data have is what the better one is preferred to, whatever else is in the set."""
    write_pairs(make.folder, 12)
    rows = read_table(make.folder / "samples.parquet", SAMPLES).to_pylist()
    for row in rows:
        if row["sample_id"] == "p00-a":
            row |= {"pair_id": None, "meta": [("rejected", "blue cone")]}
    write_table(make.folder / "samples.parquet", rows, SAMPLES)
    recipe = make(pairs=None)
    found = [e for e in recipe.share.mixture.pools[""] if e.rejected == "blue cone"]
    assert [(e.answer, e.conversation[0]["content"][-1]["text"]) for e in found] == [("red", "What color is the cube ?")]
    assert len(recipe.share.mixture.pools[""]) == 1 + 22
