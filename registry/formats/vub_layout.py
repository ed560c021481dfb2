"""The output folder of VLM-Uncertainty-Bench (Kostumov et al., 2024): `output/RUN/DATASET.pkl`, one record per question.

Each record holds the question, four options, the answer's letter and the six logits that one model gave to the letters
A to F. The adapter takes the questions from it and the `recorded` model the logits, so both read it through here.
"""

import re
import reprlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.registry.formats.unpickle import UnpickleError, read_pickle

LETTERS = "ABCDEF"
OPTION_LETTERS = "ABCD"
"""Options that lie in the files; the two below were appended when the prompt was made and are never right."""
APPENDED = ("I don’t know", "None of the above")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class LayoutError(Exception):
    """Error of a folder or record unlike VLM-Uncertainty-Bench's output."""


def list_runs(source: Path, dataset: str) -> list[str]:
    """Return the sorted names of models with outputs for this dataset."""
    return sorted(p.parent.name for p in output_folder(source).glob(f"*/{dataset}.pkl"))


def list_all_runs(source: Path) -> list[str]:
    """Return the sorted names of models with outputs for any dataset."""
    return sorted({p.parent.name for p in output_folder(source).glob("*/*.pkl")})


def is_vub(source: Path) -> bool:
    """Return whether a folder has outputs in the layout of VLM-Uncertainty-Bench."""
    return bool(list_all_runs(source))


def output_folder(source: Path) -> Path:
    """Return the folder `output` in `source` if there is one, else `source`."""
    return source / "output" if (source / "output").is_dir() else source


def read_records(source: Path, run: str, dataset: str) -> list[dict[str, Any]]:
    """Return all records of model `run` on a dataset, in file order; else LayoutError."""
    for name in (run, dataset):
        if not _NAME.fullmatch(name):
            raise LayoutError(f"{source}: '{name}': expected a plain name of letters, digits, '.', '_' and '-'")
    path = output_folder(source) / run / f"{dataset}.pkl"
    if not path.is_file():
        raise LayoutError(_absent(source, path, run))
    try:
        records = read_pickle(path)
    except UnpickleError as error:
        raise LayoutError(str(error)) from error
    if not isinstance(records, list) or not records:
        raise LayoutError(f"{path}: expected a list of records, got {type(records).__name__} of length {len(records) if records else 0}")
    ids: set[str] = set()
    for place, record in enumerate(records):
        _check(record, f"{path}: record {place}")
        name = str(record["id"])
        if name in ids:
            raise LayoutError(f"{path}: record {place}: id {name} occurs twice")
        ids.add(name)
    return records


def logits(record: dict[str, Any]) -> NDArray[np.float64]:
    return np.asarray(record["logits"], dtype=np.float64)


def answer_index(record: dict[str, Any]) -> int:
    return OPTION_LETTERS.index(record["answer"])


def _check(record: Any, where: str) -> None:
    if not isinstance(record, dict):
        raise LayoutError(f"{where}: expected a dict, got {type(record).__name__}")
    missing = [k for k in ("id", "question", "answer", "logits", *OPTION_LETTERS) if k not in record]
    if missing:
        raise LayoutError(f"{where}: missing {', '.join(missing)}; a record of VLM-Uncertainty-Bench has all of them")
    if not isinstance(record["question"], str):
        raise LayoutError(f"{where}: question: expected text, got {reprlib.repr(record['question'])}")
    if not isinstance(record["id"], int | str):
        raise LayoutError(f"{where}: id: expected a number or text, got {reprlib.repr(record['id'])}")
    if record["answer"] not in tuple(OPTION_LETTERS):
        raise LayoutError(f"{where}: answer: expected one of {', '.join(OPTION_LETTERS)}, got {reprlib.repr(record['answer'])}")
    try:
        "".join(value for value in record.values() if isinstance(value, str)).encode()
    except UnicodeEncodeError as error:
        raise LayoutError(f"{where}: text that is not Unicode: {error}") from None
    try:
        values = logits(record)
    except (TypeError, ValueError):
        raise LayoutError(f"{where}: logits: expected six numbers, got {type(record['logits']).__name__}") from None
    if values.shape != (len(LETTERS),):
        raise LayoutError(
            f"{where}: logits: expected six numbers, one for each of {', '.join(LETTERS)}, got shape {values.shape}; which of them "
            "belongs to which option cannot be known, so the file is refused"
        )
    if not np.isfinite(values).all():
        raise LayoutError(f"{where}: logits: expected finite numbers, got {values.tolist()}")


def _absent(source: Path, path: Path, run: str) -> str:
    folder = output_folder(source)
    if not folder.is_dir():
        return f"{folder}: not a folder; expected the official layout output/RUN/DATASET.pkl"
    if not (folder / run).is_dir():
        return f"{folder / run}: no such run; there are: {', '.join(sorted(p.name for p in folder.iterdir() if p.is_dir())) or 'none'}"
    there = ", ".join(sorted(p.stem for p in (folder / run).glob("*.pkl"))) or "none"
    return f"{path}: not found; datasets of this run: {there}"
