"""LoRA on a small model: which layers, W + alpha/r BA by hand, and the model as it was."""

import pytest
import torch

from qualm.runners.contracts.finetunes import FinetuneError
from qualm.runners.contracts.models import ModelContext
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.plugins.tunings.lora import lora
from tests.support.models.tiny_models import tiny_llava


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("llava"))


@pytest.fixture
def model(folder):
    return hf_vlm(ModelContext("m", folder))


def trained(tuning):
    return {n for n, p in tuning.network.named_parameters() if p.requires_grad}


def test_language_model_s_linear_layers_by_default(model):
    names = trained(lora(model))
    assert len(names) == 2 * 7 * 2  # A and B of seven matrices in each of two layers
    assert all(".language_model.layers." in n and ".lora_" in n for n in names)


def test_by_pattern_with_the_vision_tower_and_whole_modules(model):
    names = trained(lora(model, targets="q_proj", whole="multi_modal_projector", vision=True, r=2))
    assert any("vision_tower" in n and "q_proj.lora_A" in n for n in names)
    assert any("multi_modal_projector.modules_to_save" in n for n in names)
    assert all("q_proj" in n or "multi_modal_projector" in n for n in names)


def test_a_pattern_may_be_of_the_whole_name(model):
    names = trained(lora(model, targets=r".*language_model\.layers\.1\.mlp\..*"))
    assert names and all(".layers.1.mlp." in n for n in names)


def test_no_layer_fits(model):
    with pytest.raises(FinetuneError, match=r"pattern 'wqkv': no linear layer fits; their names end in .*q_proj"):
        lora(model, targets="wqkv")
    with pytest.raises(FinetuneError, match="expected a regular expression"):
        lora(model, targets="(")


def test_what_is_added_is_alpha_over_r_times_ba(model):
    tuning = lora(model, r=4, alpha=6.0, targets="q_proj")
    layer = tuning.network.base_model.model.model.language_model.layers[0].self_attn.q_proj
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    assert a.shape[0] == 4 and not b.any()
    x = torch.randn(3, a.shape[1])
    with torch.no_grad():
        b.normal_()
        expected = x @ layer.base_layer.weight.T + 6.0 / 4 * x @ a.T @ b.T
        torch.testing.assert_close(layer(x), expected, atol=1e-5, rtol=1e-5)
        with tuning.reference()() as original:
            same = original.base_model.model.model.language_model.layers[0].self_attn.q_proj
            torch.testing.assert_close(same(x), x @ layer.base_layer.weight.T)


def test_saved_adapter_names_its_base(model, folder, tmp_path):
    import json

    tuning = lora(model)
    tuning.save(tmp_path, tuning.network.state_dict())
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(folder) and config["r"] == 8
    assert {p.name for p in tmp_path.iterdir()} >= {"adapter_model.safetensors", "tokenizer.json", "processor_config.json"}
    assert not (tmp_path / "config.json").exists()


def test_embeddings_and_head_trained_whole_come_back(model, folder, tmp_path):
    """For a model that has to learn words it never met, an adapter alone is too little."""
    tuning = lora(model, whole="lm_head|embed_tokens", targets="[qv]_proj")
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in tuning.network.parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    tuning.save(tmp_path, tuning.network.state_dict())
    given = {"input_ids": torch.tensor([[5, 6, 7, 8]]), "attention_mask": torch.ones(1, 4, dtype=torch.long)}
    merged = hf_vlm(ModelContext("again", tmp_path)).load()
    with torch.no_grad():
        torch.testing.assert_close(merged(**given).logits, tuning.network.eval()(**given).logits, atol=1e-4, rtol=1e-4)
        assert not torch.allclose(merged(**given).logits, hf_vlm(ModelContext("m", folder)).load()(**given).logits, atol=1e-2)
