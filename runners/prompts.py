"""The one place where a sample's question becomes the text a model is asked.

Training, inference and the digest of what a model saw all call `render_question`; were there two of these, a model
would be trained on one prompt and measured on another.
"""

from __future__ import annotations

from collections.abc import Sequence

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Names of the options of a multiple-choice question, in order."""

INSTRUCTION = "Answer with the option's letter from the given choices directly."


def render_question(question: str, choices: Sequence[str] = ()) -> str:
    """The user's turn, without the image: the question alone, or with its lettered options and how to answer.

    >>> print(render_question("What color is the cube?", ["red", "blue"]))
    What color is the cube?
    A. red
    B. blue
    Answer with the option's letter from the given choices directly.

    Raises:
        ValueError: more options than there are letters.
    """
    if not choices:
        return question
    if len(choices) > len(LETTERS):
        raise ValueError(f"a question has {len(choices)} options, but only {len(LETTERS)} letters exist: {question!r}")
    lines = [f"{letter}. {choice}" for letter, choice in zip(LETTERS, choices, strict=False)]
    return "\n".join([question, *lines, INSTRUCTION])


def messages(question: str, choices: Sequence[str] = (), image: bool = True) -> list[dict[str, object]]:
    """The conversation a processor's chat template is applied to, with `add_generation_prompt=True`."""
    content: list[dict[str, object]] = [{"type": "image"}] if image else []
    return [{"role": "user", "content": [*content, {"type": "text", "text": render_question(question, choices)}]}]
