"""Answers of a spec in the order of the page, and the columns to filter them by."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from qualm.compiler.viewing.chunks import PackedColumn, finite, pack_column
from qualm.compiler.viewing.failures import expected_answer
from qualm.registry import option_label
from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.sample import CLEAN
from qualm.runners.reporting.text import display_name
from qualm.runners.results.results import Results

TEXT_ROWS = 1000
SAMPLE_ROWS = 1000
DETAIL_ROWS = 400
"""Approximate number of answers in a chunk of details; all answers to a question are in one chunk."""
MAX_TEXT = 1000
"""Maximum characters of an answer or question in the table and its search; the page of a sample has all."""
OF_TEXTS = ("text", "thinking", "question", "references", "choices", "sample_id", "group", "image_id", "pair_id", "answer_index")
"""Columns that are not filters."""


class AnswerTable:
    """All answers of a spec as the page lists them: by question, variant, model."""

    def __init__(self, results: Results, models: Sequence[str]) -> None:
        """Keep the results; tables are read at first use. `models` sets the order."""
        self.results, self.models = results, models

    @cached_property
    def samples(self) -> pl.DataFrame:
        answered = self._answers.select("dataset", "sample_id").unique()
        parts = [
            self.results.samples(name).with_columns(dataset=pl.lit(name)).join(answered, on=["dataset", "sample_id"], how="semi")
            for name in self.results.datasets
        ]
        return pl.concat([p for p in parts if p.height], how="diagonal_relaxed").with_row_index("sample")

    @cached_property
    def rows(self) -> pl.DataFrame:
        """Return a row per answer in page order; `sample` is its row in `samples`."""
        order = {"variant": self.variants, "model": self.models}
        placed = self._answers.join(self.samples.select("dataset", "sample_id", "sample"), on=["dataset", "sample_id"])
        ranks = [pl.col(name).replace_strict(texts, range(len(texts)), return_dtype=pl.Int32) for name, texts in order.items()]
        return placed.sort("sample", *ranks, maintain_order=True)

    @cached_property
    def variants(self) -> list[str]:
        there = self._answers["variant"].unique(maintain_order=True).to_list()
        return sorted(there, key=lambda name: name != CLEAN)

    @cached_property
    def _answers(self) -> pl.DataFrame:
        """Return all answers; an empty `text` is replaced by the label of the chosen option."""
        rows = self.results.answers(variant=None)
        if "predicted" not in rows.columns:
            return rows
        is_empty = pl.col("text").fill_null("").str.strip_chars() == ""
        chosen = rows["predicted"].drop_nulls().unique().to_list()
        labels = pl.col("predicted").replace_strict(chosen, list(map(option_label, chosen)), default=None, return_dtype=pl.String)
        return rows.with_columns(text=pl.when(is_empty & labels.is_not_null()).then(labels).otherwise("text"))

    @cached_property
    def columns(self) -> list[PackedColumn]:
        """Return the columns by which the page filters answers, each as a number per answer."""
        orders = {"model": self.models, "variant": self.variants, "dataset": self.results.datasets}
        coded = (pack_column(self.rows[name], orders.get(name)) for name in self.rows.columns if name not in (*OF_TEXTS, "sample"))
        numbers = PackedColumn("sample", None, self.rows["sample"].to_numpy().astype("<u4"))
        return [numbers, *(c for c in coded if c is not None)]

    @cached_property
    def percentiles(self) -> pl.DataFrame:
        """Return per answer, for each estimator, the share of its model's answers less uncertain."""
        return self.rows.select(
            ((pl.col(f"uncertainty[{name}]").rank("min") - 1) / pl.col(f"uncertainty[{name}]").count())
            .over("model")
            .alias(f"percentile[{name}]")
            for name in self.estimators
        )

    @cached_property
    def ids(self) -> NDArray[np.uint32]:
        """Return a 32-bit hash per question, (n,) uint32, used in page addresses."""
        return np.array([question_hash(*names) for names in self.samples.select("dataset", "sample_id").rows()], dtype="<u4")

    @property
    def questions_per_chunk(self) -> int:
        """Return the number of questions in a chunk of details, at least 1."""
        return max(1, DETAIL_ROWS * self.samples.height // max(1, self.rows.height))

    @cached_property
    def pictures(self) -> dict[str, list[str]]:
        """Return {dataset: its image ids}, in the order in which the page numbers them."""
        of: dict[str, dict[str, None]] = {name: {} for name in self.results.datasets}
        for dataset, names in self.samples.select("dataset", "image_id").rows():
            of[dataset].update(dict.fromkeys(picture_ids(names)))
        return {dataset: list(names) for dataset, names in of.items()}

    @cached_property
    def _numbers(self) -> dict[str, dict[str, int]]:
        return {dataset: {name: i for i, name in enumerate(names)} for dataset, names in self.pictures.items()}

    def questions(self, part: int) -> list[dict[str, Any]]:
        rows = self.samples.slice(part * SAMPLE_ROWS, SAMPLE_ROWS)
        return [self._question(row) for row in rows.iter_rows(named=True)]

    def texts(self, part: int) -> list[str | None]:
        return self.rows["text"].slice(part * TEXT_ROWS, TEXT_ROWS).str.slice(0, MAX_TEXT).to_list()

    def index(self) -> dict[str, Any]:
        """Return the JSON index of the answers: numbers, names, columns, chunk sizes."""
        sizes = dict(self.samples.group_by("dataset").len().rows())
        return {
            "rows": self.rows.height,
            "samples": self.samples.height,
            "datasets": [{"name": name, "samples": sizes.get(name, 0)} for name in self.results.datasets],
            "models": self.models,
            "variants": self.variants,
            "columns": [c.described for c in self.columns],
            "estimators": {name: display_name(name) for name in self.estimators},
            "text_rows": TEXT_ROWS,
            "sample_rows": SAMPLE_ROWS,
            "detail_samples": self.questions_per_chunk,
            "longest_text": MAX_TEXT,
        }

    @property
    def estimators(self) -> list[str]:
        return [name[12:-1] for name in self.rows.columns if name.startswith("uncertainty[")]

    def _question(self, row: dict[str, Any]) -> dict[str, Any]:
        fields = {
            "id": row["sample_id"],
            "question": (row["question"] or "")[:MAX_TEXT],
            "choices": row["choices"] or None,
            "answer": row["answer_index"],
            "references": row["references"] or None,
            "expected": expected_answer(row)[:MAX_TEXT] or None,
            "pictures": [self._numbers[row["dataset"]][name] for name in picture_ids(row["image_id"])] or None,
        }
        return {name: finite(value) for name, value in fields.items() if value is not None}


def question_hash(dataset: str, sample_id: str) -> int:
    """Return a 32-bit FNV-1a hash of dataset and sample id."""
    value = 0x811C9DC5
    for byte in f"{dataset}\0{sample_id}".encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
