"""CertainlyUncertain in our layout: the dataset itself, mostly pairs, to be published and read again by its card.

`registry/adapters/certainly_uncertain.py`, which reads the files, describes them.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from qualm.registry.adapters.certainly_uncertain import CONTRAST, contrast_of
from qualm.registry.formats.markdown import code, inline
from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.formats.pictures import suffix_of
from qualm.registry.sample import Sample
from qualm.registry.system.atomic import create_folder
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.data.rows import as_sample
from qualm.runners.plugins.exports import DatasetCredits, ExportContext, ExportError, slug
from qualm.runners.runtime.progress import progress

OF = "datasets"
ROWS = 256
"""Rows of Parquet in memory at a time; each may hold an image."""


def certainly_uncertain(context: ExportContext, *, form: Literal["jsonl", "parquet"] = "jsonl") -> None:
    """Write datasets in our CertainlyUncertain layout: JSON Lines with images, or Parquet.

    Several datasets have a folder each. Only questions are written, so no model is needed.

    Args:
        form: `jsonl`, or `parquet` for `datasets.load_dataset`.
    """
    for name, folder in context.datasets.items():
        out = context.folder / slug(name) if len(context.datasets) > 1 else context.folder
        dataset = DatasetFolder(name, folder)
        rows = _rows(dataset, name)
        (_parquet if form == "parquet" else _jsonl)(context, dataset, rows, out)
        (out / "README.md").write_text(
            _readme(name, rows, context.about.get(name, DatasetCredits()), context), encoding="utf-8", newline="\n"
        )


def _rows(dataset: DatasetFolder, name: str) -> dict[str, list[tuple[int, dict[str, Any]]]]:
    samples = [_sample(row, name) for row in dataset.table.to_pylist()]
    members: dict[str, list[Sample]] = {}
    for sample in samples:
        if sample.pair_id is not None:
            members.setdefault(sample.pair_id, []).append(sample)
    for pair, pair_samples in members.items():
        if sorted(sample.answerable for sample in pair_samples) != [False, True]:
            raise ExportError(
                f"dataset '{name}': pair '{pair}': expected an answerable and an unanswerable member, got {len(pair_samples)} in all"
            )
    records: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for place, sample in enumerate(samples):
        record = {
            "id": sample.sample_id,
            "question": sample.question,
            "answers": list(sample.references),
            "answerable": sample.answerable,
            "category": sample.category,
            "pair_id": sample.pair_id,
            CONTRAST: None if sample.pair_id is None else contrast_of(members[sample.pair_id]),
            "image": None,
            "image_id": sample.image_id,
            "group": sample.group,
            "source": sample.source,
            "meta": {key: value for key, value in sample.meta.items() if key != CONTRAST},
        }
        records.setdefault(slug(sample.split), []).append((place, record))
    return records


def _sample(row: dict[str, Any], name: str) -> Sample:
    sample = as_sample(row)
    if sample.choices or not sample.references or not sample.category:
        lacks = "options" if sample.choices else "no answer" if not sample.references else "no category"
        raise ExportError(f"dataset '{name}': sample '{sample.sample_id}' has {lacks}; this layout is for open questions with both")
    if (pictures := len(picture_ids(sample.image_id))) > 1:
        where = f"dataset '{name}': sample '{sample.sample_id}'"
        raise ExportError(f"{where} has {pictures} images; this layout holds one for each question (`qualm export --to hf` takes lists)")
    return sample


def _jsonl(context: ExportContext, dataset: DatasetFolder, rows: dict[str, list[tuple[int, dict[str, Any]]]], out: Path) -> None:
    create_folder(out / "images")
    files: dict[str, str] = {}
    taken: set[str] = set()
    for split, records in rows.items():
        with (
            (out / f"{split}.jsonl").open("w", encoding="utf-8", newline="\n") as handle,
            progress(context.settings, split, len(records)) as advance,
        ):
            for place, record in records:
                image_id = record["image_id"]
                if image_id is not None and image_id not in files:
                    data = _encoded(dataset, place)
                    files[image_id] = f"images/{_file_name(image_id, data, taken)}"
                    (out / files[image_id]).write_bytes(data)
                handle.write(json.dumps({**record, "image": files.get(image_id)}, ensure_ascii=False) + "\n")
                context.counts["samples"] += 1
                advance()


def _parquet(context: ExportContext, dataset: DatasetFolder, rows: dict[str, list[tuple[int, dict[str, Any]]]], out: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from qualm.registry.sample import IMAGE_STRUCT

    text = pa.string()
    types = {"answers": pa.list_(text), "answerable": pa.bool_(), "image": IMAGE_STRUCT}
    types["meta"] = pa.list_(pa.struct([("key", text), ("value", text)]))
    create_folder(out / "data")

    def tables(records: list[tuple[int, dict[str, Any]]]) -> Iterator[pa.Table]:
        for begin in range(0, len(records), ROWS):
            block = []
            for place, record in records[begin : begin + ROWS]:
                data = None if record["image_id"] is None else _encoded(dataset, place)
                meta = [{"key": k, "value": v} for k, v in record["meta"].items()]
                block.append({**record, "meta": meta, "image": None if data is None else {"bytes": data, "path": None}})
            context.counts["samples"] += len(block)
            yield pa.Table.from_pylist(block, schema=schema)

    for split, records in rows.items():
        schema = pa.schema([(key, types.get(key, text)) for key in records[0][1]])
        with pq.ParquetWriter(out / "data" / f"{split}-00000-of-00001.parquet", schema, compression="zstd") as writer:
            for table in tables(records):
                writer.write_table(table)


def _encoded(dataset: DatasetFolder, place: int) -> bytes:
    data = dataset.encoded(place)
    assert data is not None  # the sample names an image, and one that is not there is an error of the dataset's own
    return data


def _file_name(image_id: str, data: bytes, taken: set[str]) -> str:
    """Return a unique file name from an image's id, with a digest if needed; add to `taken`.

    Names that differ in case alone count as one, as on some file systems.
    """
    suffix = suffix_of(data)
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", image_id)[:100]
    name = _ending(plain, suffix)
    if plain != image_id or not re.match(r"[A-Za-z0-9_]", plain) or name.lower() in taken:
        name = _ending(f"{plain.lstrip('.-')}-{hashlib.sha256(image_id.encode()).hexdigest()[:10]}", suffix)
    taken.add(name.lower())
    return name


def _ending(name: str, suffix: str) -> str:
    return name if name.lower().endswith(suffix) else name + suffix


def _readme(name: str, rows: dict[str, list[tuple[int, dict[str, Any]]]], about: DatasetCredits, context: ExportContext) -> str:
    lines = [
        f"# {inline(name)}",
        "",
        f"Questions of the benchmark {code(context.spec)} of qualm, in the layout that its card `certainly_uncertain` reads.",
        "",
        "| split | category | answerable | cannot be answered |",
        "|---|---|---|---|",
    ]
    for split, records in sorted(rows.items()):
        counts = Counter((record["category"], record["answerable"]) for _, record in records)
        for category in sorted({category for category, _ in counts}):
            lines.append(f"| {inline(split)} | {inline(category)} | {counts[category, True]:,} | {counts[category, False]:,} |")
    lines += [
        "",
        f"Made of: {inline(about.title or 'unknown')}",
        "",
        f"Licences of what it is made of: {inline(about.licence or 'unknown')}",
    ]
    return "\n".join(lines) + "\n"
