"""VLMEvalKit: `TASK.tsv`, its input with the images, and `MODEL/MODEL_TASK.xlsx`, a model's predictions."""

import base64
import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow.compute as pc

from qualm.registry import LETTERS
from qualm.registry.formats.text_tables import escape_formula
from qualm.registry.plugins.extras import install_line
from qualm.registry.recordings.signals import KEY, pack
from qualm.registry.recordings.tables import excel_escape
from qualm.registry.sample import SAMPLES
from qualm.registry.system.atomic import create_folder
from qualm.runners.plugins.exports import ExportContext, ExportEntry, ExportError, ExportPart, ModelInput, slug
from qualm.runners.runtime.records import read_table

MAX_CHARACTERS = 32_767
"""Characters of a cell in Excel."""
BLANK = " "
"""Placeholder of an option without text: an empty cell would be no option."""


def vlmevalkit(context: ExportContext, *, table: Literal["xlsx", "tsv", "json"] = "xlsx", images: bool = True) -> None:
    """Write VLMEvalKit's input table with images, and predictions.

    `index` is the sample's place in its dataset; `sample_id` is another column. A prediction is the greedy answer, or the likeliest
    option's letter; other signals are JSON in a column `qualm`. Set LMUData to the folder and PRED_FORMAT to the table's format.

    Args:
        table: Format of predictions; VLMEvalKit's default is xlsx, which needs openpyxl.
        images: Write the input tables, in which images are base64.
    """
    written: set[str] = set()
    for part in context.parts:
        names, has_images = _columns(part)
        if images and part.task not in written:
            written.add(part.task)
            _tsv(
                context.folder / f"{part.task}.tsv",
                [*names, "image"] if has_images else names,
                _input_rows(context, part, names, has_images),
            )
        folder = context.folder / slug(part.model)
        create_folder(folder)
        path = folder / f"{slug(part.model)}_{part.task}.{table}"
        names += ["prediction", KEY]
        cells = ([row.get(name) for name in names] for row in _predictions(context, part, images and has_images))
        if table == "xlsx":
            _xlsx(context, path, names, cells)
        else:
            {"tsv": _tsv, "json": _json}[table](path, names, cells)


def _question(entry: ExportEntry) -> dict[str, Any]:
    right, references = entry.sample["answer_index"], entry.references
    answer = references[0] if len(references) == 1 else str(references) if references else None
    if entry.choices:
        answer = None if right is None else LETTERS[right]
    return {
        "index": entry.place,
        "sample_id": entry.name,
        "question": entry.question,
        **{LETTERS[i]: text or BLANK for i, text in enumerate(entry.choices)},
        "answer": answer,
        "category": entry.sample["category"],
        "split": entry.sample["split"],
    }


def _predictions(context: ExportContext, part: ExportPart, with_picture: bool) -> Iterator[dict[str, Any]]:
    """Yield a row per answered question: its reply and signals; count what is lost.

    `with_picture` leaves out questions without an image.
    """
    for entry in context.entries(part):
        if with_picture and entry.sample["image_id"] is None:
            context.lose("answers to questions without an image, where others have one (`-O images=false` keeps them)")
            continue
        context.lose("sampled answers", len(entry.answers) - 1)
        context.lose("other fields of samples (meta, group, pair_id)", int(bool(entry.sample["meta"] or entry.sample["pair_id"])))
        if entry.answers[0]["text"] is None and entry.predicted is None:
            context.lose("answers without text or option logits")
            continue
        signals = json.dumps(pack(entry.answers[0], ("text",)), ensure_ascii=False, allow_nan=False)
        yield {**_question(entry), "prediction": entry.reply, KEY: signals}


def _columns(part: ExportPart) -> tuple[list[str], bool]:
    """Return (column names, whether a sample has an image); ExportError for over 26 options."""
    samples = read_table(part.samples / "samples.parquet", SAMPLES, ["sample_id", "choices", "image_id"])
    n_options = pc.fill_null(pc.list_value_length(samples["choices"]), 0)
    width = pc.max(n_options).as_py() or 0
    if width > len(LETTERS):
        name = samples["sample_id"][pc.index(n_options, width).as_py()].as_py()
        raise ExportError(
            f"dataset '{part.dataset}': sample '{name}' has {width} options, and VLMEvalKit's tables have columns for "
            f"{len(LETTERS)}, A to Z; export other datasets with --dataset, or this one to another format"
        )
    names = ["index", "sample_id", "question", *LETTERS[:width], "answer", "category", "split"]
    return names, samples["image_id"].null_count < samples.num_rows


def _input_rows(context: ExportContext, part: ExportPart, column_names: list[str], has_images: bool) -> Iterator[list[Any]]:
    """Yield input rows, without imageless ones if `has_images`; repeated images as row index."""
    inputs, first = ModelInput(part), dict[str, int]()
    for entry in context.questions(part):
        key, image = inputs.key(entry), None
        if key is None:
            if has_images:
                continue
        elif key in first:
            image = str(first[key])
        else:
            cells = [base64.b64encode(data).decode() for data in inputs.pictures(entry)]
            image = json.dumps(cells) if len(cells) > 1 else cells[0] if cells else None
            first[key] = entry.place
        row = _question(entry)
        yield [*(row.get(name) for name in column_names), *([image] if has_images else [])]


def _tsv(path: Path, column_names: list[str], rows: Iterator[list[Any]]) -> None:
    """Write rows as TSV, with a quote before cells that a spreadsheet would compute."""
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, delimiter="\t", quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(column_names)
        writer.writerows(["" if cell is None else escape_formula(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)


def _json(path: Path, names: list[str], rows: Iterator[list[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        handle.write("[")
        for number, row in enumerate(rows):
            handle.write(",\n" if number else "\n")
            json.dump(dict(zip(names, row, strict=True)), handle, ensure_ascii=False, allow_nan=False)
        handle.write("\n]\n")


def _xlsx(context: ExportContext, path: Path, column_names: list[str], rows: Iterator[list[Any]]) -> None:
    """Write an Excel table, control characters escaped; ExportError without openpyxl."""
    try:
        from openpyxl import Workbook  # type: ignore[import-untyped]
    except ImportError:
        raise ExportError(
            f"Excel tables are written by openpyxl, which is not installed: `{install_line('tables')}`, or `-O table=tsv`"
        ) from None
    book = Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")
    try:
        _fill(context, path, sheet, column_names, rows)
    finally:
        sheet.close()
    book.save(path)


def _fill(context: ExportContext, path: Path, sheet: Any, names: list[str], rows: Iterator[list[Any]]) -> None:
    from openpyxl.cell import WriteOnlyCell  # type: ignore[import-untyped]

    sheet.append(names)
    for row in rows:
        cells = []
        for name, value in zip(names, row, strict=True):
            if not isinstance(value, str):
                cells.append(value)
                continue
            text = excel_escape(value)
            if len(text) > MAX_CHARACTERS:
                if name != KEY:
                    where = f"{path.name}: {name} of row {row[0]}"
                    raise ExportError(f"{where} has {len(text):,} characters, Excel holds {MAX_CHARACTERS:,}; `-O table=tsv`")
                context.lose("token signals too long for a cell of Excel (`-O table=tsv` keeps them)")
                text = ""
            cell = WriteOnlyCell(sheet, value=text)
            cell.data_type = "s"
            cells.append(cell)
        sheet.append(cells)
