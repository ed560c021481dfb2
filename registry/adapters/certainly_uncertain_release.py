"""CertainlyUncertain_v0.1 as its authors released it on the Hugging Face hub: Chandu et al., 2025 (ICLR).

The files are known by their names and sizes and by the release's README ("the training data (questions + answers) and testing
questions"), and their fields only by third parties' readers; no file was seen by us. The images are not in the release: its own
download.py fetches them.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_records
from qualm.registry.adapters._unseen import CATEGORIES, IDS, IMAGES, PAIRS, Unseen, find_image, wrap_record
from qualm.registry.sample import Image, Sample

META = ["category", {"of": "meta"}]
FILES = {"train": "certainlyuncertain_v0.1_train.json", "test": "certainlyuncertain_v0.1_test.jsonl"}
EXTRANEOUS = "epistemic/extraneous"
PATHS = {
    "knowledge": "epistemic/knowledge",
    "complex": "epistemic/complexity",
    "extraneous": EXTRANEOUS,
    "temporal": "aleatoric/temporal",
    "ambigu": "aleatoric/ambiguity",
}
"""Beginning of the paper's word for a category ("Complex", "Ambiguous", "Complexity awareness") -> its path in the taxonomy."""
_DIGITS = re.compile(r"\d{3,}")


def certainly_uncertain_release(
    context: AdapterContext,
    *,
    parts: list[str] | None = None,
    unlabelled: bool = False,
    meta: list[str] = [],  # noqa: B006 - a literal, never changed
) -> Iterator[Image | Sample]:
    """Yield the questions of CertainlyUncertain's released files; parts are splits.

    The spec's `answerable_by: {lave: {by: ...}}` or `answerable_by: rules` decides from the answers which questions are answerable, as
    the paper does. A category becomes its path in the taxonomy; `meta.category` is the release's word.

    Pairs are given by `pair_id` if the release has it. Otherwise two questions of one category are a pair if they are about one image,
    or, for extraneous, if they are one question about two images whose names share their longest number (a photograph and its inpainted
    copy). Questions with several candidates, or of two answerable members, are in no pair.

    Args:
        parts: `train`, `test`; both unless given.
        unlabelled: take questions without an answer, such as the release's test questions, of which no field says whether they are
            answerable, as if they were: for asking, not for scores. Otherwise they end the run.
        meta: fields to keep as text.

    Raises:
        AdapterError: a file is missing, or has other fields than the names that are known; the message says which it has.
    """
    source = context.need_source("certainly_uncertain_release")
    for part in parts or list(FILES):
        if part not in FILES:
            raise AdapterError(f"{source}: expected parts among {', '.join(FILES)}, got '{part}'")
        pairs = _pairs(source, part, context.judged)
        for number, (where, record) in enumerate(_records(source, part, context)):
            with context.record():
                one = wrap_record(record, where)
                sample = replace(_sample(one, part, number, meta), pair_id=pairs.get(number))
                _check_label(one, context.judged, unlabelled)
                yield from context.selected(sample, find_image, source, sample.image_id, sample.image_id, where)
        if lone := number + 1 - len(pairs):
            context.note(f"{lone:,} of {number + 1:,} questions of split {part} are of no contrastive pair")


def _records(source: Path, part: str, context: AdapterContext) -> Iterator[tuple[str, Any]]:
    return read_records(source / FILES[part], f"questions of CertainlyUncertain_v0.1, split {part}", context=context)


@dataclass(frozen=True)
class _Member:
    """A question of the release as candidate for a pair of answerable and unanswerable ones."""

    number: int
    question: str
    image: str
    answerable: bool | None
    """None if a judge decides it."""


def _pairs(source: Path, part: str, judged: bool) -> dict[int, str]:
    """Return {record number: pair id} of the records that form pairs; skip invalid records."""
    groups: dict[tuple[str, ...], list[_Member]] = defaultdict(list)
    quiet = AdapterContext(source, source=source, bad=lambda error: None)
    for number, (where, record) in enumerate(_records(source, part, quiet)):
        with quiet.record():
            one = wrap_record(record, where)
            sample = _sample(one, part, number, [])
            image = sample.image_id or ""
            member = _Member(number, sample.question, image, None if judged else sample.answerable)
            if given := one.text(PAIRS):
                groups["given", given].append(member)
            elif sample.category == EXTRANEOUS:
                groups[sample.category, _photograph_key(image), " ".join(sample.question.casefold().split())].append(member)
            elif sample.category:
                groups[sample.category, image].append(member)
    ids: dict[int, str] = {}
    for key, members in groups.items():
        if len(members) == 2 and _contrast(key, *members):
            ids |= {member.number: f"{part}-{key[1] if key[0] == 'given' else members[0].number}" for member in members}
    return ids


def _contrast(key: tuple[str, ...], first: _Member, second: _Member) -> bool:
    labels = [first.answerable, second.answerable]
    apart = key[0] == "given" or (first.image != second.image if key[0] == EXTRANEOUS else first.question != second.question)
    return apart and (None in labels or labels[0] != labels[1])


def _photograph_key(image: str) -> str:
    """Return the key that names a photograph: the longest number in its file name, else the stem.

    >>> _photograph_key("train/COCO_train2014_000000000123.jpg"), _photograph_key("inpainted/000000000123_mask1.png")
    ('000000000123', '000000000123')
    """
    stem = PurePosixPath(image).stem
    return max(_DIGITS.findall(stem), key=len, default=stem)


def _check_label(record: Unseen, judged: bool, unlabelled: bool) -> None:
    """Raise AdapterError unless a record is labelled or `judged` or `unlabelled` fits it."""
    _, answers = record.talk()
    if record.answerable() is not None:
        return
    if answers and not judged:
        raise record.unlike(
            "a field `answerable`; without it, say who decides from the answers which questions are answerable: "
            "`answerable_by: {lave: {by: ...}}`, or `answerable_by: rules`"
        )
    if not answers and not unlabelled:
        raise record.unlike("an answer, or a field `answerable` (or `unlabelled: true`, which asks such questions and does not score them)")


def _sample(one: Unseen, part: str, number: int, meta: list[str]) -> Sample:
    question, answers = one.talk()
    image = one.text(IMAGES)
    if question is None or image is None:
        raise one.unlike("a question (`question` or `conversations`) and an image (`image`...)")
    category = one.text(CATEGORIES) or ""
    return Sample(
        sample_id=f"{part}-{one.text(IDS) or number}",
        question=question,
        image_id=image,
        references=answers,
        category=next((path for word, path in PATHS.items() if word in category.lower()), ""),
        answerable=one.answerable() is not False,
        split=part,
        source="certainly_uncertain_v0.1",
        group=_photograph_key(image),
        meta=one.extras(meta) | ({"category": category} if category else {}),
    )
