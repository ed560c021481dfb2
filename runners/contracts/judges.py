"""Judgements of answers in words, and the context of judges."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from qualm.runners.runtime.settings import Settings

_NO_MARKS: Mapping[str, float] = MappingProxyType({})


class JudgeError(Exception):
    """Error that a judge cannot be opened, or fails; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's verdict on one answer: rating, abstention, and the judge's reply."""

    rating: float | None
    pred_is_idk: bool | None
    """True for an abstention: the answer is "I don't know", or that the question cannot be answered."""
    reply: str | None = None
    parse_ok: bool = True
    """False if the reply could not be read."""
    marks: Mapping[str, float] = field(default_factory=lambda: _NO_MARKS)


@dataclass
class JudgeContext:
    settings: Settings
    counters: Counter[str] = field(default_factory=Counter)
