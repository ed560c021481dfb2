"""What is not computed is not needed: kept logits and all keys and values stay what they were."""

import pytest
import torch
from transformers import DynamicCache

from qualm.runners.inference.hf.computing.last_layer import last_attention, narrowed, tail
from tests.support.models.tiny_models import FAMILIES


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    from transformers import AutoModelForImageTextToText

    folder = FAMILIES["qwen2_vl"](tmp_path_factory.mktemp("qwen2_vl"))
    return AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float64).eval()


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("keep", [1, 3, 7, 9])
def test_kept_logits_and_the_cache_are_as_ever(module, keep, padded, monkeypatch):
    ids = torch.randint(10, 60, (2, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[0, :2] = 0 if padded else 1
    parts, attention, queries = tail(module), last_attention(module), []
    assert len(parts) == 2 and attention is not None
    attend = torch.nn.functional.scaled_dot_product_attention
    heads = module.config.get_text_config().num_attention_heads

    def counted(query, *args, **kwargs):
        queries.append(query.shape[1] * query.shape[2] // heads)
        return attend(query, *args, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    caches, logits = [DynamicCache(), DynamicCache()], []
    rows = []
    handle = parts[1].register_forward_pre_hook(lambda _, args: rows.append(args[0].shape[1]))
    with torch.inference_mode():
        for cache, narrow in zip(caches, (False, True), strict=True):
            with narrowed(parts if narrow else [], keep, attention if narrow else None):
                logits.append(module(input_ids=ids, attention_mask=mask, past_key_values=cache, logits_to_keep=keep).logits)
    handle.remove()
    assert queries == [7, 7, 7, keep if keep < 7 and (padded or keep == 1) else 7]
    torch.testing.assert_close(*logits, rtol=0, atol=1e-12)
    for whole, narrow in zip(*(cache.layers for cache in caches), strict=True):
        torch.testing.assert_close(whole.keys, narrow.keys, rtol=0, atol=0)
        torch.testing.assert_close(whole.values, narrow.values, rtol=0, atol=0)
    assert not parts[1]._forward_pre_hooks and not parts[1]._forward_hooks


def test_a_layer_that_mixes_positions_is_computed_whole():
    class Mixing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.self_attn, self.mlp = torch.nn.Module(), Mixing()
            self.self_attn.o_proj = torch.nn.Linear(2, 2)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([Layer()])
            self.config = type("Config", (), {"get_text_config": lambda _: type("Text", (), {"num_hidden_layers": 1})})()

        def get_decoder(self):
            return self

    model = Model()
    assert tail(model) == [model.layers[0].self_attn.o_proj]
    assert tail(torch.nn.Linear(1, 1)) == [] and last_attention(torch.nn.Linear(1, 1)) is None
