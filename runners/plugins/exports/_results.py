"""Scores as tables for a paper: models by metric for each dataset, and estimators (or conformal scores) for each model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qualm.registry.sample import RANKINGS, SCORES
from qualm.runners.plugins.exports import ExportContext, ExportError
from qualm.runners.runtime.records import read_table
from qualm.runners.scoring.families import STUDY, how_corrected
from qualm.runners.scoring.measuring.labels import metric_of, of_estimator
from qualm.runners.scoring.missing.scored_share import bounds_in_words, share_in_words

BEST, PERHAPS = "best", "perhaps"
"""Significantly better than every other candidate; statistically tied with every better one."""


@dataclass(frozen=True)
class Value:
    value: float | None
    low: float | None = None
    high: float | None = None
    rank: str = ""
    """BEST, PERHAPS or ""."""


@dataclass
class ResultTable:
    name: str
    title: str
    stub: str
    """Kind of the rows."""
    dataset: str = ""
    metric: str = ""
    """Metric of all columns, if columns are models."""
    columns: list[tuple[str, bool | None]] = field(default_factory=list)
    """(head, higher is better)."""
    rows: dict[str, dict[str, Value]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, row: str, column: str, higher_is_better: bool | None, value: Value) -> None:
        """Set a cell; rows and columns keep the order of their first value."""
        if column not in dict(self.columns):
            self.columns.append((column, higher_is_better))
        self.rows.setdefault(row, {})[column] = value


def result_tables(context: ExportContext, variant: str, slice_: str) -> list[ResultTable]:
    """Return the tables of a variant and slice, else raise ExportError."""
    if "scores" not in context.results:
        raise context.without_scores()
    scores = read_table(context.results["scores"], SCORES).to_pylist()
    for what, name in (("variant", variant), ("slice", slice_)):
        if name not in (there := {row[what] for row in scores}):
            raise ExportError(f"no {what} '{name}' in these results; there are: {', '.join(sorted(there))}")
    rows = [row for row in scores if (row["variant"], row["slice"]) == (variant, slice_) and context.selects(row)]
    if not rows:
        raise ExportError(
            f"no scores of these models and data sets under variant '{variant}' and slice '{slice_}'; `qualm show` lists those there are"
        )
    ranks = _ranks(context, variant, slice_)
    tables: dict[str, ResultTable] = {}
    for row in rows:
        plain = metric_of(row["label"])
        score = row["nonconformity"] and f"{row['conformal']}/{row['nonconformity']}"
        of = row["estimator"] or score or row["calibrator"]
        if of is None:
            table = _table(tables, f"{row['dataset']}", f"{row['dataset']}: models", "model", row, "")
            place = (row["model"], row["label"])
        else:
            kind = "estimator" if row["estimator"] else "conformal score" if score else "calibrator"
            where = plain if not row["estimator"] or not row["conformal"] else f"{plain}[{row['conformal']}]"
            table = _table(tables, f"{row['dataset']}-{where}", f"{row['dataset']}: {where} by {kind}", kind, row, where)
            place = (of, row["model"])
        rank = ranks.get((row["dataset"], row["label"], row["model"]), "")
        table.add(*place, row["higher_is_better"], Value(row["value"], row["low"], row["high"], rank))
    return list(tables.values())


def _table(tables: dict[str, ResultTable], name: str, title: str, stub: str, row: dict[str, Any], metric: str) -> ResultTable:
    if name not in tables:
        tables[name] = ResultTable(name, title, stub, row["dataset"], metric)
    own, note = tables[name], _interval_method(row)
    if note and note not in own.notes:
        own.notes.append(note)
    return own


def _interval_method(row: dict[str, Any]) -> str:
    if row["level"] is None or row["n_groups"] is None:
        return ""
    resamples = f", {row['n_resamples']:,} resamples" if row["n_resamples"] else ""
    share = row["scored_share"]
    bounds = f"; {text}" if (text := bounds_in_words(row)) else ""
    scored = f", scored {share_in_words(share)}{bounds}" if share is not None and share < 1 else ""
    return f"{row['level']:.0%} intervals over {row['n_groups']:,} groups of questions ({row['n']:,} questions{resamples}{scored})"


def _ranks(context: ExportContext, variant: str, slice_: str) -> dict[tuple[str, str, str], str]:
    """Return (dataset, metric's label, model or estimator) -> BEST or PERHAPS.

    Models that were asked a part of the questions have their own ranking; of several for one column the largest is used.
    """
    if "rankings" not in context.results:
        return {}
    ranks: dict[tuple[str, str, str], str] = {}
    rows = read_table(context.results["rankings"], RANKINGS).to_pylist()
    sizes: dict[tuple[Any, ...], int] = {}
    for row in rows:
        sizes[_column_of(row)] = max(sizes.get(_column_of(row), 0), row["candidates"])
    for row in rows:
        if (row["variant"], row["slice"]) != (variant, slice_) or row["among"] not in ("models", "estimators"):
            continue
        if row["candidates"] < sizes[_column_of(row)]:
            continue
        own = BEST if row["is_best"] else PERHAPS if row["may_be_best"] else ""
        if row["among"] == "models":
            ranks[row["dataset"], row["metric"], row["candidate"]] = own
        else:
            ranks[row["dataset"], of_estimator(row["metric"], row["candidate"]), row["model"]] = own
    return ranks


def _column_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[key] for key in ("dataset", "variant", "slice", "metric", "among", "model"))


def words(value: Value, digits: int, minus: str = "-") -> tuple[str, str]:
    """Format a value and its interval; the second is "" if there is none."""
    if value.value is None:
        return "undefined", ""
    number = f"{value.value:.{digits}f}".replace("-", minus)
    if value.low is None or value.high is None:
        return number, ""
    low, high = (f"{end:.{digits}f}".replace("-", minus) for end in (value.low, value.high))
    return number, f"{low} to {high}"


def legend(tables: Sequence[ResultTable], scoring: Mapping[str, Any]) -> str:
    """Explain the marks in the tables, and their tests."""
    return legend_of(tables, scoring, "Bold", "†")


def legend_of(tables: Sequence[ResultTable], scoring: Mapping[str, Any], best: str, perhaps: str) -> str:
    """Explain the two marks, if a table has them, and their tests."""
    marks = {value.rank for table in tables for row in table.rows.values() for value in row.values()}
    meanings = {BEST: f"{best}: significantly better than every other", PERHAPS: f"{perhaps}: the best, or statistically tied with it"}
    present = [text for rank, text in meanings.items() if rank in marks]
    how = how_corrected({"correction": "max_t", "family": scoring.get("family", STUDY)})
    return f"{'; '.join(present)}: by paired differences over resamples of whole groups, {how}." if present else ""


def cells(table: ResultTable) -> Iterator[tuple[str, list[Value | None]]]:
    """Yield each row's name and its values, None for a missing one."""
    for name, values in table.rows.items():
        yield name, [values.get(column) for column, _ in table.columns]
