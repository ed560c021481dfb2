"""Leaderboards: one table per dataset and kind of metric, every value with its interval, the best told apart."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from runners.reporting.load import Results
from runners.reporting.text import Label, between, counted, number, titled, visible, why_undefined, words


@dataclass
class Cell:
    """One number of a table as it is printed."""

    value: str = ""
    interval: str = ""
    rank: str = ""
    """`best`: ahead of every other interval; `lead`: the best value, but an interval reaches it; else empty."""
    why: str = ""
    """Why the value is undefined."""
    title: str = ""


@dataclass
class Column:
    """One metric, under the heading of its group."""

    title: str
    arrow: str = ""
    note: str = ""
    summary: str = ""


@dataclass
class Table:
    """A table with grouped columns."""

    caption: str
    groups: list[tuple[str, int]]
    columns: list[Column]
    rows: list[tuple[str, list[Cell]]] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)
    """Per row: n, and n_unscored in brackets."""
    first: str = "Model"
    """What the rows are."""


def leaderboards(results: Results, dataset: str) -> list[Table]:
    """Tables of one dataset: the answers themselves, then the conformal sets, then the estimators."""
    labels = results.main_labels(dataset)
    kinds = [("Answers", [a for a in labels if not a.score and not a.estimator]), ("Prediction sets", [a for a in labels if a.score])]
    tables = [_table(results, dataset, title, chosen) for title, chosen in kinds if chosen]
    estimated = [a for a in labels if a.estimator]
    if len({a.estimator for a in estimated}) > len(results.models):
        tables.append(_by_estimator(results, dataset, "Uncertainty estimators", estimated))
    elif estimated:
        tables.append(_table(results, dataset, "Uncertainty estimators", estimated))
    return tables


def _by_estimator(results: Results, dataset: str, title: str, labels: list[Label]) -> Table:
    """A row for each estimator, the best first: where there are more of them than models, the other way round is too wide to read."""
    models = ranked(results, dataset, results.headline(dataset, 1)[:1])
    metrics = list({(a.plugin, a.sweep): a for a in labels}.values())
    columns = [(m, a) for m in models for a in metrics]
    heads = [Column(f"{a.title} {visible(a.sweep, 60)}".strip(), a.arrow, "", visible(a.summary, 300)) for _, a in columns]
    table = Table(title, [(visible(m, 60), len(metrics)) for m in models], heads, first="Estimator")
    text = {(a.plugin, a.sweep, a.estimator): a.text for a in labels}
    found = {
        a.estimator: [
            results.cells.get((m, dataset, text[k.plugin, k.sweep, a.estimator])) if (k.plugin, k.sweep, a.estimator) in text else None
            for m, k in columns
        ]
        for a in labels
    }
    best = [_leaders({e: row for e, cells in found.items() if (row := cells[i])}, k.higher_is_better) for i, (_, k) in enumerate(columns)]
    for estimator in sorted(found, key=lambda e: _order(found[e][0], columns[0][1])):
        cells = found[estimator]
        table.rows.append((words(estimator), [_cell(c, of.get(estimator, "")) for c, of in zip(cells, best, strict=True)]))
        table.counts.append(_counts([c for c in cells if c is not None]))
    return table


def _order(row: dict[str, Any] | None, by: Label) -> float:
    """Where a row stands among others: the best first, undefined ones last."""
    if row is None or _missing(row["value"]):
        return math.inf
    return float(row["value"]) * (1 if by.higher_is_better is False else -1)


def _table(results: Results, dataset: str, title: str, labels: list[Label]) -> Table:
    plugins = list(dict.fromkeys((a.plugin, a.sweep) for a in labels))
    labels = sorted(labels, key=lambda a: plugins.index((a.plugin, a.sweep)))
    models = ranked(results, dataset, results.headline(dataset, 1)[:1] or labels[:1])
    grouped = any(a.score or a.estimator for a in labels)
    columns = [
        Column(
            words(a.score or a.estimator) if grouped and (a.score or a.estimator) else a.title,
            "" if grouped else a.arrow,
            "" if grouped else visible(a.sweep, 60),
            visible(a.summary, 300),
        )
        for a in labels
    ]
    groups: list[tuple[str, int]] = []
    if grouped:
        for plugin, sweep in plugins:
            same = [a for a in labels if (a.plugin, a.sweep) == (plugin, sweep)]
            head = f"{titled(plugin)} {visible(sweep, 60)}".strip()
            groups.append((f"{head} {same[0].arrow}".strip(), len(same)))
    table = Table(title, groups, columns)
    best = {a.text: _best(results, dataset, a) for a in labels}
    for model in models:
        found = [results.cells.get((model, dataset, a.text)) for a in labels]
        table.rows.append((model, [_cell(c, best[a.text].get(model, "")) for a, c in zip(labels, found, strict=True)]))
        table.counts.append(_counts([c for c in found if c is not None]))
    return table


def ranked(results: Results, dataset: str, by: list[Label]) -> list[str]:
    """Models of a dataset, the best by one metric first; undefined values last, in the order of the spec."""
    models = [m for m in results.models if any(d == dataset and m == n for n, d, _ in results.cells)]
    if not by:
        return models
    return sorted(models, key=lambda m: _order(results.cells.get((m, dataset, by[0].text)), by[0]))


def _missing(value: float | None) -> bool:
    return value is None or math.isnan(value)


def _best(results: Results, dataset: str, label: Label) -> dict[str, str]:
    rows = {m: c for m in results.models if (c := results.cells.get((m, dataset, label.text)))}
    return _leaders(rows, label.higher_is_better)


def _leaders(found: dict[str, dict[str, Any]], higher_is_better: bool | None) -> dict[str, str]:
    """Who leads, where there is a direction and somebody to lead; `best` only if no other interval reaches it."""
    rows = {name: row for name, row in found.items() if not _missing(row["value"])}
    if higher_is_better is None or len(rows) < 2:
        return {}
    sign = 1.0 if higher_is_better else -1.0
    top = max(sign * r["value"] for r in rows.values())
    leaders = [m for m, r in rows.items() if sign * r["value"] == top]
    if len(leaders) > 1:
        return {} if len(leaders) == len(rows) else dict.fromkeys(leaders, "lead")
    leader = leaders[0]
    near, far = ("low", "high") if higher_is_better else ("high", "low")
    edge = rows[leader][near]
    others = [rows[m][far] for m in rows if m != leader]
    clear = not _missing(edge) and all(not _missing(o) and sign * o < sign * edge for o in others)
    return {leader: "best" if clear else "lead"}


def _cell(row: dict[str, Any] | None, rank: str) -> Cell:
    if row is None:
        return Cell("–", title="not measured for this model")
    if _missing(row["value"]):
        return Cell("undefined", why=why_undefined(row["n"], row["n_unscored"]), title=counted(row))
    return Cell(number(row["value"]), between(row) or "no interval", rank, title=counted(row))


def _counts(cells: list[dict[str, Any]]) -> str:
    def span(key: str) -> str:
        values = [c[key] for c in cells]
        return f"{min(values):,}" if min(values) == max(values) else f"{min(values):,}–{max(values):,}"

    return f"{span('n')} ({span('n_unscored')})" if cells else "–"
