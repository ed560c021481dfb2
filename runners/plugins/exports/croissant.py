"""Croissant: datasets as Parquet, described in JSON-LD with digests, licence, citation and responsible-AI fields.

Source: Croissant format specification 1.1 (MLCommons, 2026), http://mlcommons.org/croissant/1.1.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.system.atomic import create_folder
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.plugins.exports import DatasetCredits, ExportContext, ExportError, slug
from qualm.runners.plugins.exports._rai import rai
from qualm.runners.runtime.progress import progress

OF = "datasets"
ROWS = 256
"""Rows in memory at a time; each may hold an image."""
TEXT, LIST, PICTURE = pa.string(), pa.list_(pa.string()), pa.binary()
FIELDS: dict[str, tuple[pa.DataType, str, str]] = {
    "sample_id": (TEXT, "sc:Text", "Stable identity of the question."),
    "question": (TEXT, "sc:Text", "What is asked."),
    "references": (LIST, "sc:Text", "Reference answers of an open question; for an unanswerable one, wordings of an abstention."),
    "choices": (LIST, "sc:Text", "Options of a multiple-choice question, in the order they are shown; empty for an open one."),
    "answer_index": (pa.int16(), "sc:Integer", "Place of the right option, from 0."),
    "category": (TEXT, "sc:Text", "Kind of question, or of uncertainty."),
    "answerable": (pa.bool_(), "sc:Boolean", "Whether the question has an answer."),
    "split": (TEXT, "sc:Text", "The part of the data that it is in."),
    "source": (TEXT, "sc:Text", "What made it."),
    "group": (TEXT, "sc:Text", "Questions of one group are not independent of each other."),
    "pair_id": (TEXT, "sc:Text", "What the two questions of a contrastive pair share."),
    "meta": (TEXT, "sc:Text", "Anything else, as JSON."),
}
"""Field -> column, type and description. The image follows them."""
LICENCES = ("MIT", "Apache-2.0", "BSD-3-Clause", "CC0-1.0", "CC-BY-4.0", "CC-BY-SA-4.0", "CC-BY-NC-4.0", "CC-BY-NC-SA-4.0")
"""SPDX names of the licences in our cards."""
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{
        name: f"cr:{name}"
        for name in (
            "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileObject", "fileProperty",
            "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet",
            "references", "regex", "repeated", "replace", "samplingRate", "separator", "source", "subField", "transform",
        )
    },
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    "sc": "https://schema.org/",
}  # fmt: skip
"""The specification's own."""


def croissant(context: ExportContext, *, creator: str = "", published: str = "", version: str = "", url: str = "") -> None:
    """Write Croissant 1.1 with RAI 1.0: `croissant.json` and `data/samples.parquet`.

    Several datasets have a folder each. The responsible-AI fields hold the card's `rai:`, the recipe of the stage that made the data, and
    the accuracy of a blind classifier, if it was computed. `mlcroissant` loads the records.

    Args:
        creator: Who made the data, names separated by `;`, which Croissant requires and cards do not say.
        published: Date as YYYY-MM-DD, which cards do not say either.
        version: Such as 1.0.0.
        url: Page of the data; by default the card's source.
    """
    if published and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", published):
        raise ExportError(f"-O published={published}: expected a date as YYYY-MM-DD")
    for name, folder in context.datasets.items():
        out = context.folder / slug(name) if len(context.datasets) > 1 else context.folder
        dataset = DatasetFolder(name, folder)
        if not len(dataset):
            raise ExportError(f"dataset '{name}' has no questions")
        several = any(len(picture_ids(sample["image_id"])) > 1 for sample in dataset.samples)
        path = out / "data" / "samples.parquet"
        _write(context, dataset, path, several)
        credits = context.about.get(name, DatasetCredits())
        document: dict[str, Any] = {
            "@context": CONTEXT,
            "@type": "sc:Dataset",
            "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
            "name": slug(name),
            "description": " ".join((credits.description or f"The dataset {name} of the benchmark {context.spec}.").split()),
            "keywords": ["visual question answering", "uncertainty", "qualm"],
            **_origin(context, credits, creator, published, version, url),
            "distribution": [_file(path, out)],
            "recordSet": _record_sets(dataset, several),
            **rai(folder, dataset.table, credits, context.title or context.spec),
        }
        (out / "croissant.json").write_text(
            json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8", newline="\n"
        )


def _origin(context: ExportContext, credits: DatasetCredits, creator: str, published: str, version: str, url: str) -> dict[str, Any]:
    """Return the non-empty licence, citation, origin fields; count missing required ones.

    Required are licence, URL, creator and date of publication.
    """
    creators = [{"@type": "sc:Person", "name": name.strip()} for name in creator.split(";") if name.strip()]
    page = url or (credits.source if credits.source.startswith(("https://", "http://")) else "")
    facts = {"license": _licence(credits.licence), "url": page, "creator": creators, "datePublished": published}
    for name, value in facts.items():
        context.lose(f"{name}, which Croissant requires and neither card nor options give", int(not value))
    facts |= {"citeAs": credits.citation.strip(), "version": version}
    return {name: value for name, value in facts.items() if value}


def _licence(text: str) -> str:
    names = {name.lower(): name for name in LICENCES}
    name = names.get(re.sub(r"\s+", "-", text.strip()).lower())
    return f"https://spdx.org/licenses/{name}.html" if name else text


def _write(context: ExportContext, dataset: DatasetFolder, path: Path, several: bool) -> None:
    create_folder(path.parent)
    picture = pa.field("images", pa.list_(PICTURE)) if several else pa.field("image", PICTURE)
    schema = pa.schema([*((name, kind) for name, (kind, _, _) in FIELDS.items()), picture])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer, progress(context.settings, dataset.name, len(dataset)) as advance:
        for begin in range(0, len(dataset), ROWS):
            rows = list(_rows(dataset, begin, several))
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            context.counts["samples"] += len(rows)
            advance(len(rows))


def _rows(dataset: DatasetFolder, begin: int, several: bool) -> Iterator[dict[str, Any]]:
    for place, sample in enumerate(dataset.table.slice(begin, ROWS).to_pylist(), begin):
        files = dataset.files(place)
        meta = json.dumps(dict(sample["meta"] or ()), sort_keys=True, ensure_ascii=False)
        pictures: dict[str, Any] = {"images": list(files)} if several else {"image": files[0] if files else None}
        yield {**{name: sample[name] for name in FIELDS}, "meta": meta, **pictures}


def _file(path: Path, top: Path) -> dict[str, Any]:
    with path.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    return {
        "@type": "cr:FileObject",
        "@id": "samples-parquet",
        "name": path.name,
        "description": "Questions with their images.",
        "contentUrl": path.relative_to(top).as_posix(),
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": "application/x-parquet",
        "sha256": digest,
    }


def _record_sets(dataset: DatasetFolder, several_images: bool) -> list[dict[str, Any]]:
    """Return Croissant's two record sets: the names of the splits, and the questions."""
    splits = sorted(set(dataset.table["split"].to_pylist()))
    picture = ("images", "The images that are asked about.") if several_images else ("image", "The image that is asked about.")
    fields = [_field(name, kind, about, pa.types.is_list(column)) for name, (column, kind, about) in FIELDS.items()]
    fields.append(_field(picture[0], "sc:ImageObject", picture[1], several_images))
    for field in fields:
        if field["name"] == "split":
            field["references"] = {"field": {"@id": "splits/name"}}
    return [
        {
            "@type": "cr:RecordSet",
            "@id": "splits",
            "name": "splits",
            "dataType": "cr:Split",
            "key": {"@id": "splits/name"},
            "field": [{"@type": "cr:Field", "@id": "splits/name", "name": "name", "dataType": "sc:Text"}],
            "data": [{"splits/name": name} for name in splits],
        },
        {
            "@type": "cr:RecordSet",
            "@id": "samples",
            "name": "samples",
            "description": f"{len(dataset):,} questions.",
            "key": {"@id": "samples/sample_id"},
            "field": fields,
        },
    ]


def _field(name: str, kind: str, about: str, is_list: bool) -> dict[str, Any]:
    source: Mapping[str, Any] = {"fileObject": {"@id": "samples-parquet"}, "extract": {"column": name}}
    several = {"isArray": True, "arrayShape": "-1"} if is_list else {}
    old = {"repeated": True} if is_list and kind == "sc:ImageObject" else {}  # by which mlcroissant 1.1 decodes each image of a list
    return {
        "@type": "cr:Field", "@id": f"samples/{name}", "name": name, "description": about, "dataType": kind, **several, **old,
        "source": dict(source),
    }  # fmt: skip
