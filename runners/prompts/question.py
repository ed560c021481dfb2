"""The one place where a sample's question becomes the text a model is asked.

Training, inference and the digest of what a model saw all call `render_question`; were there two of these, a model
would be trained on one prompt and measured on another.
"""

from collections.abc import Sequence

from qualm.registry.formats.picture_lists import segments

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


VERIFY = "Is that answer right? Answer yes or no."
"""What a model is asked about its own answer, as the next turn of the conversation; P(pred) is read from its yes and no."""


CONFIDENCE = "How sure are you of that answer, from 0 to 100 percent? Reply with the number alone."
"""What a model is asked so that it puts its confidence in words; its number is read from the reply."""

CONFIDENCE_TOKENS = 8
"""Of a reply that is to be a number."""


def messages(question: str, choices: Sequence[str] = (), image: int = True) -> list[dict[str, object]]:
    """The conversation a processor's chat template is applied to, with `add_generation_prompt=True`.

    Args:
        question: of several pictures with a mark for each where it stands, or none (`qualm.registry.formats.picture_lists`).
    """
    *before, text = segments(question, int(image))
    return _turn(before, render_question(text, choices))


def verification(question: str, answer: str, image: int = True) -> list[dict[str, object]]:
    """The conversation that goes on after an answer: is it right?"""
    return _after(question, answer, VERIFY, image)


def verbalisation(question: str, answer: str, image: int = True) -> list[dict[str, object]]:
    """The conversation that goes on after an answer: how sure?"""
    return _after(question, answer, CONFIDENCE, image)


def p_true(question: str, answer: str) -> str:
    """Return the P(True) prompt: is the possible answer (A) True or (B) False? (Kadavath et al., 2022)"""
    return f"Question: {question}\n{_true_or_false(answer)}"


def p_true_sampling(question: str, answer: str, drawn: Sequence[str]) -> str:
    """Return the P(True) prompt that lists the sampled answers first, one per line (Kadavath et al., 2022).

    >>> print(p_true_sampling("What color is it?", "red", ["red", "dark red", "blue"]))
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
    lines = [" ".join(text.split()) for text in drawn]
    return "\n".join([f"Question: {question}", "Here are some things that may be the answer:", *lines, _true_or_false(answer)])


def _true_or_false(answer: str) -> str:
    return f"Possible answer: {answer}\nIs the possible answer:\n(A) True\n(B) False\nThe possible answer is:"


def _after(question: str, answer: str, follow_up: str, image: int) -> list[dict[str, object]]:
    reply: dict[str, object] = {"role": "assistant", "content": [{"type": "text", "text": answer}]}
    return [*messages(question, image=image), reply, *messages(follow_up, image=0)]


def _turn(before: Sequence[str], text: str) -> list[dict[str, object]]:
    """The user's turn: texts with a picture after each, and the last text."""
    content: list[dict[str, object]] = []
    for part in before:
        if part:
            content.append({"type": "text", "text": part})
        content.append({"type": "image"})
    return [{"role": "user", "content": [*content, {"type": "text", "text": text}]}]
