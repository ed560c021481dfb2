"""Thinking in tokens: where it ends in each answer, and when an answer ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qualm.runners.contracts.models import Part
from qualm.runners.prompts.thinking import ANSWERED, CUT, NO_ANSWER, Thinking, ends_in_thinking

if TYPE_CHECKING:
    import torch

SEPARATORS = 4
"""White-space tokens between thinking and answer that count for neither budget."""


@dataclass
class ThoughtEnds:
    """Tracker of where thinking ends in each answer, which stops rows at the token budgets."""

    tokenizer: Any
    thinking: Thinking
    begun: Sequence[bool]
    """For each row, true if its prompt ends with the opening tag."""
    max_answer_tokens: int
    """Greatest number of answer tokens."""
    thought: list[int | None] = field(init=False)
    """Row -> number of thinking tokens, white space after it included; None while thinking is open."""

    def __post_init__(self) -> None:
        assert self.thinking.tags is not None
        self.open, self.close = self.thinking.tags
        # A token has at least one byte, so the tag lies within as many tokens as it has bytes; one more, in which it may begin.
        self.window = len(self.close.encode()) + 1
        self.thought = [None] * len(self.begun)
        self.plain = [not begun for begun in self.begun]
        """Rows of which it is not known yet that they think."""

    @property
    def steps(self) -> int:
        """Return the token limit of thinking and answer, with SEPARATORS for white space between."""
        return self.thinking.budget + SEPARATORS + self.max_answer_tokens

    def __call__(self, step: int, rows: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return a mask of the given rows that continue after this step.

        Args:
            rows: numbers of the unfinished rows.
            tokens: (all rows, steps), what is written so far.
        """
        import torch

        numbers = rows.tolist()
        written = tokens[rows, : step + 1].tolist()
        return torch.tensor([self._goes_on(n, ids) for n, ids in zip(numbers, written, strict=True)], dtype=torch.bool, device=rows.device)

    def _goes_on(self, row: int, ids: list[int]) -> bool:
        length = len(ids)
        thought = self.thought[row]
        if thought is None and self.plain[row]:
            text = self._text(ids).lstrip()
            if text.startswith(self.open):
                self.plain[row] = False
            # While the text may still turn into the opening tag, nothing is decided.
            elif not self.open.startswith(text):
                thought = self.thought[row] = 0
        # Thinking may quote its own tags, so it ends where all of them are closed. White space right behind counts as thinking, too.
        if (thought is None and self.close in self._text(ids[-self.window :]) and self._is_balanced(row, ids)) or (
            thought == length - 1 and thought and not self._text(ids[-1:]).strip() and not self._special(ids[-1])
        ):
            thought = self.thought[row] = length
        return length < self.thinking.budget if thought is None else length - thought < self.max_answer_tokens

    def _is_balanced(self, row: int, ids: Sequence[int]) -> bool:
        """Return whether every thinking tag is closed, also one opened in the prompt alone."""
        text = self._text(ids).lstrip()
        by_prompt = self.begun[row] and not text.startswith(self.open)
        return text.count(self.close) >= text.count(self.open) + by_prompt

    def record_end(self, row: int, ids: Sequence[int]) -> None:
        """Record the last closing tag as the end of thinking in row `row`, unless one is recorded."""
        if self.thought[row] is not None or (last := self._text(ids).count(self.close)) == 0:
            return
        self.thought[row] = next(n for n in range(1, len(ids) + 1) if self._text(ids[:n]).count(self.close) == last)

    def _special(self, token: int) -> bool:
        return token in self.tokenizer.all_special_ids

    def _text(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=False))

    def part(self, row: int, tokens: list[int], logprobs: list[float], entropies: list[float], answer: str, ended: bool) -> Part:
        """Return an answer with thinking length and outcome in `numbers`; no text without an end."""
        thought = self.thought[row]
        if thought is None:
            how = NO_ANSWER if ended else CUT
            return Part(None, tokens, logprobs, entropies, [float(len(tokens)), float(how)])
        return Part(answer, tokens, logprobs, entropies, [float(thought), float(ANSWERED)])


def prompts_open_thinking(prompts: Sequence[str], n_answers: int, thinking: Thinking) -> list[bool]:
    """Return, for each of `n_answers` per prompt, whether the prompt opens the thinking."""
    assert thinking.tags is not None
    return [ends_in_thinking(prompt, thinking.tags) for prompt in prompts for _ in range(n_answers)]
