"""Separation of uncertain from clear questions: VLM-UQBench's Tables 2, 3 and 4.

Wang, Chen, Ahmad, Batmanghelich, Li. A dataset says which of its questions are uncertain (`uncertain:`), and may be asked a second time
whether they are (`ask_answerable:`); estimators then stand beside what models say when they are asked outright.
"""

from dataclasses import dataclass
from typing import Any

from qualm.registry import ASKED
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.heat import HeatCell, HeatMap, shade, split_heat_map
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.section import Section
from qualm.runners.reporting.sections.data_sets import Sheet
from qualm.runners.reporting.text import aside, between, counted, display_name, number, rounded, visible
from qualm.runners.scoring.rankings import ESTIMATORS

AUROC, F1, FLOOR, SAID = "auroc_uncertain", "best_f1", "best_f1_floor", "f1_uncertain"

Row = dict[str, Any]


@dataclass(frozen=True)
class UncertainQuestions:
    subsets: list[HeatMap]
    """Estimators against datasets, a table per model and width of the page."""
    asked: list[Sheet]
    """The best estimator beside ways of asking, a table per dataset that is asked about."""


def uncertain_questions(results: Report) -> UncertainQuestions | None:
    """Return tables that set uncertain against clear questions; None if there is none to show."""
    metas = {d: results.samples[d]["meta"].to_list() for d in results.datasets if d in results.samples}
    about = {d for d, of in metas.items() if any(ASKED in dict(meta or ()) for meta in of)}
    plain = [d for d in results.datasets if d not in about and any(_rows(results, m, d, p) for m in results.models for p in (AUROC, F1))]
    subsets = [piece for model in results.models for piece in _subsets(results, model, plain)]
    asked = [sheet for d in plain if (sheet := _asked(results, d, about)) is not None]
    return UncertainQuestions(subsets, asked) if subsets or asked else None


def _rows(results: Report, model: str, dataset: str, plugin: str) -> dict[str, Row]:
    """Return estimator -> score row of a metric plugin, over all questions."""
    labels = [a for a in results.main_labels(dataset) if a.plugin == plugin and a.estimator]
    return {a.estimator: row for a in labels if (row := results.cells.get((model, dataset, a.text))) is not None}


def _subsets(results: Report, model: str, datasets: list[str]) -> list[HeatMap]:
    """Return heat maps of a model's AUROC and best F1 by estimator and dataset; [] if none."""
    columns: list[tuple[str, str]] = []
    groups: list[tuple[str, int]] = []
    lines: dict[str, list[HeatCell]] = {}
    for dataset in datasets:
        values = {plugin: _rows(results, model, dataset, plugin) for plugin in (AUROC, F1)}
        floors = {e: float(row["value"]) for e, row in _rows(results, model, dataset, FLOOR).items() if row["value"] is not None}
        for plugin, of in values.items():
            if not of:
                continue
            for estimator in of:
                lines.setdefault(estimator, [HeatCell("–", title=say.NOT_MEASURED)] * len(columns))
            rank = results.ranks(ESTIMATORS, dataset, plugin, model=model)
            for estimator, line in lines.items():
                middle = 0.5 if plugin == AUROC else floors.get(estimator, max(floors.values(), default=0.0))
                line.append(_cell(of.get(estimator), middle, rank.get(estimator, ""), plugin == F1 and estimator in floors))
            columns.append(("AUROC ↑", "") if plugin == AUROC else ("best F1 ↑", _floors(list(floors.values()))))
        if width := len([of for of in values.values() if of]):
            groups.append((visible(dataset, 60), width))
    if not columns:
        return []
    body = [(display_name(estimator), cells) for estimator, cells in lines.items()]
    return split_heat_map(HeatMap(visible(model, 60), "Estimator", columns, body, groups))


def _floors(floors: list[float]) -> str:
    """Return text: the F1 of calling all questions uncertain, or its range; "" if unknown."""
    ends = list(dict.fromkeys(number(floor) for floor in sorted(floors)))
    if len(ends) < 2:
        return say.FLOOR.format(value=ends[0]) if ends else ""
    return say.FLOORS.format(low=ends[0], high=ends[-1])


def _cell(row: Row | None, middle: float, rank: str, has_floor: bool) -> HeatCell:
    if row is None:
        return HeatCell("–", title=say.NOT_MEASURED)
    if row["value"] is None:
        return HeatCell("undefined", visible(row["why"] or "", 80), title=counted(row), undefined=True)
    heat, tone = shade(row["value"], 1 - middle if middle < 1 else 1.0, middle)
    title = counted(row) + (say.FLOOR_ON_THESE.format(floor=number(middle)) if has_floor else "")
    title += {"best": say.HIGHER_THAN_EVERY_OTHER, "lead": say.TIED_WITH_HIGHER}.get(rank, "")
    return HeatCell(rounded(row), between(row), heat, tone, title, bool(rank))


def _asked(results: Report, dataset: str, about: set[str]) -> Sheet | None:
    """Return a table: best estimator's F1 per model beside its F1 when asked; None if unasked."""
    ids = set(results.samples[dataset]["sample_id"].to_list()) if dataset in results.samples else set()
    answered = {d for model, d, metric in results.cells if metric == SAID}
    ways = [d for d in results.datasets if d in about & answered and set(results.samples[d]["sample_id"].to_list()) == ids]
    if not ways:
        return None
    rows = []
    best_floors: list[float] = []
    for model in results.models:
        of = {e: r for e, r in _rows(results, model, dataset, F1).items() if r["value"] is not None}
        best = max(of, key=lambda e: float(of[e]["value"]), default=None)
        text = "undefined" if best is None else f"{rounded(of[best])}{aside(between(of[best]))}, {display_name(best)}"
        floor = _rows(results, model, dataset, FLOOR).get(best or "")
        best_floors += [float(floor["value"])] if floor is not None and floor["value"] is not None else []
        rows.append([visible(model, 60), text, *(_said(results.cells.get((model, way, SAID))) for way in ways)])
    note = say.BEST_AGAINST_ASKING_NOTE
    if best_floors:
        ends = dict.fromkeys((number(min(best_floors)), number(max(best_floors))))
        note += say.ALL_CALLED_UNCERTAIN.format(f1=" to ".join(ends))
    header = [*say.BEST_AGAINST_ASKING_COLUMNS, *(say.ASKED.format(way=visible(way, 40)) for way in ways)]
    return Sheet(say.BEST_AGAINST_ASKING.format(dataset=visible(dataset, 60)), header, rows, note=note, wordy=True)


def _said(row: Row | None) -> str:
    if row is None:
        return "–"
    unscored = f", {row['n_unscored']:,} unscored" if row["n_unscored"] else ""
    if row["value"] is None:
        why = f"{visible(row['why'] or '', 120)}: {row['n']:,} scored{unscored}"
        return f"undefined{aside(why)}"
    return f"{rounded(row)}{aside(between(row))}{unscored}"


ASSETS = ["../templates/uncertain.html"]
SECTION = Section("uncertain", say.UNCERTAIN_QUESTIONS, uncertain_questions, "uncertain.html")
