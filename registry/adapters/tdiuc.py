"""TDIUC: questions of twelve kinds, absurd ones among them. Kafle, Kanan, 2017 (ICCV).

No released file was seen by us: it is known to be laid out as VQA v1, and every record is held to that.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_image
from qualm.registry.adapters._vqa import Annotation, QuestionRow, read_questions
from qualm.registry.sample import Image, Sample

META = ["question_type"]
ABSURD = "absurd"
DOES_NOT_APPLY = "doesnotapply"
TYPES = (
    "absurd", "activity_recognition", "attribute", "color", "counting", "object_presence", "object_recognition", "positional_reasoning",
    "scene_recognition", "sentiment_understanding", "sport_recognition", "utility_affordance",
)  # fmt: skip


def tdiuc(
    context: AdapterContext,
    *,
    split: Literal["train", "val"] = "val",
    types: list[Literal[
        "absurd", "activity_recognition", "attribute", "color", "counting", "object_presence", "object_recognition", "positional_reasoning",
        "scene_recognition", "sentiment_understanding", "sport_recognition", "utility_affordance",
    ]] | None = None,
    pictures: list[str] | None = None,
) -> Iterator[Image | Sample]:  # fmt: skip
    """Yield one TDIUC split's questions in file order; `pictures`: path patterns of images.

    The files are `Questions/OpenEnded_mscoco_val2014_questions.json`, `Annotations/`, `Images/`. `sample_id` is the question's id, the
    category its type, the reference its one answer. Questions on one image are a group. An absurd question is `answerable: false` (the
    release's answer is `doesnotapply`). Images are `Images/val2014/COCO_val2014_%012d.jpg`, or `Images/VG/%d.jpg` of Visual Genome; if
    both exist and differ, the run ends.

    Args:
        split: as released.
        types: of questions; all twelve unless given.
        pictures: where an image may lie, from the entry's top, instead of these two places: `{split}` and `{id}` stand for what they
            say, `{id:012}` for an id of twelve digits.

    Raises:
        AdapterError: a file, key or value is not as in the release, or an absurd question is answered. Nothing is guessed.
    """
    source = context.need_source("tdiuc")
    part = f"mscoco_{split}2014"
    questions = source / "Questions" / f"OpenEnded_{part}_questions.json"
    patterns = pictures or ["Images/{split}2014/COCO_{split}2014_{id:012}.jpg", "Images/VG/{id}.jpg"]
    for row in read_questions(context, questions, source / "Annotations" / f"{part}_annotations.json", "TDIUC"):
        with context.record():
            assert row.annotation is not None
            sample = _sample(row, row.annotation, split)
            if types is not None and sample.category not in types:
                continue
            yield from context.selected(sample, _image, source, [_place(pattern, split, row.image_id) for pattern in patterns], row)


def _image(source: Path, places: list[str], row: QuestionRow) -> Image:
    """Read a question's image from `places`; AdapterError if two hold different images."""
    image = read_image(source, places, str(row.image_id), row.where)
    for place in places[places.index(image.path) + 1 :]:
        if (source / place).is_file() and read_image(source, (place,), image.image_id, row.where).data != image.data:
            raise AdapterError(
                f"{row.where}: image {row.image_id} may be {image.path} or {place}, which differ; name the right place by `pictures`"
            )
    return image


def _place(pattern: str, split: str, image_id: int) -> str:
    try:
        return pattern.format(split=split, id=image_id)
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        raise AdapterError(f"pictures: expected a path without placeholders but {{split}} and {{id}}, got '{pattern}': {error}") from error


def _sample(row: QuestionRow, annotation: Annotation, split: str) -> Sample:
    kind, answers = annotation.question_type, tuple(dict.fromkeys(annotation.answers))
    if kind not in TYPES:
        raise AdapterError(f"{row.where}: question_type of its annotation: expected one of {', '.join(TYPES)}, got {kind!r:.60}")
    absurd = answers == (DOES_NOT_APPLY,)
    if absurd != (kind == ABSURD):
        raise AdapterError(
            f"{row.where}: expected '{DOES_NOT_APPLY}' as answer to questions of type '{ABSURD}' and no others, got {answers}, {kind!r}"
        )
    return Sample(
        sample_id=str(row.question_id),
        question=row.question,
        image_id=str(row.image_id),
        references=answers,
        category=kind,
        answerable=not absurd,
        split=split,
        source="tdiuc",
        group=str(row.image_id),
        meta={"question_type": kind},
    )
