"""DOCCI: photographs with long descriptions written by people. Onoe et al., 2024 (ECCV)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_records, require_choice, require_record, require_text, select
from qualm.registry.sample import Image, Sample

META = ["caption"]
SPLITS = ("train", "test", "qual_dev", "qual_test")


def docci(
    context: AdapterContext,
    *,
    parts: list[Literal["train", "test", "qual_dev", "qual_test"]] | None = None,
    question: str = "Describe this image in detail.",
) -> Iterator[Image | Sample]:
    """Yield one sample per DOCCI image of `parts`; its description is the reference answer.

    The files are `docci_descriptions.jsonlines`, `images/NAME`. The description is also `meta.caption`, which the recipe `from_caption`
    reads. `sample_id` and `image_id` are `example_id`. Splits are DOCCI's own.

    Args:
        parts: `train` and `test` unless given.
        question: the question about each image, since DOCCI has none.

    Raises:
        AdapterError: a file, key or value is not as in the release. Nothing is guessed.
    """
    source = context.need_source("docci")
    splits = parts or ["train", "test"]
    for where, record in read_records(source / "docci_descriptions.jsonlines", "DOCCI's descriptions", context=context):
        with context.record():
            require_record(record, ("example_id", "split", "image_file", "description"), where, others=())
            if require_choice(record, "split", SPLITS, where) not in splits:
                continue
            sample = _sample(record, question, where)
            yield from select(context, sample, (f"images/{record['image_file']}",), where)


def _sample(record: dict[str, Any], question: str, where: str) -> Sample:
    example, caption = require_text(record, "example_id", where), require_text(record, "description", where)
    if example != Path(require_text(record, "image_file", where)).stem:
        raise AdapterError(f"{where}: expected example_id and image_file to be of one name, got '{example}' and '{record['image_file']}'")
    return Sample(
        sample_id=example,
        question=question,
        image_id=example,
        references=(caption,),
        split=record["split"],
        source="docci",
        group=example,
        meta={"caption": caption},
    )
