"""Layers of small decoders on a CPU, in as few operations as they can be written.

Of a layer 128 units wide, more than half of the time goes by outside its matrix products: norms, rotations, sums and copies, each a pass
over memory. Here queries, keys and values come from one product, gate and input of the feed-forward part from another; the weights of
norms are multiplied into them; a rotation is one product of complex numbers, for which the two halves of each head lie side by side; sums
are part of the product before them. The last layer goes on only for the positions whose logits are wanted. Hooks on a layer, masks and
the cache are those of transformers. Where text alone is read, the layers are called here, one after the other: what transformers does
around them takes another half a millisecond a pass.

Only for layers that are known to be built so, and which give the same here, within rounding: each is compared when it is first used, and
so is a pass through all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional

from qualm.runners.contracts.models import ModelError
from qualm.runners.inference.hf.computing.products import product
from qualm.runners.inference.hf.inside.taps import decoder

KNOWN = frozenset({"LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer"})
"""Layers of transformers: norm, attention with rotated queries and keys, norm, gated feed-forward part."""
MOST_BYTES = 2**28
"""Of all layers' weights, which are held a second time; wider layers spend their time in products anyway."""
TOKENS, POSITIONS, SCORES = 1536, 16, 200_000
"""How many are computed at once, so that a core's own memory holds what is made of them; the latter two of attention."""
_UNSEEN = -1e38
"""What is added where a position does not see a key. Not infinity: a position that fills the batch sees none, and would become NaN."""
Noting = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]
"""(queries, keys, which keys are seen) of a layer."""
_NEAR = 1e-4
"""How far what a layer gives may lie from what transformers' code gives, of its largest value."""


class SmallLayers:
    """The layers of one network; within `computing` they are used."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.layers = _known_layers(module)
        self.noting: dict[int, Noting] = {}
        """By the number of a layer, what looks at its attention."""
        self._written: list[_Layer] = []
        self._weights: list[tuple[int, int]] = []
        """Where the weights lay that these were made from, and how often they had been written to."""
        self._alike: bool | None = None
        """Whether a pass through these and nothing else gives the module's logits; None before it was tried."""
        self._passing = _Pass()
        self._lock = threading.RLock()

    @contextmanager
    def computing(self, keep: int | None) -> Iterator[bool]:
        """While this is open, the layers compute so; False where they cannot.

        Args:
            keep: how many positions, from the end, leave the last layer; all where None.
        """
        if not self.layers or torch.is_grad_enabled():
            yield False
            return
        with self._lock:  # a pass of another thread must not find half of the layers as transformers has them
            written = self.written()
            for number, (layer, small) in enumerate(zip(self.layers, written, strict=False)):
                small.keep, small.note = keep if small is written[-1] else None, self.noting.get(number)
                layer.forward = small
            try:
                yield bool(written)
            finally:
                self._passing.forget()
                for layer, _ in zip(self.layers, written, strict=False):
                    del layer.forward

    def logits(self, cache: Any, mask: torch.Tensor, positions: torch.Tensor, keep: int, tokens: torch.Tensor) -> torch.Tensor | None:
        """Those of the last `keep` positions (rows, keep, vocabulary), within `computing`; None where only the module gives them.

        Args:
            cache: grows by what is read.
            mask: (rows, 1, new, cached), what each position sees.
            positions: (rows, new).
            keep: how many positions leave the last layer.
            tokens: (rows, new).
        """
        if self._alike is None:
            new = min(tokens.shape[1], 5)
            few, places = tokens[:2, :new], positions[:2, :new]
            sees = torch.ones(len(few), 1, new, new, dtype=torch.bool).tril()
            plain = self.module(input_ids=few, attention_mask=sees, position_ids=places, use_cache=False).logits[:, -keep:]
            own = self._through(None, sees, places, keep, few)
            self._passing.forget()
            self._alike = own is not None and own.shape == plain.shape and bool((plain - own).abs().max() <= _NEAR * plain.abs().max())
        return self._through(cache, mask, positions, keep, tokens) if self._alike else None

    def _through(self, cache: Any, mask: torch.Tensor, positions: torch.Tensor, keep: int, tokens: torch.Tensor) -> torch.Tensor | None:
        inner = decoder(self.module)[0]
        head: Any = self.module.get_output_embeddings()
        embed, turn, norm = (getattr(inner, name, None) for name in ("embed_tokens", "rotary_emb", "norm"))
        if embed is None or turn is None or norm is None or head is None:
            return None
        states = embed(tokens)
        turns = turn(states, positions)
        for layer in self.layers:
            states = layer(states, attention_mask=mask, position_ids=positions, past_key_values=cache, position_embeddings=turns)
        logits: torch.Tensor = head(norm(states[:, -keep:]))
        return logits

    def written(self) -> list[_Layer]:
        """The layers as they are computed here, made anew where their weights have changed; none where that is not done."""
        weights = [(p.data_ptr(), -1 if p.is_inference() else p._version) for layer in self.layers for p in layer.parameters()]
        if weights != self._weights:
            self._weights, self._written, self._alike = weights, [], None
            if _fit(self.layers):
                written = [_Layer(layer, self._passing) for layer in self.layers]
                self._written = written if all(map(_agree, self.layers, written)) else []
                self._passing.forget()
        return self._written


class _Pass:
    """What all layers of a pass share: rotations as complex numbers, and what is seen."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._of: dict[str, Any] = {}
        self._made: dict[str, Any] = {}

    def turns(self, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """(rows, 1, positions, half of a head's units)"""
        if self._of.get("turns") is not cos:
            half = cos.shape[-1] // 2
            self._of["turns"], self._made["turns"] = cos, torch.complex(cos[..., :half], sin[..., :half]).unsqueeze(1)
        turns: torch.Tensor = self._made["turns"]
        return turns

    def sees(self, mask: torch.Tensor | None, new: int, cached: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool]:
        """(rows or 1, 1, new, cached), what each position sees, and what is therefore added to products; and whether all were read now and
        none sees one after it."""
        if "mask" not in self._made or self._of["mask"] is not mask:
            before = torch.ones(new, cached, dtype=torch.bool).tril(cached - new)
            sees = before.view(1, 1, new, cached) if mask is None else mask
            forward = new == cached and (mask is None or (mask.dtype == torch.bool and not bool((mask & ~before).any())))
            added = like.new_zeros(sees.shape).masked_fill_(~sees, _UNSEEN) if sees.dtype == torch.bool else sees
            self._of["mask"], self._made["mask"] = mask, (sees, added, forward)
        made: tuple[torch.Tensor, torch.Tensor, bool] = self._made["mask"]
        return made


class _Layer:
    """One layer."""

    def __init__(self, layer: Any, passing: _Pass) -> None:
        attention, feed = layer.self_attn, layer.mlp
        self.attention, self.passing = attention, passing
        self.act = feed.act_fn
        self.is_silu = type(feed.act_fn).__name__ in ("SiLU", "SiLUActivation")  # of torch; of transformers
        self.keep: int | None = None
        self.note: Noting | None = None
        self.units: int = attention.head_dim
        self.heads, self.shared = (p.out_features // self.units for p in (attention.q_proj, attention.k_proj))
        before, between = layer.input_layernorm, layer.post_attention_layernorm
        self.eps = (before.variance_epsilon, between.variance_epsilon)
        parts = [_side_by_side(attention.q_proj, self.units), _side_by_side(attention.k_proj, self.units), attention.v_proj]
        weights, biases = zip(*((p.weight, p.bias) if isinstance(p, torch.nn.Linear) else p for p in parts), strict=True)
        self.read = torch.cat(weights) * before.weight
        self.bias = None if biases[0] is None else torch.cat(biases)
        self.out = attention.o_proj.weight
        self.gate, self.up = (part.weight * between.weight for part in (feed.gate_proj, feed.up_proj))
        self.down = feed.down_proj.weight

    def __call__(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: Any = None,
        past_key_values: Any = None,
        use_cache: Any = None,
        position_embeddings: tuple[torch.Tensor, torch.Tensor] | None = None,
        **_: Any,
    ) -> torch.Tensor:
        assert position_embeddings is not None
        new = hidden_states.shape[1]
        keep = new if self.keep is None else min(self.keep, new)
        query, key, value = self._heads(hidden_states, self.passing.turns(*position_embeddings), keep)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.attention.layer_idx)
        sees, added, forward = self.passing.sees(attention_mask, new, key.shape[2], hidden_states)
        if keep != new:
            sees, added, forward = sees[:, :, -keep:], added[:, :, -keep:], False
        if self.note is not None:
            self.note(query, key, sees)
        looked = _attended(query, key, value, added, self.attention.scaling, forward)
        return self._fed(hidden_states[:, -keep:], looked)

    def _heads(self, states: torch.Tensor, turns: torch.Tensor, keep: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries of the last `keep` positions, keys and values (rows, heads, positions, units)."""
        rows, new, width = states.shape
        queries, keys = self.heads * self.units, self.shared * self.units
        query = states.new_empty(rows, self.heads, keep, self.units)
        key, value = states.new_empty(2, rows, self.shared, new, self.units)
        for start, end in _parts(rows, new):
            scaled = _scaled(states[start:end].reshape(-1, width), self.eps[0])
            own = turns if len(turns) == 1 else turns[start:end]
            if keep == new:
                asks, every = self._product(scaled, slice(None)).tensor_split((queries,), dim=1)
            else:
                every = self._product(scaled, slice(queries, None))
                asks = self._product(scaled.view(-1, new, width)[:, -keep:].reshape(-1, width), slice(queries))
            _turn(asks, own[:, :, -keep:], query[start:end])
            _turn(every[:, :keys], own, key[start:end])
            value[start:end] = every[:, keys:].view(-1, new, self.shared, self.units).transpose(1, 2)
        return query, key, value

    def _product(self, states: torch.Tensor, part: slice) -> torch.Tensor:
        return product(states, self.read[part], None if self.bias is None else self.bias[part])

    def _fed(self, states: torch.Tensor, looked: torch.Tensor) -> torch.Tensor:
        """What leaves the layer at these positions, which looked at that (both rows, positions, width)."""
        rows, new, width = states.shape
        made = []
        for start, end in _parts(rows, new):
            own = states[start:end].reshape(-1, width)
            own = product(looked[start:end].view(len(own), -1), self.out, other=own)
            scaled = _scaled(own, self.eps[1])
            gate = product(scaled, self.gate)
            gate = functional.silu(gate, inplace=True) if self.is_silu else self.act(gate)
            made.append(product(product(scaled, self.up, other=gate, how="mul"), self.down, other=own))
        return (made[0] if len(made) == 1 else torch.cat(made)).view(rows, new, width)


def _parts(rows: int, new: int) -> list[tuple[int, int]]:
    """Rows whose states, with what is made of them within a layer, fit into a core's own memory."""
    each = max(1, TOKENS // new)
    return [(start, min(start + each, rows)) for start in range(0, rows, each)]


def _turn(heads: torch.Tensor, turns: torch.Tensor, output: torch.Tensor) -> None:
    """Writes (tokens, heads x units) into (rows, heads, positions, units), turned."""
    rows, number, positions, units = output.shape
    pairs = torch.view_as_complex(heads.view(rows, positions, number, units // 2, 2)).transpose(1, 2)
    torch.mul(pairs, turns, out=torch.view_as_complex(output.view(rows, number, positions, units // 2, 2)))


def _attended(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, added: torch.Tensor, scaling: float, forward: bool
) -> torch.Tensor:
    """What each query's heads take from the values (rows, positions, heads x units).

    By products of whole matrices, some rows at a time: for heads of few units and tens of positions they take about two thirds of the time
    of `scaled_dot_product_attention`. Where no position sees one after it, some positions at a time are computed, without the keys of those
    after them.

    Args:
        query: (rows, heads, positions, units).
        key: (rows, shared heads, cached, units).
        value: the same.
        added: (rows or 1, 1, positions, cached), to the scaled products.
        scaling: of the products.
        forward: whether no position sees one after it and all were read now.
    """
    rows, heads, new, units = query.shape
    shared = key.shape[1]
    together = POSITIONS if forward and new >= 4 * POSITIONS // 3 else new
    output = query.new_empty(rows, new, heads, units)
    for start in range(0, new, together):
        end = min(start + together, new)
        seen = end if forward else key.shape[2]
        each = max(1, SCORES // (heads * (end - start) * seen))
        for first in range(0, rows, each):
            some = slice(first, min(first + each, rows))
            asks = query[some, :, start:end]
            scores = asks.new_empty(len(asks), heads, end - start, seen)
            scores.copy_(added[some if len(added) == rows else slice(None), :, start:end, :seen])
            # Heads that share their keys stand one below the other.
            scores = scores.view(len(asks) * shared, -1, seen)
            asks = asks.reshape(len(scores), -1, units)
            scores.baddbmm_(asks, key[some, :, :seen].flatten(0, 1).transpose(1, 2), alpha=scaling)
            taken = torch.bmm(torch.softmax(scores, dim=2), value[some, :, :seen].flatten(0, 1))
            output[some, start:end] = taken.view(-1, heads, end - start, units).transpose(1, 2)
    return output.flatten(2)


def _scaled(states: torch.Tensor, eps: float) -> torch.Tensor:
    """What a norm makes of them before its weights."""
    length = torch.linalg.vector_norm(states, dim=1, keepdim=True)
    scaled: torch.Tensor = states * length.square_().div_(states.shape[1]).add_(eps).rsqrt_()
    return scaled


def _side_by_side(part: Any, units: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Weights whose output has the two halves of each head, which are turned together, side by side."""
    heads = part.out_features // units
    order = torch.arange(heads * units).view(heads, 2, units // 2).transpose(1, 2).reshape(-1)
    return part.weight[order], None if part.bias is None else part.bias[order]


def _known_layers(module: Any) -> list[Any]:
    try:
        _, layers = decoder(module)
    except (ModelError, AttributeError):
        return []
    config = module.config.get_text_config()
    return layers if config._attn_implementation == "sdpa" and all(map(_known, layers)) else []


_PARTS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
          "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")  # fmt: skip
_NORMS = ("input_layernorm", "post_attention_layernorm")


def _known(layer: Any) -> bool:
    kind = type(layer)
    if kind.__name__ not in KNOWN or not kind.__module__.startswith("transformers."):
        return False
    weights = {f"{part}.weight" for part in (*_PARTS, *_NORMS)}
    own = {name for name, _ in layer.named_parameters()}
    biases = {f"{part}.bias" for part in _PARTS[:3]}
    plain = "forward" not in vars(layer) and all(type(layer.get_submodule(part)) is torch.nn.Linear for part in _PARTS)
    return plain and own in (weights, weights | biases) and layer.self_attn.head_dim % 2 == 0


def _fit(layers: Sequence[Any]) -> bool:
    """Whether it pays: full precision on a CPU, not too large; and whole, not one process's share of a model that was split since."""
    parameters = [p for layer in layers for p in layer.parameters()]
    if not all(map(_known, layers)) or not all(type(p) is torch.nn.Parameter for p in parameters):  # FSDP; DTensor
        return False
    usual = {(p.device.type, p.dtype) for p in parameters}
    size = sum(p.numel() * p.element_size() for p in parameters)
    return len(usual) == 1 and usual <= {("cpu", torch.float32), ("cpu", torch.float64)} and size <= MOST_BYTES


def _agree(layer: Any, small: _Layer) -> bool:
    """Whether both give the same of some states, within rounding."""
    generator = torch.Generator().manual_seed(0)
    like = small.read
    states = torch.randn(2, 7, like.shape[1], generator=generator).to(like)
    angles = 6 * torch.rand(2, 7, small.units // 2, generator=generator).to(like).repeat(1, 1, 2)
    positions = (angles.cos(), angles.sin())
    mask = torch.ones(7, 7, dtype=torch.bool).tril().expand(2, 1, -1, -1)
    plain = layer.forward(states, attention_mask=mask, position_embeddings=positions)
    own = small(states, mask, position_embeddings=positions)
    return bool((plain - own).abs().max() <= _NEAR * plain.abs().max())
