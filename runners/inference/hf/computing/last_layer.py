"""The last layer computed only where its output is read.

Other positions are needed of a layer as keys and values for what comes later; of the last layer nothing but those leaves the network
where no logits are wanted. So its attention and what follows it are computed for the positions whose logits are kept, and left at zero
elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from qualm.runners.contracts.models import ModelError
from qualm.runners.inference.hf.inside.taps import decoder


def tail(module: Any) -> list[Any]:
    """The parts of the last layer that compute every position by itself, where it is built as usual; none else."""
    import torch

    try:
        _, layers = decoder(module)
    except (ModelError, AttributeError):
        return []
    attention, mlp = getattr(layers[-1], "self_attn", None), getattr(layers[-1], "mlp", None)
    parts = [getattr(attention, "o_proj", None), mlp]
    return [part for part in parts if part is not None and all(_by_position(leaf, torch.nn.Linear) for leaf in part.modules())]


def last_attention(module: Any) -> Any:
    """The attention of the last layer, where it goes through `scaled_dot_product_attention`; else None."""
    try:
        _, layers = decoder(module)
    except (ModelError, AttributeError):
        return None
    own = getattr(layers[-1], "self_attn", None)
    return own if module.config.get_text_config()._attn_implementation == "sdpa" else None


_pass = threading.local()
"""Of this thread's pass: the attention that is computed for the last positions alone, and for how many."""


@cache
def _narrow_attention() -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    attend = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def fewer(module: Any, query: Any, key: Any, value: Any, attention_mask: Any = None, *args: Any, **also: Any) -> Any:
        part, keep = getattr(_pass, "now", (None, 0))
        new, mask = query.shape[2], attention_mask
        fits = keep == 1 if mask is None else mask.shape[-2] == new  # without one each position sees all before it, the last one all
        if module is not part or new <= keep or not fits or also.get("position_bias") is not None:
            return attend(module, query, key, value, mask, *args, **also)
        output, weights = attend(module, query[:, :, -keep:], key, value, None if mask is None else mask[..., -keep:, :], *args, **also)
        # The other positions become zeros: the layer adds to them, and nobody reads what comes of it.
        whole = output.new_zeros(output.shape[0], new, *output.shape[2:])
        whole[:, -keep:] = output
        return whole, weights

    ALL_ATTENTION_FUNCTIONS["sdpa"] = fewer


def _by_position(part: Any, linear: type[Any]) -> bool:
    own = next(part.parameters(recurse=False), None) is not None or next(part.buffers(recurse=False), None) is not None
    return isinstance(part, linear) or not own


@contextmanager
def narrowed(parts: list[Any], keep: int, attention: Any = None) -> Iterator[None]:
    """While this is open, these parts, and this attention, compute the last `keep` positions of (rows, positions, width) alone."""
    handles = []
    if attention is not None:
        _narrow_attention()
        _pass.now = (attention, keep)
    for part in parts:
        widths: list[int] = []

        # The default binds this part's list; the name moves on with the loop.
        def before(_: Any, args: Any, widths: list[int] = widths) -> Any:
            if len(args) != 1 or args[0].ndim != 3 or args[0].shape[1] <= keep:
                return None
            widths.append(args[0].shape[1])
            return (args[0][:, -keep:],)

        def behind(_: Any, __: Any, output: Any, widths: list[int] = widths) -> Any:
            if not widths:
                return None
            whole = output.new_zeros(output.shape[0], widths.pop(), output.shape[2])
            whole[:, -keep:] = output
            return whole

        handles += [part.register_forward_pre_hook(before), part.register_forward_hook(behind)]
    try:
        yield
    finally:
        _pass.now = (None, 0)
        for handle in handles:
            handle.remove()
