"""What a data set holds, counted as CertainlyUncertain's Table 1 counts: pictures and questions by category and split."""

from collections.abc import Set
from pathlib import Path
from typing import Any

import polars as pl

from qualm.registry.formats.picture_lists import all_ids
from qualm.registry.sample import SAMPLES
from qualm.runners.runtime.records import read_table

FILE = "statistics.json"
VERIFICATION = "verification.json"
"""Beside it, where people decided which pairs are valid."""
ALL = "all"


def category_name(category: str | None) -> str:
    """A category as tables call it: none is empty, and one that is called as all of them together are stands in quotation marks.

    >>> category_name("a/b"), category_name(None), category_name("all")
    ('a/b', '', '“all”')
    """
    return f"“{ALL}”" if category == ALL else category or ""


COLUMNS = ["sample_id", "image_id", "category", "answerable", "split", "group", "pair_id"]
_FIRST = ("train", "val", "test")


def read_samples_of(folder: Path) -> pl.DataFrame:
    """The columns that are counted, of a dataset folder."""
    frame = pl.from_arrow(read_table(folder / "samples.parquet", SAMPLES, COLUMNS))
    assert isinstance(frame, pl.DataFrame)
    return frame


def statistics(samples: pl.DataFrame, perturbed: Set[str] = frozenset()) -> dict[str, Any]:
    """Counts of a data set, as JSON.

    Args:
        perturbed: ids of pictures that a recipe made; all others are clean.

    Returns:
        `splits` and `categories` in the order in which tables show them, and `cells[split][category]` with the distinct
        pictures (`perturbed`, `clean`), the questions (`idk`: nothing on the picture answers them; `answerable`) and the
        whole pairs. Split `all` is over the splits, category `all` over the categories; pictures are counted once in each.
    """
    marked = samples.with_columns(
        pl.col("category").fill_null("").replace(ALL, category_name(ALL)),
        pl.col("split").fill_null(""),
        pl.col("answerable").fill_null(True),
    )
    present = marked["split"].unique().to_list()
    splits = [*(s for s in _FIRST if s in present), *sorted(s for s in present if s not in _FIRST)]
    categories = sorted(marked["category"].unique().to_list())
    cells: dict[str, dict[str, Any]] = {}
    for split in (*splits, ALL):
        part = marked if split == ALL else marked.filter(pl.col("split") == split)
        cells[split] = {c: _cell(part.filter(pl.col("category") == c), perturbed) for c in categories}
        cells[split][ALL] = _cell(part, perturbed)
    return {"splits": splits, "categories": categories, "cells": cells}


def _cell(rows: pl.DataFrame, pair_ids: Set[str]) -> dict[str, int]:
    pictures = all_ids(rows["image_id"].unique().to_list())
    perturbed = len(pictures & pair_ids)
    idk = int((~rows["answerable"]).sum())
    return {
        "perturbed": perturbed,
        "clean": len(pictures) - perturbed,
        "idk": idk,
        "answerable": rows.height - idk,
        "pairs": rows["pair_id"].drop_nulls().n_unique(),
    }
