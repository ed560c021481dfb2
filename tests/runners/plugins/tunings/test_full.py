"""Full tuning on a small model: what is frozen, float32 while training, and a copy of the model as it was."""

import pytest
import torch

from qualm.runners.contracts.models import ModelContext
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.plugins.tunings.full import full
from tests.support.models.tiny_models import tiny_llava


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("llava"))


def frozen(tuning):
    return {n for n, p in tuning.network.named_parameters() if not p.requires_grad}


def test_everything_but_the_vision_tower(folder):
    names = frozen(full(hf_vlm(ModelContext("m", folder))))
    assert names and all("vision_tower" in n for n in names)
    assert not frozen(full(hf_vlm(ModelContext("m", folder)), vision=True))


def test_further_modules_by_pattern(folder):
    names = frozen(full(hf_vlm(ModelContext("m", folder)), vision=True, frozen="multi_modal_projector|lm_head"))
    assert names and all("multi_modal_projector" in n or "lm_head" in n for n in names)


def test_trained_in_float32_and_saved_in_the_model_s_dtype(folder, tmp_path):
    model = hf_vlm(ModelContext("m", folder), dtype="bfloat16")
    tuning = full(model)
    assert {p.dtype for p in tuning.network.parameters()} == {torch.float32}
    tuning.save(tmp_path, tuning.network.state_dict())
    again = hf_vlm(ModelContext("again", tmp_path), dtype="bfloat16")
    before, after = model.load().state_dict(), again.load().state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[n], after[n]) for n in before)


def test_the_reference_stays_what_it_was(folder):
    tuning = full(hf_vlm(ModelContext("m", folder)))
    reference = tuning.reference()
    weight = tuning.network.lm_head.weight
    was = weight.detach().clone()
    with torch.no_grad():
        weight.add_(1.0)
    with reference() as original:
        assert torch.equal(original.lm_head.weight, was)
        assert not any(p.requires_grad for p in original.parameters())
