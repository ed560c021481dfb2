"""POPE: is an object in the image? Li, Du, Zhou, Wang, Zhao, Wen, 2023 (EMNLP)."""

from collections.abc import Iterator
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters._official import (
    add_instruction,
    read_records,
    require_integer,
    require_record,
    require_text,
    select,
    yes_or_no,
)
from qualm.registry.sample import Image, Sample

META = ["pictures"]
KEYS = ("question_id", "image", "text", "label")
FILES = {
    "coco": "output/coco/coco_pope_{}.json",
    "gqa": "output/seem/gqa/gqa_pope_seem_{}.json",
    "aokvqa": "output/seem/aokvqa/aokvqa_pope_seem_{}.json",
}
PLACES = {"coco": ("val2014", "images"), "gqa": ("gqa/images", "images"), "aokvqa": ("val2014", "images")}
"""Folders in which the images of each file may lie."""


def pope(
    context: AdapterContext,
    *,
    pictures: Literal["coco", "gqa", "aokvqa"] = "coco",
    split: Literal["random", "popular", "adversarial"] = "random",
    instruction: str = "",
) -> Iterator[Image | Sample]:
    """Yield the yes-or-no questions of one POPE file: six on each of 500 images.

    Half of the right answers are "yes". Files on COCO are JSON Lines, the others JSON lists, all called `.json`. `sample_id` is
    `PICTURES-SPLIT-question_id`. Questions on one image are a group. The category is the split. The one reference is the label. Images
    are in `val2014/` (COCO, A-OKVQA), `gqa/images/` (GQA), or `images/`.

    Args:
        pictures: Which images are asked about.
        split: How the objects that are not there were chosen: at random, by how frequent they are, or by what they often stand beside.
        instruction: Put behind every question. The release says nothing; "Answer the question using a single word or phrase." is usual.

    Raises:
        AdapterError: a file, key, label or image is not as in the release. Nothing is guessed.
    """
    source = context.need_source("pope")
    path = source / FILES[pictures].format(split)
    for where, record in read_records(path, f"POPE's {split} questions on {pictures}", context=context):
        with context.record():
            sample = _sample(require_record(record, KEYS, where, others=()), pictures, split, instruction, where)
            yield from select(context, sample, [f"{folder}/{sample.image_id}" for folder in PLACES[pictures]], where)


def _sample(record: dict[str, Any], pictures: str, split: str, instruction: str, where: str) -> Sample:
    number, image_id = require_integer(record, "question_id", where), require_text(record, "image", where)
    return Sample(
        sample_id=f"{pictures}-{split}-{number}",
        question=add_instruction(require_text(record, "text", where), instruction),
        image_id=image_id,
        references=(yes_or_no(record, "label", where),),
        category=split,
        source="pope",
        group=image_id,
        meta={"pictures": pictures},
    )
