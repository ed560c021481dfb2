"""Interface of a model for the one pass: tokens and texts, image marks, and the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from qualm.runners.contracts.models import Encoded, Request

if TYPE_CHECKING:
    from qualm.runners.inference.hf.rows import Network, Rows
    from qualm.runners.inference.hf.thinking import ThoughtEnds
    from qualm.runners.prompts.thinking import Thinking


class Reader(Protocol):
    """Interface of a transformers model for code that lays out and reads prompts."""

    label: str
    network: Network
    stops: Any
    plain: str
    """Reason for plain passes; "" without them."""

    @property
    def tokenizer(self) -> Any: ...

    @property
    def thinks(self) -> bool: ...

    @property
    def thinking(self) -> Thinking | None: ...

    @property
    def picture_token(self) -> int | None: ...

    def track_thinking(self, prompts: Sequence[str], n_answers: int, max_answer_tokens: int) -> ThoughtEnds: ...

    def render(self, turns: list[dict[str, Any]], silent: bool = False) -> str: ...

    def read(self, requests: Sequence[Request]) -> Rows: ...

    def written(self, prompt: str) -> tuple[int, ...]: ...

    def all_written(self, prompts: Sequence[str]) -> list[tuple[int, ...]]: ...

    def plain_texts(self, prompts: Sequence[str]) -> list[tuple[int, ...]]: ...

    def misfit(self, prompt: str, n_images: int) -> str: ...

    def marks(self, tokens: Sequence[int]) -> bool: ...

    def on_device(self, encoded: Encoded) -> dict[str, Any]: ...

    def tokenize(self, text: str) -> list[int]: ...

    def texts(self, generated: list[list[int]]) -> list[str]: ...

    def ends_of(self, tokens: Sequence[int]) -> list[int]: ...

    def added_texts(self, tokens: Sequence[int], alternatives: Sequence[Sequence[int]]) -> list[list[str]]: ...

    def option_ids(self, n: int) -> list[int]: ...
