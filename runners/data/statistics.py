"""Counts of images and questions by category and split, as in CertainlyUncertain's Table 1."""

from collections.abc import Set
from pathlib import Path
from typing import Any

import polars as pl

from qualm.registry.formats.picture_lists import all_ids
from qualm.registry.sample import SAMPLES
from qualm.runners.runtime.records import read_table

FILE = "statistics.json"
VERIFICATION = "verification.json"
"""File with the facts of a curation, if there was one."""
ALL = "all"


def category_name(category: str | None) -> str:
    """Return a category's name in tables: "" if None, `all` in quotation marks, else itself.

    >>> category_name("a/b"), category_name(None), category_name("all")
    ('a/b', '', '“all”')
    """
    return f"“{ALL}”" if category == ALL else category or ""


COLUMNS = ["sample_id", "image_id", "category", "answerable", "split", "group", "pair_id"]
_FIRST = ("train", "val", "test")


def read_counted_samples(folder: Path) -> pl.DataFrame:
    """Read the columns of a dataset folder that `statistics` counts."""
    frame = pl.from_arrow(read_table(folder / "samples.parquet", SAMPLES, COLUMNS))
    assert isinstance(frame, pl.DataFrame)
    return frame


def statistics(samples: pl.DataFrame, perturbed: Set[str] = frozenset()) -> dict[str, Any]:
    """Return counts of questions, images and pairs by split and category, as JSON.

    Args:
        perturbed: ids of images that a recipe made; all others are clean.

    Returns:
        `splits` and `categories` in the order in which tables show them, and `cells[split][category]` with the distinct
        images (`perturbed`, `clean`), the questions (`idk`: unanswerable; `answerable`) and the
        whole pairs. Split `all` is over the splits, category `all` over the categories; images are counted once in each.
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


def _cell(rows: pl.DataFrame, recipe_images: Set[str]) -> dict[str, int]:
    pictures = all_ids(rows["image_id"].unique().to_list())
    perturbed = len(pictures & recipe_images)
    idk = int((~rows["answerable"]).sum())
    return {
        "perturbed": perturbed,
        "clean": len(pictures) - perturbed,
        "idk": idk,
        "answerable": rows.height - idk,
        "pairs": rows["pair_id"].drop_nulls().n_unique(),
    }
