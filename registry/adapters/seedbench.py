"""SEED-Bench: multiple-choice questions on images in nine dimensions. Li et al., 2023."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_records, require_choice, require_record, require_text, select
from qualm.registry.formats.json_stream import JsonStreamError, members
from qualm.registry.sample import Image, Sample

FILE_NAME = "SEED-Bench's questions (`qualm data show seedbench`)"
META = ["type_id"]
DIMENSIONS = (
    "Scene Understanding", "Instance Identity", "Instance Attributes", "Instance Location", "Instances Counting", "Spatial Relation",
    "Instance Interaction", "Visual Reasoning", "Text Understanding",
)  # fmt: skip
"""Names of `question_type_id` 1 to 9, as SEED-Bench gives them."""
LETTERS = "ABCD"
CHOICES = tuple(f"choice_{letter.lower()}" for letter in LETTERS)
KEYS = ("question_id", "question_type_id", "question", *CHOICES, "answer", "data_id", "data_type")
OPTIONAL_KEYS = ("segment",)
SWAPPED = {3: 4, 4: 3}


def seedbench(context: AdapterContext, *, labels: Literal["official", "vlm_uncertainty_bench"] = "official") -> Iterator[Image | Sample]:
    """Yield SEED-Bench's questions on images (dimensions 1 to 9), videos left out.

    The files are `SEED-Bench.json`, `SEED-Bench-image/DATA_ID`. `sample_id` is the question's id. Questions on one image are a group. The
    category is the dimension's name (`Spatial Relation`) and `meta.type_id` its number. Questions on videos (dimensions 10 to 12) are
    left out.

    Args:
        labels: Names of dimensions 3 and 4: `official` is Instance Attributes and Instance Location, `vlm_uncertainty_bench` has
            them the other way round, as the columns of that paper's tables are. Numbers stay.

    Raises:
        AdapterError: a file, key, value or image is not as in the release. Nothing is guessed.
    """
    source = context.need_source("seedbench")
    path = source / "SEED-Bench.json"
    if path.is_file():
        _check_names(path)
    for where, record in read_records(path, FILE_NAME, "questions", context):
        with context.record():
            if require_record(record, KEYS, where, OPTIONAL_KEYS)["data_type"] == "video":
                continue
            sample = _sample(record, labels, where)
            yield from select(context, sample, (f"SEED-Bench-image/{sample.image_id}",), where)


def _check_names(path: Path) -> None:
    """Raise AdapterError if a file numbers the nine dimensions unlike the release."""
    try:
        numbers = next((value for key, value in members(path, {"questions"}) if key == "question_type"), None)
    except JsonStreamError as error:
        raise AdapterError(f"{error} (expected {FILE_NAME})") from error
    ids = {number: name for name, number in numbers.items() if isinstance(number, int)} if isinstance(numbers, dict) else {}
    for number, name in enumerate(DIMENSIONS, 1):
        if ids.get(number) != name:
            raise AdapterError(f"{path}: question_type: expected {number} to be '{name}', got {ids.get(number)!r:.60}")


def _sample(record: dict[str, Any], labels: str, where: str) -> Sample:
    if record["data_type"] != "image":
        raise AdapterError(f"{where}: data_type: expected image or video, got {record['data_type']!r:.60}")
    dimension = record["question_type_id"]
    if type(dimension) is not int or not 1 <= dimension <= len(DIMENSIONS):
        raise AdapterError(f"{where}: question_type_id: expected 1 to {len(DIMENSIONS)} for an image question, got {dimension!r:.60}")
    right = LETTERS.index(require_choice(record, "answer", LETTERS, where))
    named = SWAPPED.get(dimension, dimension) if labels == "vlm_uncertainty_bench" else dimension
    image_id = require_text(record, "data_id", where)
    return Sample(
        sample_id=str(record["question_id"]),
        question=require_text(record, "question", where),
        image_id=image_id,
        choices=tuple(_choice(record, key, where) for key in CHOICES),
        answer_index=right,
        category=DIMENSIONS[named - 1],
        source="seedbench",
        group=image_id,
        meta={"type_id": str(dimension)},
    )


def _choice(record: dict[str, Any], key: str, where: str) -> str:
    """Return an option's text at `key`; numbers become text, other types AdapterError."""
    value = record[key]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise AdapterError(f"{where}: {key}: expected text or a number, got {value!r:.60}")
    return str(value)
