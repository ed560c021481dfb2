"""SHR: descriptions of photographs, whose sentences a judge checks. Zhao, Wang, Ouyang et al., 2023 (HA-DPO)."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from qualm.registry import EVIDENCE
from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_records, require_record, require_text, select
from qualm.registry.sample import Image, Sample

META = ["evidence", "facts"]
PROMPT = "Describe this image in detail."
FACTS = ("shr_factual_part1.jsonl", "shr_factual_part2.jsonl")
BOX = ("x", "y", "width", "height", "phrase")


def shr(context: AdapterContext) -> Iterator[Image | Sample]:
    """Yield one request for a description per SHR image, in file order.

    The order is that of `val_images_final.json`; images are Visual Genome's. References are the facts of `shr_factual_part1.jsonl` and
    `part2`; `meta.facts` counts them. `meta.evidence`, which the judge `shr` reads, has a line `[x1, y1, x2, y2]: phrase` for each region
    of `region_descriptions.json`, in shares of width and height with two decimals, as in the official code. An image without facts has
    its regions' phrases as references; one without either ends the run. `image_data.json` gives sizes and folders (`VG_100K`,
    `VG_100K_2`). Set `max_new_tokens: 512`: the question is "Describe this image in detail."

    Raises:
        AdapterError: a file, key, value or image is not as in the release. Nothing is guessed.
    """
    source = context.need_source("shr")
    places: dict[str, str] = {}
    for where, record in read_records(source / "val_images_final.json", "SHR's images", context=context):
        with context.record():
            places[_id(require_record(record, ("image_id",), where)["image_id"], where)] = where
    facts = _facts(source, context)
    pictures = _pictures(source / "image_data.json", places)
    regions = _regions(source / "region_descriptions.json", pictures)
    for image_id, where in places.items():
        with context.record():
            if image_id not in pictures:
                raise AdapterError(f"{where}: image_id {image_id}: image_data.json does not know this image")
            sample = _sample(image_id, facts.get(image_id, ()), regions.get(image_id, ()), where)
            yield from select(context, sample, (pictures[image_id].path,), where)


@dataclass(frozen=True, slots=True)
class _Picture:
    path: str
    width: int
    height: int


def _id(value: Any, where: str) -> str:
    if not str(value).isdecimal():
        raise AdapterError(f"{where}: image_id: expected a whole number, got {value!r:.60}")
    return str(value)


def _facts(source: Path, context: AdapterContext) -> dict[str, tuple[str, ...]]:
    by_picture: dict[str, tuple[str, ...]] = {}
    for name in FACTS:
        for where, record in read_records(source / name, "SHR's facts", context=context):
            with context.record():
                if not isinstance(record, dict) or len(record) != 1:
                    raise AdapterError(f"{where}: expected an object of one image and its facts, got {record!r:.60}")
                ((image_id, facts),) = record.items()
                if not isinstance(facts, list) or not all(isinstance(fact, str) for fact in facts):
                    raise AdapterError(f"{where}: {image_id}: expected a list of facts, got {facts!r:.60}")
                by_picture[_id(image_id, where)] = tuple(fact for fact in facts if fact.strip())
    return by_picture


def _pictures(path: Path, ids: Collection[str]) -> dict[str, _Picture]:
    """Return {image id: its path, width, height in pixels} of images in `ids` that are listed.

    The path is the last two parts of the address.
    """
    pictures = {}
    for where, record in read_records(path, "Visual Genome's list of images"):
        image_id = _id(require_record(record, ("image_id", "url", "width", "height"), where)["image_id"], where)
        if image_id not in ids:
            continue
        width, height = record["width"], record["height"]
        if not (type(width) is int and type(height) is int and width > 0 and height > 0):
            raise AdapterError(f"{where}: width, height: expected whole numbers above 0, got {(width, height)!r:.60}")
        pictures[image_id] = _Picture("/".join(PurePosixPath(require_text(record, "url", where)).parts[-2:]), width, height)
    return pictures


def _regions(path: Path, pictures: Mapping[str, _Picture]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return {image id: ((box as text in shares, phrase), ...)} of `pictures` with regions."""
    by_picture = {}
    for where, record in read_records(path, "Visual Genome's regions"):
        records = require_record(record, ("regions",), where)["regions"]
        if not isinstance(records, list):
            raise AdapterError(f"{where}: regions: expected a list, got {records!r:.60}")
        if records and (image_id := _id(require_record(records[0], ("image_id",), f"{where}: regions[0]")["image_id"], where)) in pictures:
            regions = (_region(region, pictures[image_id], f"{where}: regions[{i}]") for i, region in enumerate(records))
            by_picture[image_id] = tuple(one for one in regions if one[1])
    return by_picture


def _region(region: Any, picture: _Picture, where: str) -> tuple[str, str]:
    x, y, width, height = (require_record(region, BOX, where)[key] for key in BOX[:4])
    if not all(type(n) is int for n in (x, y, width, height)):
        raise AdapterError(f"{where}: x, y, width, height: expected whole numbers, got {(x, y, width, height)!r:.80}")
    corners = (x / picture.width, y / picture.height, (x + width) / picture.width, (y + height) / picture.height)
    return str([float(f"{share:.2f}") for share in corners]), str(region["phrase"]).strip()


def _sample(image_id: str, facts: tuple[str, ...], regions: tuple[tuple[str, str], ...], where: str) -> Sample:
    references = facts or tuple(phrase for _, phrase in regions)
    if not references:
        raise AdapterError(f"{where}: image_id {image_id}: neither facts nor regions are known of this image")
    return Sample(
        sample_id=image_id,
        question=PROMPT,
        image_id=image_id,
        references=references,
        source="shr",
        group=image_id,
        meta={EVIDENCE: "\n".join(f"{box}: {phrase}" for box, phrase in regions), "facts": str(len(facts))},
    )
