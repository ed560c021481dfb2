"""Compare two computations of one part of an answer, up to rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from qualm.runners.contracts.models import Part, draw_of

Verdict = Literal["equal", "rounding", "branched", "differs"]
ROUNDING = {"float64": 2e-6, "float32": 2e-4, "float16": 2e-2, "bfloat16": 0.2}
"""Tolerance for log-probabilities, entropies and logits between batches and machines, relative above 1. At float64 it is the last stored
digit; otherwise a multiple of the usual difference."""
_LAST_DECIMAL = 2e-9
_NOISE = 0.1
"""Usual difference, as a share of ROUNDING."""
CHANCE = 1e-3
"""Maximum probability that a stratum fails although nothing changed."""


@dataclass(frozen=True)
class PartDifference:
    """Difference between a stored part and the one computed now."""

    verdict: Verdict
    """`equal`: the same bytes. `rounding`: numbers within tolerance, or tied tokens. `branched`: a sampled answer with another token at
    some place, and numbers within tolerance before. `differs`: anything else."""
    largest: float = 0.0
    what: str = ""
    """Differing part: `text`, or the name of the numbers."""


def compared(part: str, stored: Part, computed: Part, dtype: str) -> PartDifference:
    if stored == computed:
        return PartDifference("equal")
    branch = _branch(stored.tokens, computed.tokens)
    if branch is None:
        largest, off = _apart(stored, computed, dtype)
        if stored.text != computed.text or (stored.tokens is None) != (computed.tokens is None):
            return PartDifference("differs", largest, "text")
        return PartDifference("differs" if off else "rounding", largest, off)
    one, other = _until(stored, branch), _until(computed, branch)
    largest, off = _apart(one, other, dtype)
    if off:
        return PartDifference("differs", largest, off)
    if draw_of(part):
        return PartDifference("branched", largest, "text")
    tie = _tie(stored, computed, branch, dtype)
    return PartDifference("rounding" if tie else "differs", largest, "text")


def too_many(branched: int, checked: int, tokens: int, dtype: str) -> bool:
    """Return whether more sampled answers branched than rounding explains.

    If distributions differ by e, a random number falls between the bounds of two tokens with probability about 4 e per token.
    """
    chance = 0.0 if dtype == "float64" else min(1.0, 4 * _NOISE * ROUNDING.get(dtype, ROUNDING["bfloat16"]) * tokens)
    below = math.fsum(math.comb(checked, k) * chance**k * (1 - chance) ** (checked - k) for k in range(branched))
    return 1 - below < CHANCE


def _branch(one: Sequence[int] | None, other: Sequence[int] | None) -> int | None:
    """Return the first place with different tokens; None if there is none."""
    if one is None or other is None or list(one) == list(other):
        return None
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _until(part: Part, place: int) -> Part:
    return replace(part, logprobs=part.logprobs and part.logprobs[:place], entropies=part.entropies and part.entropies[:place])


def _tie(stored: Part, computed: Part, place: int, dtype: str) -> bool:
    """Return whether the likeliest tokens at a place were equally likely."""
    if any(not part.logprobs or len(part.logprobs) <= place for part in (stored, computed)):
        return False
    (one,), (other,) = ((part.logprobs or [])[place : place + 1] for part in (stored, computed))
    return abs(one - other) <= 2 * _allowed(one, dtype)


def _apart(stored: Part, computed: Part, dtype: str) -> tuple[float, str]:
    """Return the largest difference, and the name of numbers outside the tolerance."""
    largest, off = 0.0, ""
    for name in ("logprobs", "entropies", "numbers"):
        one, other = getattr(stored, name), getattr(computed, name)
        if one == other:
            continue
        if one is None or other is None or len(one) != len(other):
            return math.inf, name
        for a, b in zip(one, other, strict=True):
            largest = max(largest, abs(a - b))
            off = off or (name if abs(a - b) > _allowed(a, dtype) else "")
    return largest, off


def _allowed(value: float, dtype: str) -> float:
    share = ROUNDING.get(dtype, ROUNDING["bfloat16"])
    return share * abs(value) + _LAST_DECIMAL if dtype == "float64" else share * max(1.0, abs(value))
