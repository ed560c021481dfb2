"""Capabilities of a model that follow from its config.json, without transformers."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from qualm.registry.plugins.internals import ENDS, HIDDEN, is_internal, layer_index, layer_range, parse_internal

_BRANCHING = frozenset({"full_attention", "sliding_attention"})
_KINDS = {
    "mllama": "the image enters by cross-attention",
    "florence2": "an encoder reads the prompt",
    "qwen3_5": "it has layers of linear attention",
    "qwen3_5_moe": "it has layers of linear attention",
}
"""Model types that need plain passes although their config does not show why."""


def text_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a config's `text_config` mapping; the whole config if there is none."""
    own = config.get("text_config")
    return own if isinstance(own, Mapping) else config


def plain_reason(config: Mapping[str, Any]) -> str:
    """Return why a model cannot reuse a prompt between passes; "" if it can.

    >>> plain_reason({"model_type": "mllama"}), plain_reason({"text_config": {"layer_types": ["full_attention"]}})
    ('the image enters by cross-attention', '')
    """
    text = text_of(config)
    if config.get("is_encoder_decoder") or text.get("is_encoder_decoder"):
        return "an encoder reads the prompt"
    if text.get("cross_attention_layers"):
        return "the image enters by cross-attention"
    others = sorted(set(text.get("layer_types") or ()) - _BRANCHING)
    return f"it has layers of {', '.join(others).replace('_', ' ')}" if others else _KINDS.get(str(config.get("model_type")), "")


def unavailable_columns(columns: Iterable[str], config: Mapping[str, Any]) -> Iterator[str]:
    """Yield phrases on the internals in `columns` that a model of this config cannot give."""
    inside = [parse_internal(column) for column in columns if is_internal(column)]
    if any(what.kind != ENDS for what in inside) and (reason := plain_reason(config)):
        yield f"internals, which this model, read by plain passes, does not give, since {reason}"
        return
    layers = text_of(config).get("num_hidden_layers")
    if isinstance(layers, int):
        for what in (what for what in inside if what.layer):
            if layer_index(what.layer, layers) is None if what.kind == HIDDEN else not layer_range(what.layer, layers):
                yield f"{what.column}, and it has {layers} layers"
