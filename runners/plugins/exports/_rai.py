"""Croissant's responsible-AI properties, from a dataset's card and the way it was made.

Source: Croissant RAI specification 1.0, http://mlcommons.org/croissant/RAI/1.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from qualm.registry.sample import SHORTCUTS
from qualm.runners.data.data_cards import FENCE, KEY
from qualm.runners.runtime.records import read_table

if TYPE_CHECKING:
    from qualm.runners.plugins.exports import DatasetCredits

ONE = ("dataCollection", "dataCollectionMissingData", "dataCollectionRawData", "dataImputationProtocol", "dataManipulationProtocol",
       "dataSocialImpact", "annotationsPerItem", "dataAnnotationProtocol")  # fmt: skip
"""Properties with a single value; the others are lists."""


def rai(folder: Path, samples: pa.Table, credits: DatasetCredits, title: str) -> dict[str, Any]:
    """Return Croissant's `rai:NAME` -> text or texts: the card's, then facts of the data.

    Args:
        folder: of the dataset, beside which its card and its table of shortcuts are.
        samples: its questions.
        credits: of the dataset.
        title: of the benchmark.
    """
    facts: dict[str, list[str]] = {name: [text] for name, text in credits.rai.items()}
    for name, text in (
        ("dataCollection", credits.description),
        ("dataCollectionRawData", f"{credits.title or 'Source'}: {credits.source}" if credits.source else ""),
        ("dataCollectionMissingData", _missing(samples)),
        ("dataUseCases", f"Benchmark: {title}"),
        *(("dataPreprocessingProtocol", text) for text in _recipe(folder)),
        *(("dataBiases", text) for text in _shortcuts(folder)),
    ):
        if text:
            facts.setdefault(name, []).append(" ".join(text.split()))
    return {f"rai:{name}": "\n".join(texts) if name in ONE else texts for name, texts in sorted(facts.items())}


def _missing(samples: pa.Table) -> str:
    without = samples["image_id"].null_count
    unanswerable = pc.sum(pc.invert(samples["answerable"])).as_py() or 0
    return f"{without:,} of {samples.num_rows:,} questions have no image; {unanswerable:,} cannot be answered."


def _recipe(folder: Path) -> list[str]:
    path = folder.with_name(f"{folder.name}.md")
    if not path.is_file():
        return []
    head: Mapping[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8").split(FENCE, 2)[1])[KEY]
    recipe = json.dumps(head["recipe"], sort_keys=True, ensure_ascii=False)
    parents = "".join(f", from {parent['name']} at version {parent['version']}" for parent in head.get("parents", ()))
    origin = f"Made by the stage {head['made_by']} with seed {head['seed']}{parents}: {recipe}"
    return [origin, *(f"Left out: {n:,} ({reason})" for reason, n in head.get("left_out", {}).items())]


def _shortcuts(folder: Path) -> list[str]:
    path = folder.with_name(f"{folder.name}.shortcuts.parquet")
    if not path.is_file():
        return []
    rows = [row for row in read_table(path, SHORTCUTS).to_pylist() if row["category"] == "all" and row["balanced_accuracy"] is not None]
    return [
        f"A classifier that sees the {row['sees']} alone tells answerable questions from others with a balanced accuracy of "
        f"{row['balanced_accuracy']:.3f}{_interval(row)}; chance is 0.5."
        for row in rows
        if row["sees"] != "nothing"
    ]


def _interval(row: Mapping[str, Any]) -> str:
    low, high = row["balanced_low"], row["balanced_high"]
    return "" if low is None or high is None else f" ({low:.3f} to {high:.3f})"
