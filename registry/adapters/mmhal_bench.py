"""MMHal-Bench: 96 questions in eight kinds of hallucination, rated by a judge. Sun, Shen, Cao et al., 2023 (LLaVA-RLHF)."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from qualm.registry import EVIDENCE
from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_list, require_record, require_text, select
from qualm.registry.sample import Image, Sample

META = ["evidence", "type", "topic"]
KEYS = ("image_content", "question", "gt_answer", "image_src")
OPTIONAL_KEYS = ("question_type", "question_topic", "image_id", "model_answer")
TYPES = ("attribute", "adversarial", "comparison", "counting", "relation", "environment", "holistic", "other")
"""Kinds of question by place modulo 8, which is how the official script tells them."""
RECORDS = 96
SUFFIXES = ("", ".jpg", ".png")


def mmhal_bench(context: AdapterContext) -> Iterator[Image | Sample]:
    """Yield MMHal-Bench's 96 open questions in file order, each after its image.

    The files are `response_template.json`; `images/`, by the file name in `image_src`. `sample_id` is `mmhal_00` to `mmhal_95`, by the
    record's position. The category is the kind of question by position modulo 8, as in the official script; if `meta.type` contradicts
    this, the order is not the official one and the run ends. The reference is the person's answer. `meta.evidence`, which the judge
    `mmhal` reads, lists what is in the image.

    Raises:
        AdapterError: a key, value, image or the order is not as in the release. Nothing is guessed.
    """
    source = context.need_source("mmhal_bench")
    path = source / "response_template.json"
    records = read_list(path, "MMHal-Bench's template")
    if len(records) != RECORDS:
        raise AdapterError(f"{path}: expected {RECORDS} records in the official order, got {len(records)}")
    named: dict[int, Any] = {}
    for place, record in enumerate(records):
        where = f"{path}: record {place}"
        with context.record():
            sample = _sample(require_record(record, KEYS, where, OPTIONAL_KEYS), place, named, where)
            names = [sample.image_id, *([record["image_id"]] if record.get("image_id") else [])]
            yield from select(context, sample, [f"images/{name}{suffix}" for name in names for suffix in SUFFIXES], where)


def _sample(record: dict[str, Any], place: int, named: dict[int, Any], where: str) -> Sample:
    contents = record["image_content"]
    if not isinstance(contents, list) or not all(isinstance(thing, str) for thing in contents):
        raise AdapterError(f"{where}: image_content: expected a list of words, got {contents!r:.60}")
    kind, at = record.get("question_type"), place % len(TYPES)
    if kind != named.setdefault(at, kind):
        expected = f"{named[at]!r:.40} as in record {at}"
        raise AdapterError(f"{where}: question_type: expected {expected}, got {kind!r:.40}: the records are not in the official order")
    image_id = PurePosixPath(require_text(record, "image_src", where)).name
    facts = {"type": kind, "topic": record.get("question_topic")}
    return Sample(
        sample_id=f"mmhal_{place:02d}",
        question=require_text(record, "question", where),
        image_id=image_id,
        references=(require_text(record, "gt_answer", where),),
        category=TYPES[at],
        source="mmhal_bench",
        group=image_id,
        meta={EVIDENCE: ", ".join(contents), **{key: str(value) for key, value in facts.items() if value}},
    )
