"""Layers in fewer operations give what transformers' code gives, and are used where that is so alone."""

import pytest
import torch
from transformers import (
    GraniteConfig,
    GraniteForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from qualm.runners.inference.hf.computing import small_layers
from qualm.runners.inference.hf.computing.double import computing
from qualm.runners.inference.hf.inside.attention import watched
from qualm.runners.inference.hf.inside.taps import tapped
from qualm.runners.inference.hf.rows import Network

SHAPE = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "pad_token_id": 0,
         "initializer_range": 0.3}  # fmt: skip
KINDS = {
    "llama": (LlamaForCausalLM, LlamaConfig(**SHAPE, num_key_value_heads=4)),
    "mistral": (MistralForCausalLM, MistralConfig(**SHAPE, num_key_value_heads=2, sliding_window=None, hidden_act="gelu")),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**SHAPE, num_key_value_heads=1)),
}


def network(kind: str = "qwen2", dtype: torch.dtype = torch.float64) -> Network:
    torch.manual_seed(3)
    build, config = KINDS[kind]
    module = build(config).to(dtype).eval()
    for name, values in module.named_parameters():  # norms and biases begin as ones and zeros
        if values.ndim == 1:
            torch.nn.init.normal_(values, mean=float("norm" in name), std=0.3)
    return Network(module)


def texts(*lengths: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(len(lengths))
    return [torch.randint(1, 50, (length,), generator=generator).tolist() for length in lengths]


def passes(own: Network) -> list[torch.Tensor]:
    """Logits of a first pass, with padding and without, of ways on from it, and of branches side by side."""
    long = own.begin(texts(130, 70, 101))
    further, kept = long.extend(texts(5, 9, 2), [130, 60, 101], keep=3)
    equal = own.begin(texts(66, 66))
    places = equal.select(torch.tensor([1, 0]))
    mask = torch.cat([places.mask.unsqueeze(1).expand(-1, 2, -1), torch.eye(2, dtype=torch.bool).expand(2, -1, -1)], dim=2)
    beside = own(places.cache, mask.unsqueeze(1), torch.full((2, 2), 66), 2, input_ids=torch.tensor([[3, 4], [5, 6]]))
    return [long.logits, kept, further.logits, equal.logits, beside, own.write(texts(80, 12), 7)[:, -4:]]


@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-12), (torch.float32, 2e-4)])
@pytest.mark.parametrize("kind", KINDS)
def test_every_pass_gives_what_the_plain_layers_give(kind, dtype, near, monkeypatch):
    own = network(kind, dtype)
    monkeypatch.setattr(small_layers, "TOKENS", 150)  # several parts
    with torch.inference_mode(), computing(str(dtype).removeprefix("torch.")):
        assert len(own.small.written()) == 3
        ours = passes(own)
        monkeypatch.setattr(own.small, "layers", [])
        plain = passes(own)
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=near)
    assert not any("forward" in vars(layer) for layer in own.module.model.layers)


def test_hidden_states_and_attention_are_seen_as_ever(monkeypatch):
    own, views = network(), []
    for plain in (False, True):
        if plain:
            monkeypatch.setattr(own.small, "layers", [])
        weights = {}
        with (
            torch.inference_mode(),
            computing("float64"),
            tapped(own.module, [0, 1, 2, 3]) as taps,
            watched(own, [1, 3], 4, weights.__setitem__),
        ):
            own.taps = taps
            rows = own.begin(texts(9, 6))
            rows.extend(texts(5, 4), [9, 6], keep=4)
            views.append([taps.states, weights[1], weights[3]])
            own.taps = None
    for one, other in zip(*views, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_the_last_layer_goes_on_for_what_is_kept_alone(monkeypatch):
    own, widths = network(), []
    fed = small_layers._Layer._fed
    monkeypatch.setattr(
        small_layers._Layer, "_fed", lambda self, states, looked: widths.append(states.shape[1]) or fed(self, states, looked)
    )
    with torch.inference_mode():
        own.small.written()
        widths.clear()
        own.begin(texts(9, 6))
        own.write(texts(9, 6), 20)
    assert widths == [9, 9, 1, 9, 9, 9]


class Doubled(LlamaForCausalLM):
    """Something is done to the logits after the last layer."""

    def forward(self, *args, **also):
        output = super().forward(*args, **also)
        output.logits = 2 * output.logits
        return output


@pytest.mark.parametrize("doubled", [False, True])
def test_text_is_read_without_the_module_where_that_gives_the_same(doubled, monkeypatch):
    own = network("llama")
    if doubled:
        own.module.__class__ = Doubled
    read = {}
    with torch.inference_mode(), computing("float64"):
        for way in ("few operations", "plain"):
            if way == "plain":
                monkeypatch.setattr(own.small, "layers", [])
            seen = []
            handle = own.module.register_forward_hook(lambda _, __, output, seen=seen: seen.append(output.logits.shape[:2]))
            rows = own.begin(texts(9, 6))
            logits = [rows.extend(texts(5, 4), [9, 4], keep)[1] for keep in (1, 3, 5)]
            handle.remove()
            read[way] = (seen, logits)
    # The prompt, then a few tokens once to compare, and no more; or every pass.
    compared = [(2, 1), (2, 1)] + ([(2, 1), (2, 3), (2, 5)] if doubled else [])
    assert read["few operations"][0] == compared and len(read["plain"][0]) == 4
    for one, other in zip(read["few operations"][1], read["plain"][1], strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_attention_is_that_of_torch_whatever_is_computed_at_once(monkeypatch):
    """Shared heads, positions that see nothing (their output is finite), rows in several parts and masks that all rows share."""
    generator = torch.Generator().manual_seed(5)
    query = torch.randn(5, 6, 7, 4, generator=generator, dtype=torch.float64)
    key, value = torch.randn(2, 5, 2, 9, 4, generator=generator, dtype=torch.float64)
    for sees in (torch.rand(5, 1, 7, 9, generator=generator) < 0.7, torch.ones(1, 1, 7, 9, dtype=torch.bool)):
        sees[:, :, :, 0] = True
        expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, sees, scale=0.3, enable_gqa=True)
        added = torch.zeros(sees.shape, dtype=torch.float64).masked_fill(~sees, small_layers._UNSEEN)
        for scores in (1, 6 * 7 * 9 * 2, 10**6):
            monkeypatch.setattr(small_layers, "SCORES", scores)
            found = small_layers._attended(query, key, value, added, 0.3, False)
            torch.testing.assert_close(found, expected.transpose(1, 2).flatten(2), rtol=0, atol=1e-12)
    nothing = small_layers._attended(query, key, value, torch.full((5, 1, 7, 9), small_layers._UNSEEN, dtype=torch.float64), 0.3, False)
    assert bool(nothing.isfinite().all())


def test_changed_weights_are_read_anew():
    own = network()
    with torch.inference_mode(), computing("float64"):
        before = own.begin(texts(4)).logits
    with torch.no_grad():
        own.module.model.layers[1].mlp.up_proj.weight.mul_(1.5)
    with torch.inference_mode(), computing("float64"):
        changed = own.begin(texts(4)).logits
        own.small.layers = []
        plain = own.begin(texts(4)).logits
    assert (before - changed).abs().max() > 1e-3
    torch.testing.assert_close(changed, plain, rtol=0, atol=1e-12)


def test_layers_that_are_built_otherwise_stay_as_they_are(monkeypatch):
    torch.manual_seed(0)
    assert not Network(Qwen3ForCausalLM(Qwen3Config(**SHAPE, num_key_value_heads=2, head_dim=8))).small.layers, "norms of queries and keys"
    assert not Network(GraniteForCausalLM(GraniteConfig(**SHAPE, num_key_value_heads=2))).small.layers, "the same weights, added otherwise"
    module = network().module
    for layer in module.model.layers:
        layer.__class__ = type(type(layer).__name__, (type(layer),), {"__module__": "remote_code"})
    assert not Network(module).small.layers, "code of one's own under the same name"
    module = network().module
    module.model.layers[1].mlp.up_proj.__class__ = type("Linear4bit", (torch.nn.Linear,), {})
    assert not Network(module).small.layers, "another product"
    with torch.inference_mode():
        assert not network(dtype=torch.bfloat16).small.written(), "its rounding would show"
        assert not Network(LlamaForCausalLM(LlamaConfig(**SHAPE, attention_bias=True))).small.layers, "a bias behind attention"
        own = network()
        own.module.model.layers[1].forward = own.module.model.layers[1].forward
        assert own.small.layers and not own.small.written(), "a forward put over its own"
        own = network()
        weight = own.module.model.layers[1].mlp.up_proj.weight
        own.module.model.layers[1].mlp.up_proj.weight = type("Share", (torch.nn.Parameter,), {})(weight)
        assert own.small.layers and not own.small.written(), "split over several processes"
        own = network()
        scaling = own.small.layers[0].self_attn.scaling
        plain = type(own.small.layers[2]).forward
        monkeypatch.setattr(type(own.small.layers[2]), "forward", lambda self, *args, **also: plain(self, *args, **also) + 0.1 * scaling)
        assert not own.small.written(), "one that gives something else"
        monkeypatch.setattr(small_layers, "MOST_BYTES", 1000)
        assert not network().small.written(), "wide layers"
    seeds = network()
    with seeds.small.computing(1) as used:
        assert not used, "gradients"
