"""Labels by people: how right they find single answers of a spec's models.

`labels.csv` of an entry has a row per label. Several labels of one answer count as their mean; a row without a rating is no label.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from qualm.registry import CLEAN
from qualm.registry.formats.text_tables import TextTableError, rows, unescape_formula
from qualm.runners.data.aligned import Floats, Samples
from qualm.runners.runtime.stage import StageError

FILE = "labels.csv"
"""The file of labels in an entry."""
COLUMNS = ("model", "dataset", "sample_id", "prediction", "rating")
"""Columns without which labels cannot be matched with answers; `variant` is optional, `clean` by default."""
AnswerSet = tuple[str, str, str]
"""Model, dataset, variant."""


class LabelError(Exception):
    """Error of a malformed file of labels; names the line, what was expected and what came."""


@dataclass(frozen=True)
class AnswerLabel:
    """A person's rating (0..1) of one answer."""

    line: int
    sample_id: str
    prediction: str
    rating: float


@dataclass
class AnswerLabels:
    """People's ratings of single answers, by (model, dataset, variant)."""

    file: Path
    by_answer_set: dict[AnswerSet, list[AnswerLabel]] = field(default_factory=dict)

    def columns(self, answer_set: AnswerSet, samples: Samples, answers: pa.Table) -> tuple[dict[str, Floats], str]:
        """Return ({`labelled`, `people_rating`: (n,)}, "") for an answer set, or ({}, why not).

        Args:
            answer_set: model, dataset and variant of the answers.
            samples: of the dataset; labels of samples that are not scored are ignored.
            answers: `sample_id` and `text` of the greedy answers.

        Raises:
            StageError: a labelled sample is not in the dataset.
        """
        labels = self.by_answer_set.get(answer_set, [])
        if not labels:
            model, dataset, variant = answer_set
            return {}, f"no answer of '{model}' to '{dataset}'{f' ({variant})' * (variant != CLEAN)} has a rating in {self.file}"
        place = {name: row for row, name in enumerate(samples.ids.to_pylist())}
        ignored = set() if samples.others is None else set(samples.others.to_pylist())
        texts = dict(zip(answers["sample_id"].to_pylist(), answers["text"].to_pylist(), strict=True))
        total, count, stale = np.zeros(samples.n), np.zeros(samples.n), list[AnswerLabel]()
        for label in labels:
            if label.sample_id in ignored:
                continue
            if label.sample_id not in place:
                raise StageError(f"{self.file}:{label.line}: sample_id: dataset '{answer_set[1]}' has no sample '{label.sample_id}'")
            if _words(texts.get(label.sample_id) or "") != _words(label.prediction):
                stale.append(label)
                continue
            total[place[label.sample_id]] += label.rating
            count[place[label.sample_id]] += 1
        if stale:
            where = f"{self.file}:{stale[0].line}"
            return {}, (
                f"{where}: {len(stale):,} of {len(labels):,} labels are of answers that have changed since, and the others are no random "
                f"sample any more; label the answers of '{answer_set[0]}' to '{answer_set[1]}' again"
            )
        rated: Floats = total / np.maximum(count, 1)
        return {"labelled": (count > 0).astype(np.float64), "people_rating": rated}, ""


def parse_rating(text: str, where: str) -> float | None:
    """Return a rating from 0 to 1; None for an empty cell.

    Raises:
        LabelError: the text is no number from 0 to 1.
    """
    try:
        rating = float(text) if text else None
    except ValueError:
        rating = math.nan
    if rating is None or 0 <= rating <= 1:
        return rating
    raise LabelError(f"{where}: rating: expected a number from 0 to 1, or nothing, got {text!r}")


def read_answer_labels(path: Path) -> AnswerLabels:
    """Read rated answers from a CSV file or folder's `labels.csv`; LabelError if none exist.

    Raises:
        LabelError: a column is missing, a key is empty, a rating is no number from 0 to 1, or no row has a rating.
    """
    labels = AnswerLabels(path / FILE if path.is_dir() else path)
    for line, row in _read(labels.file):
        where = f"{labels.file}:{line}"
        rating = parse_rating(row["rating"].strip(), where)
        if empty := [name for name in ("model", "dataset", "sample_id") if not row[name]]:
            raise LabelError(f"{where}: {empty[0]}: expected a name, got nothing")
        if rating is not None:
            cell = (row["model"], row["dataset"], row.get("variant") or CLEAN)
            labels.by_answer_set.setdefault(cell, []).append(AnswerLabel(line, row["sample_id"], row["prediction"], rating))
    if not labels.by_answer_set:
        raise LabelError(f"{labels.file}: expected a rating in some rows, found none")
    return labels


def _read(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    header: list[str] = []
    try:
        for line, cells in rows(file):
            if not header:
                header = [name.strip() for name in cells]
                if missing := [name for name in COLUMNS if name not in header]:
                    raise LabelError(
                        f"{file}: expected the columns {', '.join(COLUMNS)}; missing {', '.join(missing)}; "
                        "`qualm export SPEC FOLDER --to labels` writes such a file"
                    )
            elif len(cells) != len(header):
                raise LabelError(f"{file}:{line}: expected {len(header)} cells, got {len(cells)}")
            else:
                yield line, {name: unescape_formula(cell) for name, cell in zip(header, cells, strict=True)}
    except (TextTableError, OSError) as error:
        raise LabelError(f"{file}: expected a CSV file of labelled answers: {error}") from error


def _words(text: str) -> str:
    """Return a text with single spaces between words, as spreadsheets change white space."""
    return " ".join(text.split())
