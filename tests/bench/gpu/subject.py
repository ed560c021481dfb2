"""The model under test of the GPU check, how much it is asked, and the lines that are reported about it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from qualm.compiler.project.model_sizes import SIGHT, Size
from qualm.runners.contracts.models import Decoding, Encoded, Request, draw_part
from qualm.runners.inference.batch_size import CudaMemory
from qualm.runners.inference.hf.model import HfVlm
from tests.bench.bench_infer import noise, requests

GIB = 2**30


@dataclass(frozen=True)
class Scale:
    """How much is asked."""

    naive_samples: int
    compared: int
    batch: int
    draws: int
    tokens: int
    long_tokens: int
    picture: tuple[int, int]
    words: int
    training_batch: int


FULL = Scale(3, 16, 32, 10, 16, 64, (640, 480), 30, 4)
QUICK = Scale(1, 4, 2, 2, 4, 6, (64, 48), 6, 2)


@dataclass
class Report:
    """Lines of text with their numbers, printed and saved as soon as they are known."""

    out: Path
    deadline: float
    model: str = ""
    section: str = ""
    findings: list[dict[str, Any]] = field(default_factory=list)

    @property
    def seconds_left(self) -> float:
        return self.deadline - time.monotonic()

    def add(self, text: str, kind: str = "finding", **numbers: Any) -> None:
        """Report a line; `kind` is finding, skipped, suspicion or problem."""
        self.findings.append({"model": self.model, "section": self.section, "kind": kind, "text": text, "numbers": numbers})
        before, after = ("PROBLEM " if kind == "problem" else ""), ("skipped: " if kind == "skipped" else "")
        print(f"{before}{self.model} | {self.section} | {after}{text}", flush=True)
        self.out.write_text(json.dumps({"findings": self.findings}), encoding="utf-8")

    def suspicion(self, text: str, verdict: str, because: str, **numbers: Any) -> None:
        """Report the verdict on a suspicion: confirmed, not confirmed, or not testable here."""
        self.add(f"suspicion: {text}: {verdict}, because {because}", "suspicion", verdict=verdict, **numbers)


@dataclass(frozen=True)
class Rates:
    """What the device reaches, measured in the same process."""

    operations: float
    """Floating point operations a second of `torch.matmul` on large matrices, in the model's dtype."""
    bytes: float
    """Bytes a second that a copy on the device reads and writes."""


@dataclass
class Subject:
    """The model under test and how it is asked."""

    model: HfVlm
    size: Size
    """As `qualm plan` knows it."""
    rates: Rates
    scale: Scale
    device: str
    report: Report
    ready: dict[tuple[tuple[str, ...], int], Encoded] = field(default_factory=dict)

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"

    @property
    def decoding(self) -> Decoding:
        return Decoding(self.scale.tokens)

    def draws(self, count: int | None = None) -> tuple[str, ...]:
        return tuple(draw_part(number) for number in range(1, (self.scale.draws if count is None else count) + 1))

    def asked(self, parts: tuple[str, ...], count: int) -> list[Request]:
        """Return questions on noise, each on a picture of its own."""
        seen = noise(count, 1, parts == ("options",), self.scale.picture, self.scale.words)
        return requests(self.model, seen, parts)

    def encoded(self, parts: tuple[str, ...], count: int) -> Encoded:
        """Return the same questions ready for the device; they are encoded once, for that takes longer than the answers."""
        if (parts, count) not in self.ready:
            self.ready[parts, count] = self.model.encode(self.asked(parts, count))
        return self.ready[parts, count]

    def peak(self, work: Callable[[], Any]) -> int:
        """Return the most bytes in use on the device during some work."""
        return CudaMemory(self.device).peak(work)


@dataclass
class PassCounter:
    """Count the arithmetic and the memory traffic of every forward pass of a module; padding counts as work."""

    module: Any
    operations: list[float] = field(default_factory=list)
    bytes: list[float] = field(default_factory=list)

    def __enter__(self) -> PassCounter:
        text, named = self.module.config.get_text_config(), {n: p for n, p in self.module.named_parameters() if p.ndim > 1}
        self.vision = sum(p.numel() for name, p in named.items() if any(word in name for word in SIGHT))
        self.head = text.hidden_size * text.vocab_size
        self.body = sum(p.numel() for name, p in named.items() if "embed_tokens" not in name and "lm_head" not in name) - self.vision
        self.number = next(iter(named.values())).element_size()
        self.hook = self.module.register_forward_pre_hook(self._count, with_kwargs=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.hook.remove()

    def _count(self, module: Any, args: tuple[Any, ...], inputs: dict[str, Any]) -> None:
        text, cache = module.config.get_text_config(), inputs.get("past_key_values", inputs.get("cache"))
        rows, new = inputs["input_ids"].shape
        before, kept = 0 if cache is None else cache.get_seq_length(), rows * (inputs.get("logits_to_keep") or new)
        patches = self._patches(inputs.get("pixel_values"))
        head_width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        attention = 4 * head_width * text.num_attention_heads * text.num_hidden_layers * rows * new * (before + new / 2)
        self.operations.append(2 * self.body * rows * new + 2 * self.head * kept + 2 * self.vision * patches + attention)
        weights = self.body + self.head + (self.vision if patches else 0)
        entries = 2 * text.num_hidden_layers * text.num_key_value_heads * head_width * rows * (before + 2 * new)
        self.bytes.append(self.number * (weights + entries + kept * text.vocab_size))

    def _patches(self, pixels: torch.Tensor | None) -> int:
        """Return the number of picture patches: Qwen has a row for each, the other families whole tiles."""
        if pixels is None or pixels.ndim == 2:
            return 0 if pixels is None else pixels.shape[0]
        return pixels.numel() // int(3 * self.module.config.vision_config.patch_size**2)

    def least_seconds(self, rates: Rates) -> float:
        """Return the time that these passes take at least: the larger of arithmetic and traffic, pass by pass."""
        return sum(max(o / rates.operations, b / rates.bytes) for o, b in zip(self.operations, self.bytes, strict=True))
