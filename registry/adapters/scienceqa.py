"""ScienceQA: multiple-choice questions of school science, with and without images. Lu et al., 2022 (NeurIPS)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_records, require_choice, require_record, require_text, select
from qualm.registry.sample import Image, Sample

FILE_NAME = "ScienceQA's problems (`qualm data show scienceqa`)"
META = ["subject", "topic", "skill", "task", "grade", "grades", "has_text", "has_image", "no_context", "hint"]
KEYS = (
    *("question", "choices", "answer", "hint", "image", "task", "grade", "subject", "topic", "category", "skill"),
    *("lecture", "solution", "split"),
)
SUBJECTS = ("natural science", "social science", "language science")
TASKS = ("closed choice", "yes or no", "true-or false")
SPLITS = ("train", "val", "test")
GRADES = tuple(map(str, range(1, 13)))
VAL_TEST = "val_test"
"""Both, validation first, as VLM-Uncertainty-Bench takes them."""


def scienceqa(
    context: AdapterContext,
    *,
    split: Literal["train", "val", "test", "minitrain", "minival", "minitest", "val_test"] = "test",
    pictures: Literal["all", "with", "without"] = "all",
    task: Literal["all", "closed choice", "yes or no", "true-or false"] = "all",
) -> Iterator[Image | Sample]:
    """Yield one ScienceQA split's multiple-choice questions, with or without images.

    `pid_splits.json` gives the order; `problems.json` is beside it; images are `images/SPLIT/ID/image.png`. The two files may also be in
    `data/scienceqa/`, as in the authors' repository. `sample_id` is the problem's id. A hint is a line above the question. The category
    is the subject (`natural-science`). `meta` has the fields of the official breakdown: `subject`, `has_text` (there is a hint),
    `has_image`, `no_context` (neither), `grades` ("1-6" or "7-12"), and `topic`, `skill`, `task`, `grade`.

    Args:
        split: As released; `val_test` is both, validation first.
        pictures: `with`: only questions on images; `without`: only those in text.
        task: Only questions of one kind.

    Raises:
        AdapterError: a file, key, value or image is not as in the release. Nothing is guessed.
    """
    source = context.need_source("scienceqa")
    splits = _place(source, "pid_splits.json")
    problems = {key: (where, record) for where, (key, record) in read_records(_place(source, "problems.json"), FILE_NAME, "*", context)}
    for number in _ids(splits, split):
        with context.record():
            if number not in problems:
                raise AdapterError(f"{splits}: {split}: problem {number} is not in problems.json")
            where, record = problems[number]
            sample = _sample(number, require_record(record, KEYS, where, others=()), where)
            if pictures in ("all", "without" if sample.image_id is None else "with") and task in ("all", sample.meta["task"]):
                yield from select(context, sample, (f"images/{record['split']}/{number}/{record['image']}",), where)


def _place(source: Path, name: str) -> Path:
    return next((p for p in (source / name, source / "data" / "scienceqa" / name) if p.is_file()), source / name)


def _ids(path: Path, split: str) -> list[str]:
    by_split = dict(pair for _, pair in read_records(path, "which problem is of which split", "*"))
    ids: list[str] = []
    for name in ("val", "test") if split == VAL_TEST else (split,):
        listed = require_record(by_split, (name,), str(path))[name]
        if not isinstance(listed, list) or not all(isinstance(i, str | int) for i in listed):
            raise AdapterError(f"{path}: {name}: expected a list of ids, got {listed!r:.60}")
        ids += map(str, listed)
    return ids


def _sample(number: str, record: dict[str, Any], where: str) -> Sample:
    for key, allowed in (("subject", SUBJECTS), ("task", TASKS), ("split", SPLITS)):
        require_choice(record, key, allowed, where)
    choices, right, hint = record["choices"], record["answer"], record["hint"]
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(c, str) for c in choices):
        raise AdapterError(f"{where}: choices: expected a list of at least two texts, got {choices!r:.120}")
    if type(right) is not int or not 0 <= right < len(choices):
        raise AdapterError(f"{where}: answer: expected 0 to {len(choices) - 1}, got {right!r:.60}")
    if not isinstance(hint, str) or not (record["image"] is None or isinstance(record["image"], str)):
        raise AdapterError(f"{where}: expected hint as text and image as a name or null, got {hint!r:.60} and {record['image']!r:.60}")
    question = require_text(record, "question", where)
    image_id = None if record["image"] is None else f"{record['split']}/{number}"
    return Sample(
        sample_id=number,
        question=f"{hint}\n{question}" if hint else question,
        image_id=image_id,
        choices=tuple(choices),
        answer_index=right,
        category=record["subject"].replace(" ", "-"),
        split=record["split"],
        source="scienceqa",
        meta={
            **{key: require_text(record, key, where) for key in ("subject", "topic", "skill", "task")},
            **_grade(record["grade"], where),
            "has_text": _yes(hint != ""),
            "has_image": _yes(image_id is not None),
            "no_context": _yes(hint == "" and image_id is None),
            **({"hint": hint} if hint else {}),
        },
    )


def _grade(value: Any, where: str) -> dict[str, str]:
    number = value.removeprefix("grade") if isinstance(value, str) else ""
    if number not in GRADES:
        raise AdapterError(f"{where}: grade: expected grade1 to grade12, got {value!r:.60}")
    return {"grade": number, "grades": "1-6" if int(number) <= 6 else "7-12"}


def _yes(value: bool) -> str:
    return "yes" if value else "no"
