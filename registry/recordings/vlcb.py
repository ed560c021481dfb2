"""VLCB, the Vision-Language Confidence Benchmark of BICR: Parquet with a row per question and model, of five models.

    hash_id, model_name, model_response, is_correct

Columns as the authors' `join_model_outputs.py` reads them (commit 4fa15a8); no file was seen by us. The release has neither questions nor
images, which their scripts make anew from seven datasets; where such columns stand beside (question, answer, category, dataset, image),
they are read. `run` names the model. `is_correct`, a language model's verdict on the answer, is not taken: answers are judged anew.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from qualm.registry.formats.faults import Fault
from qualm.registry.recordings.lm_eval import MalformedRowError, build_record
from qualm.registry.recordings.record import ReadOptions, Record, RecordingError, excerpt, short_fields, texts
from qualm.registry.recordings.tables import columnar_columns, columnar_rows

COLUMNS = ("hash_id", "model_name", "model_response", "is_correct")
OPTIONAL_COLUMNS = ("question", "answer", "category", "dataset", "source_dataset", "image")
_SHARD = re.compile(r"(?P<split>.+)-(?P<number>\d{5})-of-(?P<shards>\d{5})")


def names(path: Path) -> frozenset[tuple[str, str]] | None:
    if path.suffix != ".parquet" or not set(COLUMNS) <= set(columnar_columns(path)):
        return None
    match = _SHARD.fullmatch(path.stem)
    if match is not None and int(match["number"]) and _shards(path)[0] != path:
        return None  # read with the first
    return frozenset((model, match["split"] if match else path.stem) for model in _models(_shards(path)))


def _shards(path: Path) -> list[Path]:
    match = _SHARD.fullmatch(path.stem)
    return sorted(path.parent.glob(f"{match['split']}-?????-of-{match['shards']}.parquet")) if match else [path]


def _models(shards: Sequence[Path]) -> list[str]:
    rows = (row for shard in shards for _, row in columnar_rows(shard, ["model_name"]))
    return list(dict.fromkeys(name for row in rows if isinstance(name := row.get("model_name"), str)))


def read(path: Path, how: ReadOptions) -> Iterator[Record | Fault]:
    shards = _shards(path)
    models = _models(shards)
    run = how.run if how.run is not None and how.run in models else None
    if run is None and how.run is None and len(models) > 1:
        raise RecordingError(f"{path}: has answers of {', '.join(models)}; say whose with `run:`")
    run = run or next(iter(models), None)
    for shard in shards:
        for where, row in columnar_rows(shard, [*COLUMNS, *OPTIONAL_COLUMNS, *(field.partition(".")[0] for field in how.fields.values())]):
            if row.get("model_name") == run:
                yield build_record(_record, where, row, how)
            elif not isinstance(row.get("model_name"), str):
                yield Fault(where, "no model's name", excerpt(row.get("model_name")))


def _record(where: str, row: dict[str, Any], how: ReadOptions) -> Record:
    field = how.fields.get
    identifier, response = row.get(field("id", "hash_id")), row.get("model_response")
    if not isinstance(identifier, str) or not identifier:
        raise MalformedRowError("no id", excerpt(identifier))
    if not isinstance(response, str):
        raise MalformedRowError("no response", excerpt(response))
    record = Record(where, identifier, category=str(row.get(field("category", "category")) or ""))
    record.question = str(row.get(field("question", "question")) or "")
    record.references = texts(row.get(field("target", "answer")))
    record.meta = short_fields(row, {*COLUMNS, "question", "answer", "category", "image", *how.fields.values()})
    picture = row.get("image")
    data = picture.get("bytes") if isinstance(picture, dict) else picture
    if picture is not None:
        record.n_pictures = 1
        record.images = (data,) if isinstance(data, bytes) and data else ()
        record.lacking = "" if record.images else "an image of it is not in the log (`pictures: none` takes the question without)"
    record.draws = [{"text": response}]
    return record
