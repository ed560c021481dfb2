"""Self-check of the one-pass engine against plain forward passes, on the first question to a loaded model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from qualm.runners.contracts.models import Request
from qualm.runners.inference.devices import out_of_memory
from qualm.runners.inference.hf.plain import PlainNetwork
from qualm.runners.inference.hf.sampling import Chooser
from qualm.runners.inference.hf.token_numbers import token_logprobs

if TYPE_CHECKING:
    from qualm.runners.inference.hf.rows import Network

TOLERANCE: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"float64": (1e-4, 1e-2), "float32": (1e-4, 1e-2), "float16": (1e-2, 0.2), "bfloat16": (0.1, 1.0)}
)
"""dtype -> (rounding, fault): differences of a log-probability in nats up to the first are rounding, beyond the second a fault. For the
half precisions they follow from rounding logits around 20 to 11 and 8 bits.
"""
STEPS = 4
"""Tokens of each compared answer."""


def engine_fault(network: Network, inputs: dict[str, Any], row: dict[str, Any], request: Request, stops: set[int], dtype: str) -> str:
    """Return how the one-pass engine differs from plain passes, or its error; "" if it agrees.

    A greedy and a sampled answer to one question are generated side by side in one cache. Their log-probabilities are compared with those
    of one pass over the prompt and each answer, without cache, padding or mask.
    """
    try:
        rows = network.read(inputs)
        chooser = Chooser([(request.stream, 0), (request.stream, 1)], STEPS, 1.0, 1.0, rows.mask.device)
        tokens, logprobs, _ = rows.decode(2, chooser, STEPS, stops)
        worst = max(_difference(network.module, row, *answer) for answer in zip(tokens, logprobs, strict=True))
    except Exception as error:  # whatever a release of transformers raises where another interface is expected
        if out_of_memory(error):
            raise
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    limit = TOLERANCE[dtype][1]
    return "" if worst <= limit else f"log-probabilities differ by {worst:.2g} nats, more than {limit:g}"


def _difference(module: Any, row: dict[str, Any], tokens: Sequence[int], logprobs: Sequence[float]) -> float:
    """Return an answer's largest log-probability gap to a plain pass in nats; 0 if all NaN.

    It is infinite if one of two is NaN; if both are, the pair is skipped, and the caller refuses such logits.
    """
    plain = PlainNetwork(module)
    logits = plain.logits(plain.placed(row), tokens)[:-1]
    (expected,) = token_logprobs(logits.unsqueeze(0), [tokens])
    pairs = [(a, b) for a, b in zip(logprobs, expected, strict=True) if not (math.isnan(a) and math.isnan(b))]
    return max((math.inf if math.isnan(a - b) else abs(a - b) for a, b in pairs), default=0.0)
