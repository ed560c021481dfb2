"""AMBER: yes-or-no questions on existence, attributes and relations, and descriptions to check. Wang, Wang, Xu et al., 2023."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import (
    add_instruction,
    read_records,
    require_choice,
    require_integer,
    require_record,
    require_text,
    select,
    yes_or_no,
)
from qualm.registry.sample import Image, Sample

META = ["type", "truth", "hallu"]
GENERATIVE = "generative"
TYPES = {
    GENERATIVE: GENERATIVE,
    "discriminative-hallucination": "existence",
    "discriminative-attribute-state": "attribute/state",
    "discriminative-attribute-number": "attribute/number",
    "discriminative-attribute-action": "attribute/action",
    "discriminative-relation": "relation",
    "relation": "relation",
}
"""Types of the annotations -> categories. 689 of the relation questions are of the type `relation`, all with the answer "no"."""


def amber(
    context: AdapterContext, *, task: Literal["discriminative", "generative", "all"] = "discriminative", instruction: str = ""
) -> Iterator[Image | Sample]:
    """Yield AMBER's questions (yes-or-no, or descriptions) in file order, after their images.

    The files are `data/query/query_all.json`; `data/annotations.json` gives kinds by id. `sample_id` is the query's id. Questions on one
    image are a group. Categories are `existence`, `attribute/state`, `attribute/number`, `attribute/action`, `relation` and `generative`;
    `meta.type` is the official type. A generative query has no reference and stays unscored: `meta.truth` lists what is in its image,
    `meta.hallu` likely hallucinations, for the official script.

    Args:
        task: Yes-or-no questions, descriptions, or both.
        instruction: Put behind every yes-or-no question, such as "Please answer with Yes or No.", since the official rule takes nothing but
            a bare `Yes` or `No`.

    Raises:
        AdapterError: a file, key, type, answer or image is not as in the release. Nothing is guessed.
    """
    source = context.need_source("amber")
    annotation_of = _annotations(source / "data" / "annotations.json", context)
    for where, record in read_records(source / "data/query/query_all.json", "AMBER's queries", context=context):
        with context.record():
            number = require_integer(require_record(record, ("id", "image", "query"), where, others=()), "id", where)
            if number not in annotation_of:
                raise AdapterError(f"{where}: id {number}: data/annotations.json has no annotation of this id")
            sample = _sample(record, annotation_of[number], instruction, where)
            if task not in ("all", GENERATIVE if sample.category == GENERATIVE else "discriminative"):
                continue
            yield from select(context, sample, (f"image/{sample.image_id}", f"images/{sample.image_id}"), where)


def _annotations(path: Path, context: AdapterContext) -> dict[int, dict[str, Any]]:
    """Return {query id: valid annotation record}; invalid ones are reported to the context."""
    by_id: dict[int, dict[str, Any]] = {}
    for where, record in read_records(path, "AMBER's annotations", context=context):
        with context.record():
            kind = require_choice(require_record(record, ("id", "type", "truth"), where, others=("hallu",)), "type", TYPES, where)
            if kind == GENERATIVE:
                for key in ("truth", "hallu"):
                    _words(require_record(record, (key,), where)[key], f"{where}: {key}")
            else:
                yes_or_no(record, "truth", where)
            number = require_integer(record, "id", where)
            if number in by_id:
                raise AdapterError(f"{where}: id {number} comes twice")
            by_id[number] = record
    return by_id


def _words(words: Any, where: str) -> None:
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise AdapterError(f"{where}: expected a list of words, got {words!r:.60}")


def _sample(record: dict[str, Any], annotation: dict[str, Any], instruction: str, where: str) -> Sample:
    question, image_id, kind = require_text(record, "query", where), require_text(record, "image", where), annotation["type"]
    described = kind == GENERATIVE
    words = {key: ", ".join(annotation[key]) for key in ("truth", "hallu")} if described else {}
    return Sample(
        sample_id=str(record["id"]),
        question=question if described else add_instruction(question, instruction),
        image_id=image_id,
        references=() if described else (yes_or_no(annotation, "truth", where),),
        category=TYPES[kind],
        source="amber",
        group=image_id,
        meta={"type": kind, **words},
    )
