"""Cache of image and prompt encoders, for batches whose prompts cannot share a key-value cache.

Each prompt then reads its image again, and plain passes do so for every token. Outputs of the encoders are kept until the batch ends;
results are identical to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

VISION = frozenset({"visual", "vision_model", "vision_tower"})
"""Names of the vision part in the families of transformers."""
ROOM = 2**30
"""Bytes to keep at most; later outputs are recomputed."""


def shared_encoders(module: Any) -> list[Any]:
    """Return a network's image encoders and prompt encoder, if any, whose outputs can be kept."""
    parts: dict[str, Any] = {}
    for name, part in module.named_modules():
        if name.rpartition(".")[2] in VISION and not any(name.startswith(f"{outer}.") for outer in parts):
            parts[name] = part
    if module.config.is_encoder_decoder or module.config.get_text_config().is_encoder_decoder:
        parts["encoder"] = module.get_encoder()
    return list(parts.values())


@contextmanager
def cache_outputs(modules: Sequence[Any], max_bytes: int = ROOM) -> Iterator[None]:
    """Within this context, cache these modules' outputs by their inputs, up to `max_bytes`."""
    replaced = [vars(part).get("forward") for part in modules]  # a part on several devices has one of its own
    for part in modules:
        part.forward = _Remembering(part.forward, max_bytes // len(modules))
    try:
        yield
    finally:
        for part, own in zip(modules, replaced, strict=True):
            del part.forward
            if own is not None:
                part.forward = own


class _Remembering:
    def __init__(self, forward: Any, room: int) -> None:
        self.forward, self.room = forward, room
        self.outputs_by_input: list[tuple[list[Any], Any]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        inputs = [*args, *(item for name in sorted(kwargs) for item in (name, kwargs[name]))]
        # A search, not a table: a batch has few inputs, and to hash a tensor costs as much as to compare it.
        for before, output in self.outputs_by_input:
            if len(before) == len(inputs) and all(map(_same, before, inputs)):
                return _shallow_copy(output)
        output = self.forward(*args, **kwargs)
        size = sum(t.numel() * t.element_size() for t in _tensors([inputs, output]))
        if size <= self.room:
            self.room -= size
            self.outputs_by_input.append((inputs, _shallow_copy(output)))
        return output


def _same(a: Any, b: Any) -> bool:
    import torch

    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    plain = (bool, int, float, str, type(None))
    return isinstance(a, plain) and type(a) is type(b) and a == b


def _shallow_copy(output: Any) -> Any:
    """Return a shallow copy of a mapping, whose fields may be replaced; other outputs as is."""
    return type(output)(**output) if isinstance(output, Mapping) else output


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from _tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
