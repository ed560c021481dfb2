"""Hugging Face: a folder that `datasets.load_dataset` opens and that can be pushed to the hub as it is.

README.md                         the card: licence, citation, recipe, what is in it
data/DATASET-00000-of-00001.parquet            questions with images, a config per dataset and variant
generations/MODEL_DATASET.parquet              answers with every signal
scores.parquet, judgements.parquet...          tables of the whole benchmark, where they have been made
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from qualm.registry.formats.markdown import code, fenced, inline
from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.sample import GENERATIONS, IMAGE_STRUCT, SAMPLES
from qualm.registry.system import atomic
from qualm.registry.system.atomic import create_folder
from qualm.runners.plugins.exports import DatasetCredits, ExportContext, ExportEntry, ExportPart, ModelInput, slug
from qualm.runners.runtime.records import read_schema, read_table

SHARD_BYTES = 256 * 2**20
BLOCK = 256
LICENCES = {
    "MIT": "mit",
    "APACHE-2.0": "apache-2.0",
    "APACHE 2.0": "apache-2.0",
    "CC BY 4.0": "cc-by-4.0",
    "CC-BY-4.0": "cc-by-4.0",
    "CC BY-NC 4.0": "cc-by-nc-4.0",
    "CC0-1.0": "cc0-1.0",
    "BSD-3-CLAUSE": "bsd-3-clause",
}
"""Licences in our cards -> the hub's names."""
_META = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
"""`datasets` has no maps."""


def hf(context: ExportContext, *, images: bool = True) -> None:
    """Write for Hugging Face: Parquet and a README card, a `load_dataset` config per table.

    Args:
        images: Put the images beside the questions, as the column `image`; where a sample has several, as lists in `images`.
    """
    configs: dict[str, list[str]] = {}
    for part in context.parts:
        name = f"data-{part.task}"
        if name not in configs:
            configs[name] = _questions(context, part, images)
    for part in context.parts:
        path = Path("generations") / f"{slug(part.model)}_{part.task}.parquet"
        configs[f"generations-{slug(part.model)}-{part.task}"] = [path.as_posix()]
        _answers(context, part, context.folder / path)
    for name, table in context.tables.items():
        configs[name] = [f"{name}.parquet"]
        _write_table(context, table, context.folder / f"{name}.parquet")
    (context.folder / "README.md").write_text(_card(context, configs), encoding="utf-8", newline="\n")


def _questions(context: ExportContext, part: ExportPart, images: bool) -> list[str]:
    """Write one dataset's questions under one variant, in shards; return their paths."""
    fields = [pa.field(f.name, _META if f.name == "meta" else f.type) for f in SAMPLES]
    features: dict[str, Any] = {}
    if images:
        several = any(len(picture_ids(name)) > 1 for name in _image_ids(part))
        own: dict[str, Any] = {"image": {"_type": "Image"}}
        if several:
            own = {"images": {"feature": {"_type": "Image"}, "_type": "List"}}
        fields.append(pa.field("images", pa.list_(IMAGE_STRUCT)) if several else pa.field("image", IMAGE_STRUCT))
        features = {"info": {"features": {**{f.name: _feature(f.type) for f in fields[:-1]}, **own}}}
    schema = pa.schema(fields, metadata={"huggingface": json.dumps(features)} if features else None)
    folder = context.folder / "data"
    create_folder(folder)
    written: list[Path] = []
    writer: pq.ParquetWriter | None = None
    used = 0
    for table in _tables(context, part, schema, images):
        if writer is None:
            written.append(folder / f".{part.task}-{len(written):05d}")
            writer, used = pq.ParquetWriter(written[-1], schema, compression="zstd"), 0
        writer.write_table(table)
        used += table.nbytes
        if used >= SHARD_BYTES:
            writer.close()
            writer = None
    if writer is not None:
        writer.close()
    names = [f"{part.task}-{i:05d}-of-{len(written):05d}.parquet" for i in range(len(written))]
    for path, name in zip(written, names, strict=True):
        atomic.publish(path, folder / name)
    return [f"data/{name}" for name in names]


def _tables(context: ExportContext, part: ExportPart, schema: pa.Schema, images: bool) -> Iterator[pa.Table]:
    inputs = ModelInput(part) if images else None
    block: list[dict[str, Any]] = []
    for entry in context.questions(part):
        context.lose("images (`-O images=true` keeps them)", int(inputs is None and entry.sample["image_id"] is not None))
        block.append(_row(entry, inputs))
        if len(block) == BLOCK:
            yield pa.Table.from_pylist(block, schema=schema)
            block = []
    if block:
        yield pa.Table.from_pylist(block, schema=schema)


def _image_ids(part: ExportPart) -> list[str | None]:
    ids: list[str | None] = read_table(part.samples / "samples.parquet", SAMPLES, ["image_id"])["image_id"].to_pylist()
    return ids


def _row(entry: ExportEntry, inputs: ModelInput | None) -> dict[str, Any]:
    meta = [{"key": k, "value": v} for k, v in entry.sample["meta"] or ()]
    row = {**entry.sample, "question": entry.question, "meta": meta}
    if inputs is not None:
        row["images"] = [{"bytes": data, "path": None} for data in inputs.pictures(entry)]
        row["image"] = row["images"][0] if row["images"] else None
    return row


def _answers(context: ExportContext, part: ExportPart, path: Path) -> None:
    create_folder(path.parent)
    table = read_table(part.generations, GENERATIONS)
    table = table.filter(pc.equal(table["variant"], part.variant.name))
    context.counts.update(answers=table.num_rows, samples=pc.count_distinct(table["sample_id"]).as_py())
    pq.write_table(table, path, compression="zstd")


def _write_table(context: ExportContext, source: Path, path: Path) -> None:
    read_schema(source)  # refuses a damaged file
    table = pq.read_table(source)
    for column, names in (
        ("model", {p.model for p in context.parts}),
        ("dataset", {p.dataset for p in context.parts}),
        ("variant", {p.variant.name for p in context.parts}),
    ):
        table = table.filter(pc.is_in(table[column], value_set=pa.array(sorted(names))))
    pq.write_table(table.replace_schema_metadata(None), path, compression="zstd")


def _feature(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        inner = _feature(kind.value_type)
        return {"feature": inner, "_type": "List"}
    if pa.types.is_struct(kind):
        return {f.name: _feature(f.type) for f in kind}
    return {"dtype": str(kind), "_type": "Value"}


def _card(context: ExportContext, configs: dict[str, list[str]]) -> str:
    about = {p.dataset: context.about.get(p.dataset, DatasetCredits()) for p in context.parts}
    licences = sorted({a.licence for a in about.values() if a.licence})
    identifiers = {LICENCES.get(text.upper()) for text in licences}
    head: dict[str, Any] = {
        "pretty_name": context.title or context.spec,
        "license": identifiers.pop() if len(identifiers) == 1 and None not in identifiers else "other",
        "task_categories": ["visual-question-answering"],
        "tags": ["uncertainty", "qualm"],
        "configs": [{"config_name": n, "data_files": [{"split": "test", "path": files}]} for n, files in configs.items()],
    }
    if head["license"] == "other":
        head["license_name"] = "; ".join(licences) or "unknown"
    first = next(iter(configs))
    lines = [
        "---",
        yaml.safe_dump(head, sort_keys=False, allow_unicode=True).rstrip(),
        "---",
        f"# {inline(context.title or context.spec)}",
        "",
        f"Answers of vision-language models with their uncertainty signals, made by the benchmark {code(context.spec)} of qualm.",
        "",
        "```python",
        "from datasets import load_dataset",
        f'load_dataset("FOLDER", "{first}", split="test")',
        "```",
        "",
        "| config | what | rows |",
        "|---|---|---|",
        *(f"| {code(name)} | {_what(name)} | {_rows(context, files):,} |" for name, files in configs.items()),
        "",
        "Rows of `generations-*` belong to rows of `data-*` by `sample_id`; `draw` 0 is the greedy answer, 1 to N are sampled.",
        "Log-probabilities are natural logarithms with the end of sequence included, entropies nats over the whole vocabulary.",
        "",
        "## Licence",
        "",
        *map(_licence, about.items()),
        "",
        "## Citation",
        "",
        *(line for a in {a.citation: a for a in about.values() if a.citation}.values() for line in fenced(a.citation.strip(), "bibtex")),
        "",
        "## Recipe",
        "",
        f"Made from revision {code(context.revision or 'unknown')} by {code(f'qualm run {context.spec}')}, from this spec:",
        "",
        *fenced(context.recipe, "yaml"),
        "",
        "Models: " + "; ".join(f"{code(m)}: {code(json.dumps(context.models.get(m, {}), sort_keys=True))}" for m in _counted(context)),
        "",
    ]
    return "\n".join(lines)


def _licence(entry: tuple[str, DatasetCredits]) -> str:
    name, about = entry
    source = f" ({inline(about.source)})" if about.source else ""
    return f"- {inline(name)}: {inline(about.licence or 'unknown; ask the authors of the data')}{source}"


def _counted(context: ExportContext) -> list[str]:
    return list(Counter(p.model for p in context.parts))


def _what(name: str) -> str:
    kind = name.partition("-")[0]
    return {"data": "questions, with images where there are any", "generations": "answers"}.get(kind, f"{name} of the benchmark")


def _rows(context: ExportContext, files: list[str]) -> int:
    return sum(pq.read_metadata(context.folder / file).num_rows for file in files)
