"""Parts of an answer, each of which is requested, computed and stored separately."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from qualm.registry import SHOWN_DRAWS
from qualm.registry.formats.plausible import ImplausibleReason, top_token_texts
from qualm.registry.plugins.internals import Internal, is_internal, parse_internal

PARTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "answer": ("text", "token_logprobs", "token_entropies"),
        "options": ("text", "token_logprobs", "token_entropies", "option_logits"),
        "without_image": ("logprobs_without_image",),
        "without_question": ("logprobs_without_question",),
        "without_both": ("logprobs_without_both",),
        "image_divergence": ("image_divergence",),
        "uniform_divergence": ("uniform_divergence",),
        "top_logprobs": ("top_logprobs",),
        "top_tokens": ("top_tokens",),
        "p_true": ("p_true",),
        "p_true_sampling": ("p_true_sampling",),
        "p_yes": ("p_yes",),
        "said_confidence": ("said_confidence",),
    }
)
"""Part -> the columns of GENERATIONS that it fills. `draw K` is one more: row K."""

ANSWER, OPTIONS = "answer", "options"

COLUMNS = tuple(dict.fromkeys(column for columns in PARTS.values() for column in columns))
"""Columns of GENERATIONS that a model may fill; these and `draws` are the words of `needs` and GIVES."""


def draw_part(draw: int) -> str:
    return f"draw {draw}"


def draw_of(part: str) -> int:
    """Return the number K in the part name `draw K` (a sampled answer); 0 for other names."""
    return int(part.removeprefix("draw ")) if part.startswith("draw ") else 0


def internal_parts(column: str, n_draws: int) -> list[str]:
    """Return part names of a column of internals: one per sampled answer, or one if greedy.

    >>> internal_parts("draw_hidden_states/0.5/answer_last", 2)
    ['hidden_states/0.5/answer_last 1', 'hidden_states/0.5/answer_last 2']
    """
    of = parse_internal(column)
    return [f"{of.signal} {draw}" for draw in range(1, n_draws + 1)] if of.drawn else [of.signal]


def internal_of(part: str) -> tuple[Internal, int] | None:
    """Return (signal, draw number: 0 if greedy) of a hidden-states or attention part, or None."""
    if not is_internal(part):
        return None
    signal, _, draw = part.partition(" ")
    return parse_internal(signal), int(draw or 0)


def is_signal(part: str) -> bool:
    """Return True if a part name is of a signal about answers, not of an answer or draw."""
    return part not in (ANSWER, OPTIONS) and not draw_of(part)


def subjects_of(part: str, draws: int = 0) -> tuple[str, ...]:
    """Return the parts that a signal is about (answer, draws); () for prompt signals.

    A part that is no signal, such as an answer, gives () too.

    `draws` is the number of draws of the sample, which matters for signals about all of them.

    >>> subjects_of("p_true"), subjects_of("p_true_sampling", 2), subjects_of("hidden_states/0.5/answer_last 3")
    (('answer',), ('answer', 'draw 1', 'draw 2'), ('draw 3',))
    """
    if not is_signal(part):
        return ()
    if part in SHOWN_DRAWS:
        return (ANSWER, *map(draw_part, range(1, draws + 1)))
    inside = internal_of(part)
    if inside is None:
        return (ANSWER,)
    what, draw = inside
    return () if what.of_prompt else (draw_part(draw),) if draw else (ANSWER,)


def kind_of(part: str) -> str:
    """Return a part's name without the number of its draw: `draw`, `p_true`..."""
    return "draw" if draw_of(part) else part.partition(" ")[0]


def family_of(kind: str) -> str:
    """Return the heading under which a kind of part is counted: answers, draws or signals.

    >>> family_of("options"), family_of("draw"), family_of("p_true")
    ('answers', 'draws', 'signals')
    """
    return "draws" if kind == "draw" else "signals" if is_signal(kind) else "answers"


def read_top_logprobs(logprobs: Sequence[float] | None, numbers: Sequence[float] | None) -> list[list[float]] | None:
    """Split flat top log-probabilities into k = numbers[0] per token; None if malformed.

    None also if they are missing, k is less than 2, or those of a token do not descend.

    Args:
        logprobs: stored flat, k per position.
        numbers: k, as its first item.
    """
    k = int(numbers[0]) if numbers else 0
    if not logprobs or k < 2 or len(logprobs) % k:
        return None
    rows = [list(logprobs[at : at + k]) for at in range(0, len(logprobs), k)]
    return rows if all(row == sorted(row, reverse=True) for row in rows) else None


def read_top_tokens(text: str | None) -> list[list[str]] | None:
    """Parse JSON into the likeliest tokens' texts per position; None if missing or malformed."""
    try:
        rows = top_token_texts(json.loads(text or "null"))
        if isinstance(rows, ImplausibleReason) or not rows or min(map(len, rows)) < 2:
            return None
        "".join(map("".join, rows)).encode()  # fails for half a surrogate pair
    except (ValueError, RecursionError):
        return None
    return rows
