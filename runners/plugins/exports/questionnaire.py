"""Questions for people to answer: a table with room for their answers and a folder of images, without reference answers."""

import csv
import hashlib
import io
from pathlib import Path
from typing import Annotated

from annotated_types import Ge

from qualm.registry.formats.pictures import suffix_of, tile_images, to_displayable
from qualm.registry.formats.text_tables import escape_formula
from qualm.registry.recordings.record import blind_id
from qualm.registry.system.atomic import create_folder
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.data.splits import SplitRule
from qualm.runners.plugins.exports import ExportContext, slug

OF = "datasets"
COLUMNS = ("index", "sample_id", "question", "picture", "prediction")
"""`sample_id` is a digest, since ids may reveal the right answer.
`prediction` is empty: VLMEvalKit's name for an answer, so that the filled table is read as a recording of it.
"""


def questionnaire(
    context: ExportContext, *, per_category: Annotated[int, Ge(2)] = 20, seed: Annotated[int, Ge(0)] = 7, split: str | None = None
) -> None:
    """Write a questionnaire for people: `people_DATASET.tsv` to be filled in, and `pictures/`.

    It holds the questions that a model with `per_category: N` is asked, in random order under random ids, without answers, categories and
    partners. The filled table is a recording:
    `{recorded: {source: ENTRY, run: people}, confidence: none, per_category: N}`.

    Args:
        per_category: Questions of each category and split, whole pairs.
        seed: The spec's, which chooses them.
        split: Of this split; else of those that are scored by default, `test` or all but `train`.
    """
    for name, folder in context.datasets.items():
        rule = SplitRule(None if split is None else (split,), subset=(per_category, seed))
        dataset = DatasetFolder(name, folder, rule)
        create_folder(context.folder / "pictures")
        order = sorted(range(len(dataset)), key=lambda row: _shuffled(seed, dataset.samples[row]["sample_id"]))
        with (context.folder / f"people_{slug(name)}.tsv").open("w", encoding="utf-8", newline="") as handle:
            writer = csv.writer(handle, delimiter="\t", quoting=csv.QUOTE_ALL, lineterminator="\n")
            writer.writerow(COLUMNS)
            for number, row in enumerate(order):
                sample = dataset.samples[row]
                picture = _write_picture(context.folder, f"{slug(name)}-{number:04d}", _read_picture(dataset, row))
                writer.writerow([number, blind_id(sample["sample_id"]), escape_formula(sample["question"]), picture, ""])
                context.counts["samples"] += 1


def _shuffled(seed: int, sample_id: str) -> bytes:
    return hashlib.sha256(f"{seed}\n{sample_id}".encode()).digest()


def _read_picture(dataset: DatasetFolder, row: int) -> bytes | None:
    """Return the image file, several images joined as one PNG; None without an image."""
    item = dataset.item(row)
    if len(item.files) < 2:
        return item.data
    with io.BytesIO() as file:
        tile_images(item.images()).save(file, "PNG")
        return file.getvalue()


def _write_picture(folder: Path, name: str, data: bytes | None) -> str:
    """Write an image under a neutral name; return its path, "" without one."""
    if data is None:
        return ""
    shown = to_displayable(data)
    path = f"pictures/{name}{suffix_of(shown)}"
    (folder / path).write_bytes(shown)
    return path
