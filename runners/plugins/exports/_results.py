"""Scores as tables for a paper: models by metric for each dataset, and estimators (or conformal scores) for each model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qualm.registry import CLEAN
from qualm.registry.sample import RANKINGS, SCORES
from qualm.registry.text import visible
from qualm.runners.plugins.exports import ExportContext, ExportError
from qualm.runners.results.tables import scan
from qualm.runners.scoring.families import STUDY, describe_correction
from qualm.runners.scoring.measuring.labels import add_estimator, heading_name, metric_of
from qualm.runners.scoring.measuring.labels import display_name as plugin_words
from qualm.runners.scoring.scored_share import describe_bounds, format_share

BEST, PERHAPS = "best", "perhaps"
"""Significantly better than every other candidate; statistically tied with every better one."""


@dataclass(frozen=True)
class Value:
    value: float | None
    low: float | None = None
    high: float | None = None
    rank: str = ""
    """BEST, PERHAPS or ""."""
    level: float | None = None
    """Confidence level of the interval."""
    basis: str = ""
    """Numbers of questions and groups, and scored share."""


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

    def heading(self, name: str) -> str:
        """Return a model's name made visible, any other row or column as the report words it."""
        return visible(name) if name in (self.rows if self.stub == "model" else dict(self.columns)) else label_words(name)

    def add(self, row: str, column: str, higher_is_better: bool | None, value: Value) -> None:
        """Set a cell; rows and columns keep the order of their first value."""
        if column not in dict(self.columns):
            self.columns.append((column, higher_is_better))
        self.rows.setdefault(row, {})[column] = value


def result_tables(context: ExportContext, variant: str, slice_: str) -> list[ResultTable]:
    """Return tables of scores (models by metric...) of a variant and slice; else ExportError."""
    if "scores" not in context.results:
        raise context.without_scores()
    scores = scan(context.results["scores"], SCORES).collect().to_dicts()
    for what, name in (("variant", variant), ("slice", slice_)):
        if name not in (there := {row[what] for row in scores}):
            raise ExportError(f"no {what} '{name}' in these results; there are: {', '.join(sorted(there))}")
    rows = [row for row in scores if (row["variant"], row["slice"]) == (variant, slice_) and context.selects(row)]
    if not rows:
        raise ExportError(
            f"no scores of these models and datasets under variant '{variant}' and slice '{slice_}'; `qualm show` lists those there are"
        )
    ranks = _ranks(context, variant, slice_)
    tables: dict[str, ResultTable] = {}
    for row in rows:
        plain = metric_of(row["label"])
        score = row["nonconformity"] and f"{row['conformal']}/{row['nonconformity']}"
        of = row["estimator"] or score or row["calibrator"]
        if of is None:
            table = _table(tables, f"{row['dataset']}", "models by metric", "model", row, "")
            place = (row["model"], row["label"])
        else:
            kind = "estimator" if row["estimator"] else "conformal score" if score else "calibrator"
            where = plain if not row["estimator"] or not row["conformal"] else f"{plain}[{row['conformal']}]"
            table = _table(tables, f"{row['dataset']}-{where}", f"{label_words(where)} by {kind} and model", kind, row, where)
            place = (of, row["model"])
        rank = ranks.get((row["dataset"], row["label"], row["model"]), "")
        table.add(*place, row["higher_is_better"], Value(row["value"], row["low"], row["high"], rank, row["level"], _basis(row)))
    return list(tables.values())


def label_words(label: str) -> str:
    """Return the report's display name of a metric label, estimator or conformal score.

    >>> label_words("ece@bins=5[split_half]"), label_words("uncertainty_aware_accuracy"), label_words("split_half/lac")
    ('ECE@bins=5 [split half]', 'UAcc', 'split half/LAC')
    """
    plugin, bracket, inside = label.removesuffix("]").partition("[")
    text = "/".join(heading_name(part) for part in plugin.split("/"))
    return f"{text} [{'/'.join(plugin_words(part) for part in inside.split('/'))}]" if bracket else text


def _table(tables: dict[str, ResultTable], name: str, what: str, stub: str, row: dict[str, Any], metric: str) -> ResultTable:
    if name not in tables:
        under = "" if row["variant"] == CLEAN else f" under {row['variant']}"
        of = "" if row["slice"] == "all" else f", {row['slice']}"
        tables[name] = ResultTable(name, visible(f"{row['dataset']}{under}{of}: {what}"), stub, row["dataset"], metric)
    return tables[name]


def _basis(row: dict[str, Any]) -> str:
    unscored = f", {row['n_unscored']:,} of them unscored" if row["n_unscored"] else ""
    groups = f" in {row['n_groups']:,} groups" if row["n_groups"] else ""
    share = row["scored_share"]
    bounds = f"; {text}" if (text := describe_bounds(row)) else ""
    scored = f" (scored {format_share(share)}{bounds})" if share is not None and share < 1 else ""
    return f"{row['n'] + row['n_unscored']:,} questions{unscored}{groups}{scored}"


def _ranks(context: ExportContext, variant: str, slice_: str) -> dict[tuple[str, str, str], str]:
    """Return (dataset, metric label, model) -> BEST, PERHAPS or ""; {} without rankings.

    Models that were asked a part of the questions have their own ranking; of several for one column the largest is used.
    """
    if "rankings" not in context.results:
        return {}
    ranks: dict[tuple[str, str, str], str] = {}
    rows = scan(context.results["rankings"], RANKINGS).collect().to_dicts()
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
            ranks[row["dataset"], add_estimator(row["metric"], row["candidate"]), row["model"]] = own
    return ranks


def _column_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[key] for key in ("dataset", "variant", "slice", "metric", "among", "model"))


def format_value(value: Value, digits: int, minus: str = "-") -> tuple[str, str]:
    """Return (value, interval) as texts: "undefined" if there is no value, "" if no interval."""
    if value.value is None:
        return "undefined", ""
    number = f"{value.value:.{digits}f}".replace("-", minus)
    if value.low is None or value.high is None:
        return number, ""
    low, high = (f"{end:.{digits}f}".replace("-", minus) for end in (value.low, value.high))
    return number, f"{low} to {high}"


@dataclass(frozen=True)
class Marks:
    """Words by which a table or figure marks best values, ties and intervals."""

    best: str = "Bold"
    tied: str = "†"
    interval: str = "In parentheses"


IN_TABLES = Marks()


def caption(table: ResultTable, scoring: Mapping[str, Any], intervals: bool = True, marks: Marks = IN_TABLES) -> str:
    """Return a table's caption: dataset, question counts, interval level, meaning of marks.

    Args:
        intervals: whether the table shows intervals.
    """
    values = [value for row in table.rows.values() for value in row.values()]
    levels = sorted({f"{value.level:.0%}" for value in values if value.low is not None and value.level is not None})
    directions = {better for _, better in table.columns if better is not None}
    arrows = {(True,): "↑: higher is better", (False,): "↓: lower is better", (False, True): "↑ (↓): higher (lower) is better"}
    sentences = [
        table.title,
        _bases(table),
        f"{marks.interval}: {' and '.join(levels)} intervals" if intervals and levels else "",
        arrows.get(tuple(sorted(directions)), ""),
        _ranking(values, scoring, marks),
    ]
    return ". ".join(filter(None, sentences)) + "."


def _bases(table: ResultTable) -> str:
    """Return a phrase with the numbers of questions and groups, by column or row if unequal."""
    places: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row, values in table.rows.items():
        for column, value in values.items():
            places[value.basis].append((table.heading(row), table.heading(column)))
    if len(places) == 1:
        return next(iter(places))
    for side in (1, 0):
        names = {basis: list(dict.fromkeys(place[side] for place in cells)) for basis, cells in places.items()}
        if sum(map(len, names.values())) == len({name for of in names.values() for name in of}):
            break
    else:
        names = {basis: [f"{column} of {row}" for row, column in cells] for basis, cells in places.items()}
    return "; ".join(f"{', '.join(of)}: {basis}" for basis, of in names.items())


def _ranking(values: Sequence[Value], scoring: Mapping[str, Any], marks: Marks) -> str:
    """Return a sentence that explains the marks of the best values and their tests; or ""."""
    ranks = {value.rank for value in values}
    meanings = {
        BEST: f"{marks.best}: significantly better than every other",
        PERHAPS: f"{marks.tied}: the best, or statistically tied with it",
    }
    present = [text for rank, text in meanings.items() if rank in ranks]
    how = describe_correction({"correction": "max_t", "family": scoring.get("family", STUDY)})
    return f"{'; '.join(present)} (paired differences over resamples of whole groups, {how})" if present else ""


def cells(table: ResultTable) -> Iterator[tuple[str, list[Value | None]]]:
    """Yield (display name, values in column order) per row; None for a missing value."""
    for name, values in table.rows.items():
        yield table.heading(name), [values.get(column) for column, _ in table.columns]
