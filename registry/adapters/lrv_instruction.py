"""LRV-Instruction: instructions about what an image shows and about what it does not. Liu, Lin, Li, Wang, Yacoob, Wang, 2023.

No released file was seen by us; names and keys are those that a third party's reader has.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters._official import number_repeats, read_records, require_record, require_text, select
from qualm.registry.sample import Image, Sample

META = ["part", "task"]
FILES = {
    "first": ("filter_cap1.json", "filter_cap.json"),
    "more": ("filter_cap_more1.json", "filter_cap_more.json"),
    "charts": ("chart_release_update.json", "chart_release_update.json"),
}
"""Part -> its file, and its file with coordinates of objects in the answers."""


def lrv_instruction(
    context: AdapterContext, *, parts: list[Literal["first", "more", "charts"]] | None = None, coordinates: bool = False
) -> Iterator[Image | Sample]:
    """Yield a sample per instruction of LRV-Instruction, all `train`; charts only on request.

    The files are lists of `{image_id, question, answer}`, with or without `task`: `filter_cap1.json`, `filter_cap_more1.json`,
    `chart_release_update.json`; images are `image/ID.jpg`, or `chart_image/ID` for charts. The release has no ids: `sample_id` is made of
    the image's id and a digest of the text, with a number if it repeats. No field says which instructions are about absent things, so
    `answerable` is true for all.

    Args:
        parts: `first` and `more` unless given.
        coordinates: the files whose answers name places of objects; the authors say that these are inexact.

    Raises:
        AdapterError: a file, key or value is not as described. Nothing is guessed.
    """
    source = context.need_source("lrv_instruction")
    repeated: Counter[str] = Counter()
    for part in parts or ["first", "more"]:
        for where, record in read_records(source / FILES[part][coordinates], "LRV's instructions", context=context):
            with context.record():
                sample = _sample(require_record(record, ("image_id", "question", "answer"), where, others=("task",)), part, repeated, where)
                place = f"chart_image/{sample.image_id}" if part == "charts" else f"image/{sample.image_id}.jpg"
                yield from select(context, sample, (place,), where)


def _sample(record: dict[str, Any], part: str, repeated: Counter[str], where: str) -> Sample:
    image_id = str(record["image_id"]) if type(record["image_id"]) is int else require_text(record, "image_id", where)
    question, answer = require_text(record, "question", where).strip(), require_text(record, "answer", where).strip()
    digest = hashlib.sha256(f"{question}\0{answer}".encode()).hexdigest()[:10]
    return Sample(
        sample_id=number_repeats(f"{part}/{image_id}-{digest}", repeated),
        question=question,
        image_id=image_id,
        references=(answer,),
        split="train",
        source="lrv_instruction",
        group=image_id,
        meta={"part": part, **({"task": str(record["task"])} if "task" in record else {})},
    )
