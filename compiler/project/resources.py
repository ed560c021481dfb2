"""Estimate memory and time of an inference stage by stated arithmetic.

Memory = weights + cache + activations + logits, plus 10% for the allocator. Time is the rate of the last run on this machine, or else
operations and bytes by the card's peak rates. The estimate tells whether a model fits and whether a run takes minutes or days.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qualm.compiler.project.model_sizes import BYTES, Size
from qualm.compiler.spec.errors import ProjectError, nearest
from qualm.registry import SHOWN_DRAWS
from qualm.registry.plugins.internals import ATTENTION, EVIDENCE, GRADIENT, INFORMATION, is_internal, parse_internal
from qualm.registry.plugins.registry import MAX_NUMBER
from qualm.registry.system import textfiles

PROMPT = 64
"""Tokens of a question and of the chat template around it."""
FOLLOWED = 48
"""Tokens of a question about an answer, which is asked with the answer in it."""
SLACK, CONTEXT = 1.1, 0.5 * 2**30
"""Overhead factor of the allocator, and bytes of the device's own context."""
ACTIVATIONS = 16
"""Numbers per hidden unit that a layer holds for each token: residual, queries, keys, values and two of the four-fold wider MLP."""
EFFICIENCY = 0.4
"""Assumed share of a card's peak operations."""
LAUNCH = 0.7e-3
"""Seconds that PyTorch takes to launch a layer's kernels, which dominates in small models."""
PRIORS = ("logprobs_without_image", "logprobs_without_question", "logprobs_without_both", "image_divergence")
READ_AGAIN = ("uniform_divergence", "top_logprobs")
QUESTIONS_ABOUT_ANSWER = ("p_yes", "p_true", "p_true_sampling", "said_confidence")


@dataclass(frozen=True)
class Workload:
    """Work of a model per question: signals, sampled answers, answer and image tokens."""

    needs: frozenset[str]
    draws: int
    max_new_tokens: int
    image_tokens: int

    @property
    def prompt(self) -> int:
        return self.image_tokens + PROMPT

    @property
    def answers(self) -> int:
        return 1 + self.draws

    @property
    def priors(self) -> int:
        return sum(name in self.needs for name in PRIORS)

    @property
    def read_again(self) -> int:
        """Return the number of extra forward passes over an answer; a gradient counts as three."""
        kinds = Counter(parse_internal(need).kind for need in self.needs if is_internal(need))
        seen = bool(kinds[ATTENTION] or kinds[INFORMATION]) + kinds[INFORMATION] + bool(kinds[EVIDENCE]) + 3 * kinds[GRADIENT]
        return sum(name in self.needs for name in READ_AGAIN) + seen

    @property
    def questions_about_answer(self) -> int:
        return sum(name in self.needs for name in QUESTIONS_ABOUT_ANSWER)

    @property
    def follow(self) -> int:
        of_answer = self.priors * (self.max_new_tokens + PROMPT) + self.read_again * self.max_new_tokens
        return of_answer + self.questions_about_answer * (self.max_new_tokens + FOLLOWED) + self.draw_tokens

    @property
    def draw_tokens(self) -> int:
        """Return the tokens of sampled answers shown in a later question; 0 if none are."""
        return self.draws * self.max_new_tokens if SHOWN_DRAWS & self.needs else 0

    @property
    def passes(self) -> int:
        """Return the number of forward passes for one batch of questions."""
        return self.max_new_tokens + self.priors + self.read_again + self.questions_about_answer


@dataclass(frozen=True)
class MemoryEstimate:
    """Estimated bytes on the device for one batch, by use."""

    weights: float
    cache: float
    activations: float
    logits: float

    @property
    def total(self) -> float:
        return (self.weights + self.cache + self.activations + self.logits) * SLACK + CONTEXT


def memory(size: Size, work: Workload, batch: int, dtype: str, quantisation: str = "none") -> MemoryEstimate:
    """Return the estimated bytes on the device for `batch` questions at once, by use.

    cache = batch x (prompt + answers x new tokens) x bytes of a token; while the answer is read again or asked about, also batch x (prompt
    + answer + question about it), since that is done on a copy of the prompt's entries; activations = batch x 16 x the larger of
    prompt x hidden width and patches x the image encoder's width, for the encoder is done before the prompt is read; logits =
    batch x answers x vocabulary x 3 at float32.
    """
    # The prompt is cached once for all answers of a question; each answer adds only its own tokens.
    row = work.prompt + work.answers * work.max_new_tokens
    copied = work.prompt + FOLLOWED + work.max_new_tokens + work.draw_tokens if work.follow else 0
    return MemoryEstimate(
        size.weight_bytes(dtype, quantisation),
        batch * (row + copied) * size.cache_bytes(dtype),
        batch * max(work.prompt * size.hidden, work.image_tokens * size.patches * size.vision_width) * ACTIVATIONS * BYTES[dtype],
        batch * work.answers * size.vocabulary * 3 * 4.0,
    )


def largest_batch(size: Size, work: Workload, room_bytes: float, dtype: str, quantisation: str = "none") -> int:
    """Return the most questions that fit `room_bytes`, a power of two up to 4096; 0 if none."""
    batch = 0
    while batch < 4096 and memory(size, work, max(1, 2 * batch), dtype, quantisation).total <= room_bytes:
        batch = max(1, 2 * batch)
    return batch


@dataclass(frozen=True)
class Seconds:
    """Estimated seconds of one question on a GPU, by phase."""

    prefill: float
    decode: float
    launches: float
    operations: float
    traffic: float

    @property
    def total(self) -> float:
        return self.prefill + self.decode + self.launches


def seconds(size: Size, work: Workload, batch: int, dtype: str, card: Gpu, quantisation: str = "none") -> Seconds:
    """Return the estimated GPU seconds per question in a batch of `batch`, by phase.

    prefill: operations = 2 x parameters x tokens (the language model's body for prompt and follow-ups, the vision part for
    every patch of an image) + 2 x 2 x layers x width x prompt^2 / 2 of attention, at 40% of the card's peak. decode: each of the new tokens
    reads all weights once for the whole batch and the cache of its own row once; or computes 2 x parameters for every answer, if that
    takes longer. launches: 0.7 ms x layers x passes, for the whole batch.
    """
    rate = EFFICIENCY * card.rate(dtype)
    reads = work.prompt + work.follow
    operations = 2 * size.body * reads + 2 * size.vision * size.patches * work.image_tokens
    operations += 2 * size.layers * size.query_width * work.prompt**2
    # The first new token comes out of the prefill.
    steps = work.max_new_tokens - 1
    # On average over the steps half of each answer is in the cache.
    row = (work.prompt + work.answers * work.max_new_tokens / 2) * size.cache_bytes(dtype)
    language = size.weight_bytes(dtype, quantisation) - size.vision * BYTES[dtype]
    traffic = steps * (language / batch + row)
    computed = 2 * (size.body + size.vocabulary * size.hidden) * work.answers * steps
    launches = LAUNCH * size.layers * work.passes / batch
    return Seconds(operations / rate, max(traffic / card.traffic, computed / rate), launches, operations + computed, traffic)


def measured_seconds(root: Path, spec: str, stage: str) -> float | None:
    """Return the seconds per answer of a stage's last run here; None if unknown."""
    try:
        record: Mapping[str, Any] = json.loads(textfiles.read_text(root / ".qualm" / "runs" / spec / f"{stage}.json"))
    except (textfiles.TextFileError, ValueError, RecursionError):
        return None
    computed = record.get("counters", {}).get("answers computed", 0)
    return float(record["seconds"]) / computed if computed and "seconds" in record else None


@dataclass(frozen=True)
class Gpu:
    """A GPU's speed, in operations and bytes a second, and its memory in bytes.

    Dense rates are by its data sheet, quoted from memory. A rate measured on this machine replaces them.
    """

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


def _card(name: str, half_tflops: float, single_tflops: float, gb_per_second: float, memory_gib: float) -> Gpu:
    """Return a GPU from speeds at half and single precision, memory traffic and size."""
    return Gpu(name, half_tflops * 1e12, single_tflops * 1e12, gb_per_second * 1e9, memory_gib * 2**30)


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


def parse_gpu(text: str) -> Gpu:
    """Return a GPU by name, or by three numbers "TFLOPS GB/S GIB"; else ProjectError.

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
