"""Leaderboards: one table per dataset and kind of metric, every value with its interval, the best marked."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import polars as pl

from qualm.registry.sample import CLEAN, MACRO, MACRO_DATASETS
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.text import Label, between, counted, describe_coverage, display_name, heading_name, rounded, visible
from qualm.runners.scoring.measuring.labels import metric_of
from qualm.runners.scoring.rankings import ESTIMATORS, MODELS
from qualm.runners.scoring.scored_share import describe_bounds, format_share


@dataclass
class TableCell:
    """One number of a leaderboard as it is printed."""

    value: str = ""
    interval: str = ""
    rank: str = ""
    """`best`: significantly better than every other row; `lead`: statistically tied with every better one; else empty."""
    why: str = ""
    title: str = ""


@dataclass
class Column:
    """Heading of one metric's column."""

    title: str
    arrow: str = ""
    note: str = ""
    summary: str = ""


@dataclass
class Table:
    """A leaderboard with grouped columns."""

    caption: str
    groups: list[tuple[str, int]]
    columns: list[Column]
    rows: list[tuple[str, list[TableCell]]] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)
    """Per row: n, and the scored share if answers are unscored."""
    first: str = "Model"
    chance: list[str] = field(default_factory=list)
    """Per column the chance level; empty where no column has one."""

    @property
    def undefined(self) -> list[tuple[str, str]]:
        """Return (column title, reasons) of the columns with undefined values."""
        return undefined_columns([column.title for column in self.columns], [cells for _, cells in self.rows])


class HasReason(Protocol):
    """Protocol: a table cell that may be undefined, with the reason."""

    why: str


def undefined_columns(titles: Sequence[str], rows: Sequence[Sequence[HasReason]]) -> list[tuple[str, str]]:
    """Return (column title, reasons) of every column with undefined values."""
    reasons: dict[str, dict[str, None]] = {}
    for cells in rows:
        for title, cell in zip(titles, cells, strict=True):
            if cell.why:
                reasons.setdefault(title, {})[cell.why] = None
    return [(title, "; ".join(of)) for title, of in reasons.items()]


def leaderboards(results: Report, dataset: str) -> list[Table]:
    """Return the leaderboards of one dataset: answers, conformal sets, estimators."""
    labels = results.main_labels(dataset)
    kinds = [("Answers", [a for a in labels if not a.score and not a.estimator]), (say.PREDICTION_SETS, [a for a in labels if a.score])]
    tables = [_table(results, dataset, _title_with_part(title, labels, chosen), chosen) for title, chosen in kinds if chosen]
    estimated = [a for a in labels if a.estimator]
    if estimated:
        draw = _by_estimator if len({a.estimator for a in estimated}) > len(results.models) else _table
        tables.append(draw(results, dataset, _title_with_part(say.UNCERTAINTY_ESTIMATORS, labels, estimated), estimated))
    return tables


def macro_averages(results: Report) -> list[tuple[str, list[Table]]]:
    """Return (what is averaged, leaderboards) of each macro average of clean inputs."""
    clean = results.averages.filter(pl.col("variant") == CLEAN)
    boards = []
    for dataset, part in clean.select("dataset", "slice").unique(maintain_order=True).iter_rows():
        over = "" if part == "all" else say.MEAN_OVER.format(part=part.removeprefix(MACRO))
        name = say.MEAN_OVER_DATASETS.format(part=f" of the {over}" if over else "") if dataset == MACRO_DATASETS else f"{dataset}: {over}"
        boards.append((visible(name, 120), leaderboards(results.averaged(dataset, part), dataset)))
    return boards


def _by_estimator(results: Report, dataset: str, title: str, labels: list[Label]) -> Table:
    """Return a leaderboard: estimators down (best in column 1 first), models' metrics across."""
    models = models_of(results, dataset)
    metrics = list({(a.plugin, a.sweep): a for a in labels}.values())
    columns = [(m, a) for m in models for a in metrics]
    same = {(m, a.text): [(m, b) for b in labels if (b.plugin, b.sweep) == (a.plugin, a.sweep)] for m, a in columns}
    over = _row_counts(results, dataset, same)
    heads = []
    for m, a in columns:
        note = ", ".join(filter(None, (over[m, a.text], _not_ranked(results, ESTIMATORS, dataset, metric_of(a.text), m))))
        heads.append(Column(f"{a.title} {visible(a.sweep, 60)}".strip(), a.arrow, note, visible(a.summary, 300)))
    table = Table(title, [(visible(m, 60), len(metrics)) for m in models], heads, first="Estimator")
    text = {(a.plugin, a.sweep, a.estimator): a.text for a in labels}
    by_estimator = {
        a.estimator: [
            results.cells.get((m, dataset, text[k.plugin, k.sweep, a.estimator])) if (k.plugin, k.sweep, a.estimator) in text else None
            for m, k in columns
        ]
        for a in labels
    }
    best = [results.ranks(ESTIMATORS, dataset, metric_of(k.text), model=m) for m, k in columns]
    for estimator in sorted(by_estimator, key=lambda e: _order(by_estimator[e][0], columns[0][1])):
        cells = by_estimator[estimator]
        table.rows.append((display_name(estimator), [table_cell(c, of.get(estimator, "")) for c, of in zip(cells, best, strict=True)]))
        table.counts.append(format_counts([c for c in cells if c is not None]))
    return _beside_chance(table, [_chance(results, dataset, same[m, a.text]) for m, a in columns])


def _beside_chance(table: Table, levels: list[str]) -> Table:
    table.chance = levels if any(levels) else []
    return table


def _chance(results: Report, dataset: str, cells: Sequence[tuple[str, Label]]) -> str:
    """Return the chance level of some scores as text, or their range; "" if none has a level."""
    found = [results.cells.get((model, dataset, label.text)) for model, label in cells if label.estimator]
    rows = sorted((row for row in found if row and row.get("chance") is not None), key=lambda row: row["chance"])
    return " – ".join(dict.fromkeys(rounded(row, "chance") for row in (rows[:1] + rows[-1:])))


def describe_rows(results: Report, dataset: str) -> str:
    """Return a sentence on which rows the test part's columns are over; "" without any."""
    setting = next((a.setting for a in results.main_labels(dataset) if is_of_test_part(a)), "")
    if not setting:
        return ""
    of_setting = results.thresholds.filter(dataset=dataset, setting=setting)
    sizes = of_setting.group_by(["model", "score"], maintain_order=True).agg(pl.col("n_calibration", "n_test").sum())
    counts = [_span(sizes[name].to_list()) for name in ("n_calibration", "n_test")] if sizes.height else []
    of_all = of_setting.filter(pl.col("per").is_null() & (pl.col("n_groups") < pl.col("n_calibration")))
    groups = say.OF_GROUPS.format(n=_span(of_all["n_groups"].to_list())) if of_all.height else ""  # parts of one setting may share groups
    sentence = say.CALIBRATION_ROWS.format(calibrating=counts[0], groups=groups, testing=counts[1]) if counts else ""
    return say.TEST_PART_COLUMNS.format(rows=say.ROWS_OF_SETTING.format(setting=visible(setting, 60), counts=sentence))


def _title_with_part(title: str, labels: Sequence[Label], chosen: Sequence[Label]) -> str:
    """Return the title, with "test part" or "all rows" if `labels` mix both and `chosen` not."""
    if len(set(map(is_of_test_part, labels))) < 2 or len(set(map(is_of_test_part, chosen))) > 1:
        return title
    return (say.OVER_TEST_PART if is_of_test_part(chosen[0]) else say.OVER_ALL_ROWS).format(title=title)


def is_of_test_part(label: Label) -> bool:
    """Return true if a metric leaves out the rows that calibrate a conformal setting."""
    return bool(label.setting) and "rows=all" not in label.sweep


K = TypeVar("K")


def _row_counts(results: Report, dataset: str, columns: Mapping[K, list[tuple[str, Label]]]) -> dict[K, str]:
    """Return {column: "n = ..." or ""}: notes only where columns' sets of row counts differ."""
    counts = {
        key: [row["n"] for m, a in of if (row := results.cells.get((m, dataset, a.text))) and not _missing(row["value"])]
        for key, of in columns.items()
    }
    if len({(*sorted(set(c)), is_of_test_part(columns[key][0][1])) for key, c in counts.items() if c}) < 2:
        return dict.fromkeys(columns, "")
    part = {key: say.TEST_PART if is_of_test_part(of[0][1]) else "" for key, of in columns.items()}
    return {key: f"n = {_span(c)}{part[key]}" if c else "" for key, c in counts.items()}


def _order(row: dict[str, Any] | None, by: Label) -> float:
    """Return a sort key of a score row: the best first, undefined or missing last."""
    if row is None or _missing(row["value"]):
        return math.inf
    return float(row["value"]) * (1 if by.higher_is_better is False else -1)


def _table(results: Report, dataset: str, title: str, labels: list[Label]) -> Table:
    plugins = list(dict.fromkeys((a.plugin, a.sweep) for a in labels))
    labels = sorted(labels, key=lambda a: plugins.index((a.plugin, a.sweep)))
    models = models_of(results, dataset)
    grouped = any(a.score or a.estimator for a in labels)
    over = _row_counts(results, dataset, {a.text: [(m, a) for m in models] for a in labels})
    columns = [
        Column(
            display_name(a.score or a.estimator) if grouped and (a.score or a.estimator) else a.title,
            "" if grouped else a.arrow,
            ", ".join(filter(None, ("" if grouped else visible(a.sweep, 60), over[a.text], _model_note(results, dataset, a, models)))),
            visible(a.summary, 300),
        )
        for a in labels
    ]
    groups: list[tuple[str, int]] = []
    if grouped:
        for plugin, sweep in plugins:
            same = [a for a in labels if (a.plugin, a.sweep) == (plugin, sweep)]
            head = f"{heading_name(plugin)} {visible(sweep, 60)}".strip()
            groups.append((f"{head} {same[0].arrow}".strip(), len(same)))
    table = Table(title, groups, columns)
    best = {a.text: results.ranks(MODELS, dataset, a.text) for a in labels}
    for model in models:
        scores = [results.cells.get((model, dataset, a.text)) for a in labels]
        table.rows.append((model, [table_cell(c, best[a.text].get(model, "")) for a, c in zip(labels, scores, strict=True)]))
        table.counts.append(format_counts([c for c in scores if c is not None]))
    return _beside_chance(table, [_chance(results, dataset, [(m, a) for m in models]) for a in labels])


def models_of(results: Report, dataset: str) -> list[str]:
    """Return the models that were scored on a dataset, in the order of the page."""
    scored = {model for model, of, _ in results.cells if of == dataset}
    return [model for model in results.models if model in scored]


def _missing(value: float | None) -> bool:
    return value is None or math.isnan(value)


def table_cell(row: dict[str, Any] | None, rank: str) -> TableCell:
    """Return a score row as a table cell, with its interval and rank mark; a dash for None."""
    if row is None:
        return TableCell("–", title=say.NOT_MEASURED_FOR_MODEL)
    if _missing(row["value"]):
        why = "; ".join(filter(None, (visible(row["why"] or say.NO_REASON, 300), describe_bounds(row))))
        return TableCell("undefined", why=why, title=f"{why}; {counted(row)}")
    interval = "; ".join(filter(None, (between(row) or say.NO_INTERVAL, describe_bounds(row))))
    return TableCell(rounded(row), interval, rank, title="; ".join(filter(None, (counted(row), describe_coverage(row)))))


def format_counts(cells: list[dict[str, Any]]) -> str:
    """Return n or its range, of defined values if any, with the least share if unscored."""
    cells = [c for c in cells if not _missing(c["value"])] or cells
    if not cells:
        return "–"
    n = _span([c["n"] for c in cells])
    if not any(c["n_unscored"] for c in cells):
        return n
    shares = [share for c in cells if (share := c.get("scored_share")) is not None]
    unscored = max(c["n_unscored"] for c in cells)
    return f"{n}, {f'{format_share(min(shares))} scored' if shares else f'{unscored:,} unscored'}"


def _model_note(results: Report, dataset: str, label: Label, models: Sequence[str]) -> str:
    """Return why models are not ranked by a metric; "" if they are."""
    biased = label.compared_by and len(models) > 1
    return _not_ranked(results, MODELS, dataset, label.text) or (say.NOT_RANKED_BIASED if biased else "")


def _not_ranked(results: Report, among: str, dataset: str, metric: str, model: str = "") -> str:
    """Return a note if unequal scored shares keep the candidates unranked; else ""."""
    rows = results.candidates(among, dataset, metric, model=model)
    return say.STATE_UNEQUAL if rows and rows[0]["not_comparable"] else ""


def _span(values: Sequence[int]) -> str:
    return f"{min(values):,}" if min(values) == max(values) else f"{min(values):,}–{max(values):,}"
