"""Speed and memory of GPUs, for estimates: dense rates by data sheets, quoted from memory.

A rate measured on this machine replaces them (`qualm.compiler.project.resources`).
"""

from __future__ import annotations

from dataclasses import dataclass

from qualm.compiler.spec.errors import ProjectError, nearest
from qualm.registry.plugins.registry import MAX_NUMBER


@dataclass(frozen=True)
class Gpu:
    name: str
    half: float
    """Floating-point operations a second at bfloat16 or float16, tensor cores without sparsity."""
    single: float
    """Floating-point operations a second at float32."""
    traffic: float
    """Bytes a second to and from its memory."""
    memory: float
    """Bytes."""

    def rate(self, dtype: str) -> float:
        return self.half if dtype in ("bfloat16", "float16") else self.single


def _card(name: str, half: float, single: float, traffic: float, memory: float) -> Gpu:
    """Create a card from TFLOPS at half and single precision, GB/s and GiB."""
    return Gpu(name, half * 1e12, single * 1e12, traffic * 1e9, memory * 2**30)


CARDS = {
    card.name: card
    for card in (
        _card("b200", 2250, 75, 8000, 178),
        _card("h200", 989, 67, 4800, 139),
        _card("h100", 989, 67, 3350, 79),
        _card("a100", 312, 19.5, 2039, 79),
        _card("a100-40", 312, 19.5, 1555, 39.5),
        _card("l40s", 362, 91.6, 864, 44.5),
        _card("rtx5090", 209, 105, 1792, 31.5),
        _card("rtx4090", 165, 82.6, 1008, 23.6),
        _card("rtx3090", 71, 35.6, 936, 23.6),
        _card("a10", 125, 31.2, 600, 22.5),
        _card("l4", 121, 30.3, 300, 22.5),
        _card("v100", 112, 14, 900, 31.7),
        _card("t4", 65, 8.1, 320, 14.7),
    )
}


def card(text: str) -> Gpu:
    """Return a card by its name or by `TFLOPS GB/S GIB`, such as "989 4800 139".

    Raises:
        ProjectError: the text is neither.
    """
    if text.lower() in CARDS:
        return CARDS[text.lower()]
    try:
        rate, traffic, memory = map(float, text.split())
        if not all(0 < number <= MAX_NUMBER for number in (rate, traffic, memory)):
            raise ValueError
    except ValueError:
        raise ProjectError(
            f"gpu '{text}': expected {', '.join(CARDS)}, or three numbers 'TFLOPS GB/S GIB' as \"989 4800 139\"; {nearest(text, CARDS)}"
        ) from None
    return _card(text, rate, rate, traffic, memory)
