"""Outcomes of answers as columns: tokens to read, thinking, and reasons for missing answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from qualm.runners.contracts.parts import OPTIONS
from qualm.runners.prompts.thinking import ANSWERED, COUNTED, CUT, FINISHES, NO_ANSWER, REASONS, TOKEN_CHOICES, Thinking

PRIORS = ("without_image", "without_question", "without_both")
PER_TOKEN = frozenset(
    {
        "token_logprobs",
        "token_entropies",
        "image_divergence",
        "uniform_divergence",
        "top_logprobs",
        "top_tokens",
        *(f"logprobs_{name}" for name in PRIORS),
    }
)


@dataclass
class Thoughts:
    """End of the thinking, and its kind, in the answers of a table's rows."""

    total: int
    thought: dict[int, int] = field(default_factory=dict)
    """Row -> number of thinking tokens."""
    outcome: dict[int, int] = field(default_factory=dict)
    """Row -> how it ended (`qualm.runners.prompts.thinking.ANSWERED`...)."""
    texts: dict[int, str] = field(default_factory=dict)
    of: str = TOKEN_CHOICES[0]

    def select_tokens(self, name: str, column: pa.Array) -> pa.Array:
        """Return a per-token column cut to the tokens that estimators read; others unchanged."""
        if name not in PER_TOKEN or not self.outcome:
            return column
        return pa.array([self._part(row, values) for row, values in enumerate(column.to_pylist())], column.type)

    def _part(self, row: int, values: list[Any] | None) -> list[Any] | None:
        if values is None or row not in self.outcome or self.of == "both":
            return values
        if self.of == "thinking":
            return values[: self.thought[row]]
        return None if self.outcome[row] in REASONS else values[self.thought[row] :]

    def columns(self) -> dict[str, pa.Array]:
        """Return the columns `thinking`, `no_answer` and `finish` of GENERATIONS, by name."""
        endings = [self.outcome.get(row, ANSWERED) for row in range(self.total)]
        columns = {
            "thinking": [self.texts.get(row) for row in range(self.total)],
            "no_answer": [REASONS.get(how) for how in endings],
            "finish": [FINISHES.get(how) for how in endings],
        }
        return {name: pa.array(values, pa.string()) for name, values in columns.items()}

    def counts(self) -> Counter[str]:
        """Return counts by outcome of answers that were cut or ended without an answer."""
        return Counter(COUNTED[how] for how in self.outcome.values() if how in COUNTED)


def read_thoughts(stored: pa.Table, sources: Sequence[tuple[int, int, str]], total: int, model: Any) -> Thoughts:
    """Return where thinking ends in stored answers, by table row; empty without thinking.

    Args:
        stored: parts, with the columns of `qualm.runners.data.answers.VALUES`.
        sources: (row of the table, index among the parts, name) of every greedy and sampled answer.
        total: rows of the table.
    """
    thinking: Thinking | None = getattr(model, "thinking", None)
    thoughts = Thoughts(total, of=thinking.of if thinking is not None else TOKEN_CHOICES[0])
    if thinking is None or not thinking.on:
        return thoughts
    places = pa.array([place for _, place, _ in sources])
    parts = stored.select(["text", "tokens", "numbers", "thinking"]).take(places).to_pylist()
    for (row, _, name), part in zip(sources, parts, strict=True):
        if (state := _state(part, name == OPTIONS, thinking.budget)) is None:
            continue
        count, how = state
        thoughts.thought[row], thoughts.outcome[row] = count, how
        if part["thinking"]:
            thoughts.texts[row] = part["thinking"]
        elif part["tokens"] and hasattr(model, "thought"):
            thoughts.texts[row] = model.thought(part["tokens"][:count])
    return thoughts


def _state(part: Mapping[str, Any], is_choice: bool, budget: int) -> tuple[int, int] | None:
    """Return a stored answer's (number of thinking tokens, outcome); None if it has none."""
    tokens = part["tokens"] or []
    if not is_choice:
        return None if part["numbers"] is None else (int(part["numbers"][0]), int(part["numbers"][1]))
    if part["text"] is None:
        return len(tokens), NO_ANSWER if 0 < len(tokens) < budget else CUT
    return max(0, len(tokens) - 1), ANSWERED
