"""VizWiz-VQA: photographs and questions of blind people, ten answers each. Gurari et al., 2018 (CVPR)."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_records, require_choice, require_record, require_text, select
from qualm.registry.sample import Image, Sample

META = ["answer_type", "said_unanswerable"]
ANSWERS = 10
TYPES = {"yes/no": "yes-no", "number": "number", "other": "other", "unanswerable": "unanswerable"}
"""Types of answers -> categories, where `/` would begin a part of a path."""
UNANSWERABLE = ("unanswerable", "unsuitable", "unsuitable image")
"""Annotators' answers to unanswerable questions; the latter two in the first release only."""


def vizwiz(context: AdapterContext, *, split: Literal["train", "val", "test"] = "val") -> Iterator[Image | Sample]:
    """Yield a VizWiz-VQA split's questions in file order, ten references each except in test.

    The files are `Annotations/SPLIT.json`, `SPLIT/VizWiz_SPLIT_%08d.jpg`. `sample_id` is the image's name without its suffix. References
    are the ten answers as given, "unanswerable" among them: the judge `vqa` scores a prediction of "unanswerable" like any other text.
    `answerable` is the release's label; `category` is the type of the answers (`yes-no` for yes/no); `meta` has the original type and how
    many of the ten said that the question is unanswerable. The test split has no references, no categories and no labels.

    Raises:
        AdapterError: a file is missing, or a record has other keys or values than in the release. Nothing is guessed.
    """
    source = context.need_source("vizwiz")
    path = source / "Annotations" / f"{split}.json"
    labelled = ("answers", "answer_type", "answerable") if split != "test" else ()
    for where, record in read_records(path, f"VizWiz-VQA's annotations of {split}", context=context):
        with context.record():
            sample = _sample(require_record(record, ("image", "question", *labelled), where, others=()), split, where)
            yield from select(context, sample, (f"{split}/{record['image']}",), where, of=record["image"])


def _sample(record: dict[str, Any], split: str, where: str) -> Sample:
    image_id = Path(require_text(record, "image", where)).stem
    question = require_text(record, "question", where)
    sample = Sample(image_id, question, image_id, split=split, source="vizwiz", group=image_id)
    if split == "test":
        return sample
    kind = require_choice(record, "answer_type", TYPES, where)
    if record["answerable"] not in (0, 1):
        raise AdapterError(f"{where}: answerable: expected 0 or 1, got {record['answerable']!r:.60}")
    answers = _answers(record["answers"], where)
    return replace(
        sample,
        references=answers,
        category=TYPES[kind],
        answerable=record["answerable"] == 1,
        meta={"answer_type": kind, "said_unanswerable": str(count_unanswerable(answers))},
    )


def count_unanswerable(answers: tuple[str, ...]) -> int:
    """Return how many of the people's answers call the question unanswerable."""
    return sum(answer.strip().lower() in UNANSWERABLE for answer in answers)


def _answers(answers: Any, where: str) -> tuple[str, ...]:
    if not isinstance(answers, list) or len(answers) != ANSWERS:
        got = f"{len(answers)} of them" if isinstance(answers, list) else repr(answers)[:60]
        raise AdapterError(f"{where}: answers: expected a list of {ANSWERS}, got {got}")
    texts = []
    for i, answer in enumerate(answers):
        require_record(answer, ("answer", "answer_confidence"), f"{where}: answers[{i}]", others=())
        if not isinstance(answer["answer"], str) or answer["answer_confidence"] not in ("yes", "maybe", "no"):
            raise AdapterError(f"{where}: answers[{i}]: expected a text and a confidence of yes, maybe or no, got {answer!r:.100}")
        texts.append(answer["answer"])
    return tuple(texts)
