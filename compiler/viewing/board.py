"""Make the leaderboard of a spec: scores with intervals and ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from qualm.compiler.viewing.chunks import finite
from qualm.runners.reporting.load import ALL_CLEAN, column_decimals, with_decimals
from qualm.runners.reporting.text import display_name, heading_name
from qualm.runners.results.results import Results
from qualm.runners.results.tables import labelled

SCORE_COLUMNS = (
    *("dataset", "variant", "slice", "model", "label", "metric", "parameters", "estimator", "conformal", "nonconformity", "calibrator"),
    *("value", "low", "high", "n", "n_unscored", "level", "why", "why_no_interval", "target", "band_low", "band_high", "collapsed"),
    *("chance", "scored_share", "value_if_wrong", "value_if_right", "disputed", "decimals"),
)
RANKED = ("rank", "rank_low", "rank_high", "leader", "may_be_best", "is_best", "p_adjusted", "candidates", "not_comparable")
KEY = ("dataset", "variant", "slice", "family", "among", "of", "candidate")
"""Columns that identify a ranking and a candidate in it."""
MODELS, ESTIMATORS = "models", "estimators"


def board(results: Results) -> dict[str, Any]:
    """Return the leaderboard as JSON values: packed columns of scores and ranks, and titles."""
    scores = ranked(results)
    rows = labelled(scores.lazy()).collect()
    scores = scores.with_columns(with_decimals(rows, column_decimals(rows.filter(ALL_CLEAN)))["decimals"])
    metrics = scores.select("metric", "higher_is_better").unique(maintain_order=True).rows()
    return pack_columns(scores.to_dicts(), [name for name in (*SCORE_COLUMNS, *RANKED) if name in scores.columns]) | {
        "metrics": {name: {"title": heading_name(name), "higher_is_better": better} for name, better in metrics},
        "estimators": {name: display_name(name) for name in scores["estimator"].drop_nulls().unique(maintain_order=True)},
    }


def ranked(results: Results) -> pl.DataFrame:
    """Return the scores with rank columns, null if unranked; not added without rankings.

    The columns `family`, `among`, `of` and `candidate`, which name each score's ranking, are always added.
    """
    by_estimator = pl.col("estimator").is_not_null()
    scores = results.scores.with_columns(
        family=pl.when(by_estimator)
        .then(
            pl.col("label")
            .str.slice(0, pl.col("label").str.len_chars() - pl.col("estimator").str.len_chars() - len("]"))
            .str.replace(r"/$", "]")
            .str.strip_suffix("[")
        )
        .otherwise("label"),
        among=pl.when(by_estimator).then(pl.lit(ESTIMATORS)).otherwise(pl.lit(MODELS)),
        of=pl.when(by_estimator).then("model").otherwise(pl.lit("")),
        candidate=pl.when(by_estimator).then("estimator").otherwise("model"),
    )
    if "rankings" not in results.tables:
        return scores
    rankings = results.table("rankings").filter(pl.col("among").is_in([MODELS, ESTIMATORS]))
    places = rankings.with_columns(family="metric", of=pl.col("model").fill_null(""))
    # models that were asked only some questions have another ranking at the same place, with another leader
    ranking = [*(name for name in KEY if name != "candidate"), "leader"]
    places = places.with_columns(rank=pl.int_range(1, pl.len() + 1).over(ranking)).select(*KEY, *RANKED)
    return scores.join(places.unique(list(KEY), keep="first"), on=list(KEY), how="left", maintain_order="left")


def pack_columns(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> dict[str, Any]:
    """Return {"n", "columns": {name: values}} of rows; texts as codes into a list.

    >>> pack_columns([{"a": "x", "b": 1}, {"a": None, "b": 2}], ("a", "b"))
    {'n': 2, 'columns': {'a': {'texts': ['x'], 'codes': [0, -1]}, 'b': [1, 2]}}
    """
    return {"n": len(rows), "columns": {name: _coded([finite(row.get(name)) for row in rows]) for name in names}}


def _coded(values: list[Any]) -> Any:
    places = {text: i for i, text in enumerate(dict.fromkeys(v for v in values if isinstance(v, str)))}
    return {"texts": list(places), "codes": [places.get(v, -1) for v in values]} if places else values
