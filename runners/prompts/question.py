"""Conversation of a sample's question: template, options, images, examples.

Training, inference and the digest of what a model saw all use it; were there two of these, a model would be trained on one prompt and
measured on another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from qualm.registry import LETTERS
from qualm.registry.formats.picture_lists import has_marks, split_at_images

if TYPE_CHECKING:  # compiling a spec reads the names of this module, and loads no library for images
    import PIL.Image

INSTRUCTION = "Answer with the option's letter from the given choices directly."
SHORT = "Answer with a single word or a short phrase."
JSON = "Answer with a JSON object alone, which fits this schema: "
TEMPLATE = "{question}\n{options}\n{instruction}"
"""Template of the user's turn without one in the spec."""
PLACEHOLDERS = ("question", "options", "letters", "hint", "instruction")
ANSWER_FORMATS = ("free", "letter", "short", "json")
ANSWER_SCHEMA: Mapping[str, Any] = MappingProxyType(
    {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"], "additionalProperties": False}
)
"""Schema of `answer_format: json` without one in the spec."""
PLACEHOLDER = re.compile(r"\{([A-Za-z_]+)\}")

Turn = dict[str, object]


@dataclass(frozen=True)
class FewShotExample:
    """A question with its answer, shown before the question that is asked (few-shot)."""

    question: str
    answer: str
    choices: tuple[str, ...] = ()
    images: tuple[PIL.Image.Image, ...] = ()
    hint: str = ""


@dataclass(frozen=True)
class Prompt:
    """Prompt settings: template, system message, answer format, few-shot examples."""

    template: str = TEMPLATE
    system: str = ""
    answer_format: str = ""
    """One of ANSWER_FORMATS; by default `letter` for a question with options, `free` for an open one."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema of `answer_format: json`."""
    confidence_target: float | None = None
    """Confidence t in [0, 1) above which the model is told to answer, since a mistake costs t / (1 - t) points."""
    examples: tuple[FewShotExample, ...] = ()
    hint: str = ""
    """Hint of the question that is asked."""

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> Prompt:
        """Create the prompt settings from a stage's parameters, without few-shot examples."""
        return cls(**{key: value for key, value in params.items() if key != "examples"})

    @property
    def example_images(self) -> tuple[PIL.Image.Image, ...]:
        """Return the images of all examples, in order."""
        return tuple(image for example in self.examples for image in example.images)

    def text(self, question: str, choices: Sequence[str] = (), hint: str | None = None) -> str:
        """Return the text of the user's turn: the template with question, options and hint.

        A line of the template is left out if it has only placeholders that are empty, such as `{options}` of an open question.

        Raises:
            ValueError: more options than there are letters.
        """
        if len(choices) > len(LETTERS):
            raise ValueError(f"a question has {len(choices)} options, but only {len(LETTERS)} letters exist: {question!r}")
        values = {
            "question": question,
            "options": "\n".join(f"{letter}. {choice}" for letter, choice in zip(LETTERS, choices, strict=False)),
            "letters": ", ".join(LETTERS[: len(choices)]),
            "hint": self.hint if hint is None else hint,
            "instruction": self._instruction(bool(choices)),
        }
        lines = [line for line in self.template.split("\n") if not _is_empty(line, values)]
        return PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), "\n".join(lines))

    def _instruction(self, has_options: bool) -> str:
        parts = (render_target(self.confidence_target), self._format(has_options))
        return " ".join(part for part in parts if part)

    def _format(self, has_options: bool) -> str:
        if self.answer_format == "json":
            return JSON + json.dumps(dict(self.schema or ANSWER_SCHEMA), ensure_ascii=False)
        if self.answer_format == "short":
            return SHORT
        return INSTRUCTION if has_options and self.answer_format != "free" else ""

    def messages(self, question: str, choices: Sequence[str] = (), n_images: int = True) -> list[Turn]:
        """Return the conversation (system, examples, question) for a processor's chat template.

        Args:
            question: of several images with a mark for each where it stands, or none (`qualm.registry.formats.picture_lists`).
            choices: options of a multiple-choice question.
            n_images: number of images, those of the examples included; 0 shows none at all.
        """
        own = self.own_images(int(n_images))
        # The marks of images are looked for in the question alone: the template, options and hint may contain the same word.
        if not has_marks(question, own):
            return self._conversation([""] * own, self.text(question, choices), int(n_images))
        before, after = self.text(_BETWEEN, choices).split(_BETWEEN)
        *first, last = split_at_images(question, own)
        return self._conversation([before + first[0], *first[1:]], last + after, int(n_images))

    def ask_text(self, text: str, n_images: int = True) -> list[Turn]:
        """Return the conversation with `text` as last turn; images at its marks, else before it."""
        *before, last = split_at_images(text, self.own_images(int(n_images)))
        return self._conversation(before, last, int(n_images))

    def reply(self, answer: str, choices: Sequence[str] = ()) -> str:
        """Return a reference answer as a model should reply: option text, JSON text, or unchanged.

        Raises:
            ValueError: the JSON schema requires more than an answer.
        """
        if self.answer_format in ("free", "short"):
            answer = dict(zip(LETTERS, choices, strict=False)).get(answer, answer)
        if self.answer_format != "json":
            return answer
        if self.schema is not None and set(self.schema["required"]) != {"answer"}:
            raise ValueError("samples have an answer alone, and the JSON schema requires more")
        return json.dumps({"answer": answer}, ensure_ascii=False)

    def own_images(self, n_images: int) -> int:
        """Return how many of `n_images` images belong to the question, not to the examples."""
        return n_images - len(self.example_images) if n_images else 0

    def verification(self, question: str, answer: str, n_images: int = True) -> list[Turn]:
        """Return the conversation that asks the model whether its answer is right."""
        return self._after(question, answer, VERIFY, n_images)

    def verbalisation(self, question: str, answer: str, n_images: int = True) -> list[Turn]:
        """Return the conversation that asks the model for its confidence in an answer."""
        return self._after(question, answer, CONFIDENCE, n_images)

    def _after(self, question: str, answer: str, follow_up: str, n_images: int) -> list[Turn]:
        return [*self.messages(question, n_images=n_images), _reply(answer), _turn([], follow_up)]

    def _conversation(self, before: Sequence[str], text: str, n_images: int) -> list[Turn]:
        turns: list[Turn] = [{"role": "system", "content": [{"type": "text", "text": self.system}]}] if self.system else []
        for example in self.examples:
            shown = [""] * (len(example.images) if n_images else 0)
            turns += [_turn(shown, self.text(example.question, example.choices, example.hint)), _reply(example.answer)]
        return [*turns, _turn(before, text)]


_BETWEEN = "\0"


def _is_empty(line: str, values: Mapping[str, str]) -> bool:
    names = set(PLACEHOLDER.findall(line))
    return bool(names) and "question" not in names and not any(values.get(n, n) for n in names) and not PLACEHOLDER.sub("", line).strip()


def _reply(answer: str) -> Turn:
    return {"role": "assistant", "content": [{"type": "text", "text": answer}]}


def _turn(before: Sequence[str], text: str) -> Turn:
    """Return a user's turn: each text of `before` with an image after it, then `text`."""
    content: list[dict[str, object]] = []
    for part in before:
        if part:
            content.append({"type": "text", "text": part})
        content.append({"type": "image"})
    return {"role": "user", "content": [*content, {"type": "text", "text": text}]}


VERIFY = "Is that answer right? Answer yes or no."
"""Next turn about the model's answer; P(pred) is read from its yes and no."""


CONFIDENCE = "How sure are you of that answer, from 0 to 100 percent? Reply with the number alone."
"""Next turn that asks for a confidence, read from the number in the reply."""

CONFIDENCE_TOKENS = 8
"""Maximum tokens of a reply that is a number."""


DEFAULT = Prompt()


def render_target(target: float | None) -> str:
    """Return the sentence on a confidence target (0 to 1) and its points; "" without one.

    Kalai et al., 2025.

    >>> print(render_target(0.75))
    Answer only if you are > 75% confident, since mistakes are penalized 3 points, while correct answers receive 1 point, and an answer of \
"I don't know" receives 0 points.
    """
    if target is None:
        return ""
    penalty = f"{target / (1 - target):.4g}"
    unit = "point" if penalty == "1" else "points"
    return (
        f"Answer only if you are > {100 * target:.10g}% confident, since mistakes are penalized {penalty} {unit}, "
        'while correct answers receive 1 point, and an answer of "I don\'t know" receives 0 points.'
    )


def render_question(question: str, choices: Sequence[str] = ()) -> str:
    """Return the user's turn of the default prompt, without images.

    >>> print(render_question("What color is the cube?", ["red", "blue"]))
    What color is the cube?
    A. red
    B. blue
    Answer with the option's letter from the given choices directly.

    Raises:
        ValueError: more options than there are letters.
    """
    return DEFAULT.text(question, choices)


messages = DEFAULT.messages
verification = DEFAULT.verification
verbalisation = DEFAULT.verbalisation


def p_true_prompt(question: str, answer: str) -> str:
    """Return the text that asks if a possible answer is (A) True or (B) False.

    Kadavath et al., 2022.
    """
    return f"Question: {question}\n{_true_or_false(answer)}"


def p_true_sampling_prompt(question: str, answer: str, sampled_answers: Sequence[str]) -> str:
    """Return the P(True) prompt that first lists the sampled answers, one per line.

    Kadavath et al., 2022.

    >>> print(p_true_sampling_prompt("What color is it?", "red", ["red", "dark red", "blue"]))
    Question: What color is it?
    Here are some things that may be the answer:
    red
    dark red
    blue
    Possible answer: red
    Is the possible answer:
    (A) True
    (B) False
    The possible answer is:
    """
    lines = [" ".join(text.split()) for text in sampled_answers]
    return "\n".join([f"Question: {question}", "Here are some things that may be the answer:", *lines, _true_or_false(answer)])


def _true_or_false(answer: str) -> str:
    return f"Possible answer: {answer}\nIs the possible answer:\n(A) True\n(B) False\nThe possible answer is:"
