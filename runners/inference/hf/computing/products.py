"""Matrix products in single precision on a CPU, by oneDNN.

PyTorch leaves them to MKL, which on processors that are not Intel's keeps to vectors of 256 bits: on an EPYC with AVX-512, oneDNN computes
large ones in .45 of the time, and adds or multiplies by another tensor in the same pass over memory. Both give the same within rounding.
Which of the two computes depends on the weights alone, never on how many tokens a batch has, so that a token's product is the same to the
bit in every batch of two tokens or more.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal

import torch
from torch.nn import Linear, functional

SMALLEST = 16_384
"""Numbers of a weight below which the 10 microseconds that a call of oneDNN takes are not made up for by 64 tokens."""
_lock = threading.Lock()
_open = 0
"""How often `products` is open, of all threads."""


@cache
def available() -> bool:
    """Whether this build of PyTorch has the products of oneDNN, on processors where they were measured."""
    if platform.machine() not in ("x86_64", "AMD64") or not torch._C._has_mkldnn:
        return False
    return hasattr(torch.ops.mkldnn, "_linear_pointwise")


@contextmanager
def products() -> Iterator[None]:
    """While this is open, the linear layers of all networks compute so where no gradients are wanted."""
    global _open
    with _lock:
        _open += 1
        if available():
            Linear.forward = _forward  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        with _lock:
            _open -= 1
            if not _open:
                Linear.forward = _PLAIN  # type: ignore[method-assign]


def product(
    states: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    other: torch.Tensor | None = None,
    how: Literal["add", "mul"] = "add",
) -> torch.Tensor:
    """`states` (..., units) by the transpose of `weight` (outputs, units), plus `bias`; then plus or times `other` (tokens, outputs), where
    states are (tokens, units)."""
    if suits(states, weight):
        if other is None:
            made: torch.Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")
        else:
            made = torch.ops.mkldnn._linear_pointwise.binary(states, other, weight, bias, how)
        return made
    if other is not None and how == "add" and bias is None:
        return torch.addmm(other, states, weight.T)
    made = functional.linear(states, weight, bias)
    if other is None:
        return made
    return made.add_(other) if how == "add" else made.mul_(other)


def suits(states: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether oneDNN is to compute this product: the weight is large enough, all is float32 on a CPU and whole, and needs no gradients."""
    plain = type(states) is torch.Tensor and type(weight) in (torch.Tensor, torch.nn.Parameter)  # DTensor: one process's share
    return (
        plain
        and states.dtype == weight.dtype == torch.float32
        and states.ndim > 1
        and states.numel() > 0
        and weight.numel() >= SMALLEST
        and states.device.type == weight.device.type == "cpu"
        and weight.is_contiguous()
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and available()
    )


_PLAIN = Linear.forward


def _forward(layer: Any, states: torch.Tensor) -> torch.Tensor:
    return product(states, layer.weight, layer.bias)
