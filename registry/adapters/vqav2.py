"""VQA v2: open questions about COCO photographs with ten people's answers. Goyal et al., 2017 (CVPR)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_records, select
from qualm.registry.adapters._vqa import CATEGORIES, QuestionRow, read_questions
from qualm.registry.adapters.llava_instruct import coco_questions
from qualm.registry.sample import Image, Sample

if TYPE_CHECKING:
    from qualm.registry.plugins.registry import Artifact

META = ["answer_type", "question_type", "complement"]
PEOPLE = 10
IMAGES = {"train": "train2014", "val": "val2014", "test-dev": "test2015", "test": "test2015"}
QUESTIONS = {"train": "mscoco_train2014", "val": "mscoco_val2014", "test-dev": "mscoco_test-dev2015", "test": "mscoco_test2015"}


def vqav2(
    context: AdapterContext,
    *,
    parts: list[Literal["train", "val", "test-dev", "test"]] | None = None,
    val_is: Literal["val", "test"] = "val",
    complementary: bool = False,
    without_llava: Artifact | None = None,
) -> Iterator[Image | Sample]:
    """Yield VQA v2's questions in file order, with ten references each except in test parts.

    The files are `v2_OpenEnded_mscoco_train2014_questions.json`, `v2_mscoco_train2014_annotations.json`,
    `train2014/COCO_train2014_%012d.jpg`, and likewise. `sample_id` is the question's id. Questions on one image are a group. References
    are the ten answers as given. The category is the type of answer (`yes-no` for yes/no); meta has the original types of answer and
    question (`what color`). The test parts have no references and no categories. Memory does not grow with the files.

    Args:
        parts: `val` unless given.
        val_is: the split that samples of val2014 are given: `test` where they stand for it, as in CertainlyUncertain's pairs, since
            the true test part has no public answers.
        complementary: read `v2_mscoco_*_complementary_pairs.json` too: `meta.complement` is then the id of the question with the
            same words about another image, which is answered differently there.
        without_llava: an entry of registry/data/ with LLaVA's conversations: questions that stand in it, about the same COCO image
            and in the same words, case aside, are left out, as CertainlyUncertain does for its evaluation.

    Raises:
        AdapterError: a file, key or value is not as in the release. Nothing is guessed.
    """
    source = context.need_source("vqav2")
    in_llava = coco_questions(Path(without_llava)) if without_llava is not None else frozenset()
    for split in parts or ["val"]:
        labelled = split in ("train", "val")
        questions = source / f"v2_OpenEnded_{QUESTIONS[split]}_questions.json"
        annotations = source / f"v2_{QUESTIONS[split]}_annotations.json" if labelled else None
        others = _complements(source / f"v2_{QUESTIONS[split]}_complementary_pairs.json") if complementary and labelled else {}
        folder, called = IMAGES[split], val_is if split == "val" else split
        for row in read_questions(context, questions, annotations, "VQA v2", PEOPLE):
            with context.record():
                image_id = f"COCO_{folder}_{row.image_id:012d}"
                sample = _sample(row, image_id, called, others)
                if (row.image_id, sample.question.strip().casefold()) in in_llava:
                    continue
                yield from select(context, sample, (f"{folder}/{image_id}.jpg",), row.where)


def _sample(row: QuestionRow, image_id: str, split: str, complements: Mapping[int, int]) -> Sample:
    annotation, meta, category = row.annotation, {}, ""
    if annotation is not None:
        kind = annotation.answer_type
        if kind not in CATEGORIES:
            raise AdapterError(f"{row.where}: answer_type of its annotation: expected one of {', '.join(CATEGORIES)}, got {kind!r:.60}")
        category = CATEGORIES[kind]
        meta = {"answer_type": kind, "question_type": annotation.question_type}
    if row.question_id in complements:
        meta["complement"] = str(complements[row.question_id])
    return Sample(
        sample_id=str(row.question_id),
        question=row.question,
        image_id=image_id,
        references=annotation.answers if annotation is not None else (),
        category=category,
        split=split,
        source="vqav2",
        group=image_id,
        meta=meta,
    )


def _complements(path: Path) -> dict[int, int]:
    """Return {question id: id of its complement}, both ways; of several pairs the first."""
    complement_of: dict[int, int] = {}
    for where, pair in read_records(path, "VQA v2's complementary pairs (or say `complementary: false`)"):
        if not isinstance(pair, list) or len(pair) != 2 or not all(type(one) is int for one in pair):
            raise AdapterError(f"{where}: expected a pair of question ids, got {pair!r:.60}")
        for one, other in (pair, pair[::-1]):
            complement_of.setdefault(one, other)
    return complement_of
