"""Examples that are shown before a question (few-shot): drawn by seed from a split of its dataset, or written.

Every question of a dataset gets the same examples. None is a sample that models answer, or shares its image or group.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from qualm.registry import LETTERS
from qualm.registry.formats import pictures
from qualm.registry.formats.picture_lists import MARK, picture_ids
from qualm.runners.prompts.question import FewShotExample, Prompt
from qualm.runners.prompts.templates import PromptError

COLUMNS = ["sample_id", "image_id", "question", "references", "choices", "answer_index", "answerable", "split", "group", "meta"]


class ExampleSource(Protocol):
    """Dataset from which few-shot examples are taken: its name, samples and image files."""

    name: str
    table: Any

    def files(self, row: int) -> tuple[bytes, ...]: ...


def choose_examples(
    settings: Mapping[str, Any], prompt: Prompt, dataset: ExampleSource, is_answered: Sequence[bool], seed: int
) -> tuple[FewShotExample, ...]:
    """Return a prompt's few-shot examples for one dataset, written or drawn by seed.

    Args:
        settings: `written` examples, or `split`, `shots` and perhaps `seed`.
        prompt: the prompt without examples, whose format their answers have.
        dataset: the whole dataset.
        is_answered: of each row, whether models answer it.
        seed: for a draw without one of its own.

    Raises:
        PromptError: an example is a sample that models answer, the split has too few, or one with over 26 options, or an image
            cannot be read.
    """
    rows = dataset.table.select(COLUMNS).to_pylist()
    if "written" in settings:
        return tuple(_written(example, dataset, rows, is_answered) for example in settings["written"])
    return _drawn(settings, prompt, dataset, rows, is_answered, seed)


def split_hint(question: str, clean: str, hint: str) -> tuple[str, str]:
    r"""Split a perturbed text into (hint, question); (`hint`, text) if `clean` lacks the hint.

    Args:
        question: perturbed text of hint and question.
        clean: the text before the perturbation.
        hint: unperturbed; it ends `clean`'s first lines if it is part of the text.

    >>> split_hint("Look letf.\nWhat is it?", "Look left.\nWhat is it?", "Look left.")
    ('Look letf.', 'What is it?')
    >>> split_hint("What is it?", "What is it?", "Look left.")
    ('Look left.', 'What is it?')
    """
    if not hint or not clean.startswith(f"{hint}\n"):
        return hint, question
    lines = question.split("\n")
    count = hint.count("\n") + 1
    return ("\n".join(lines[:count]), "\n".join(lines[count:])) if len(lines) > count else ("", question)


def user_turn(params: Mapping[str, Any], sample: Mapping[str, Any], question: str) -> str:
    """Return the text of a sample's user turn, with `question` (its text under a variant).

    Args:
        params: keys of the prompt, as a stage has them.
        sample: row of SAMPLES.
        question: its question under a variant.
    """
    prompt, hint = Prompt.read(params), ""
    if "{hint}" in prompt.template:
        hint, question = split_hint(question, sample["question"], dict(sample["meta"] or ()).get("hint") or "")
    return prompt.text(question, sample["choices"] or (), hint)


def _written(
    entry: Mapping[str, Any], folder: ExampleSource, rows: Sequence[Mapping[str, Any]], is_answered: Sequence[bool]
) -> FewShotExample:
    data = tuple(Path(image).read_bytes() for image in entry.get("images", ()))
    for number, (row, is_asked) in enumerate(zip(rows, is_answered, strict=True)):
        if is_asked and row["question"].strip() == entry["question"].strip() and folder.files(number) == data:
            raise PromptError(
                f"dataset {folder.name}: prompt: examples: {entry['question']!r} is sample '{row['sample_id']}', which models answer; "
                "examples are never taken from scored samples: write another one"
            )
    images = tuple(_decoded(file, f"prompt: examples: {entry['question']!r}") for file in data)
    return FewShotExample(entry["question"], entry["answer"], tuple(entry.get("options", ())), images, entry.get("hint", ""))


def _drawn(
    settings: Mapping[str, Any],
    prompt: Prompt,
    folder: ExampleSource,
    rows: Sequence[Mapping[str, Any]],
    is_answered: Sequence[bool],
    seed: int,
) -> tuple[FewShotExample, ...]:
    where, split = f"dataset {folder.name}: prompt: examples", settings["split"]
    free = sorted(
        {row["split"] or "" for row in rows} - {row["split"] or "" for row, is_asked in zip(rows, is_answered, strict=True) if is_asked}
    )
    if split not in free:
        there = ", ".join(map(repr, free)) or "none"
        is_known = any(row["split"] == split for row in rows)
        why = "is answered, and examples are never taken from scored samples" if is_known else "is no split of it"
        raise PromptError(f"{where}: split: '{split}' {why}; splits that are not answered: {there}")
    taken = {key for row, is_asked in zip(rows, is_answered, strict=True) if is_asked for key in _keys(row)}
    usable = [
        (number, answer)
        for number, row in enumerate(rows)
        if row["split"] == split and taken.isdisjoint(_keys(row)) and (answer := _answer(row, prompt, where)) is not None
    ]
    shots = settings["shots"]
    if shots > len(usable):
        raise PromptError(
            f"{where}: shots: expected at most {len(usable)}, the samples of split '{split}' with a reference answer and without the group "
            f"or image of an answered sample, got {shots}"
        )
    start = settings.get("seed", seed)
    order = sorted(usable, key=lambda one: hashlib.sha256(f"{start}\n{rows[one[0]]['sample_id']}".encode()).digest())
    return tuple(_example(folder, rows[number], number, answer, "{hint}" in prompt.template) for number, answer in order[:shots])


def _keys(row: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {("image", name) for name in picture_ids(row["image_id"])} | ({("group", row["group"])} if row["group"] else set())


def _answer(row: Mapping[str, Any], prompt: Prompt, where: str) -> str | None:
    """Return a sample's reference answer in the prompt's format; None if it has no usable one."""
    if not row["answerable"]:
        return None
    if row["choices"]:
        right = row["answer_index"]
        if right is None or right < 0:
            return None
        if (n := len(row["choices"])) > len(LETTERS):
            raise PromptError(
                f"{where}: sample '{row['sample_id']}' has {n} options, but only {len(LETTERS)} letters exist; leave the sample out by "
                "`where:`, or write the examples"
            )
        text = LETTERS[right]
    elif row["references"] and prompt.answer_format != "letter":
        text = row["references"][0]
    else:
        return None
    try:
        return prompt.reply(str(text), row["choices"] or ())
    except ValueError as error:
        raise PromptError(f"{where}: {error}; write the examples, or put them in a file") from error


def _example(folder: ExampleSource, row: Mapping[str, Any], number: int, answer: str, has_hint: bool) -> FewShotExample:
    question, hint = row["question"], ""
    if has_hint:
        hint, question = split_hint(question, question, dict(row["meta"] or ()).get("hint") or "")
    images = tuple(_decoded(file, f"dataset {folder.name}: sample '{row['sample_id']}'") for file in folder.files(number))
    return FewShotExample(
        question.replace(MARK, "").strip() if len(images) > 1 else question, answer, tuple(row["choices"] or ()), images, hint
    )


def _decoded(data: bytes, where: str) -> Any:
    try:
        return pictures.decoded(data)
    except pictures.PictureError as error:
        raise PromptError(f"{where}: its image cannot be decoded: {error}") from error
