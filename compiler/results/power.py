"""`qualm power`: the smallest difference between two models that a spec's questions can show, from stored answers or assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.text import Text

from qualm.compiler.project.checkout import Project
from qualm.compiler.results.compare import ComparisonSide, chosen_metrics, clean_cells, report_inputs, side_here
from qualm.compiler.results.tables import format_measure
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.registry import DATASETS
from qualm.registry.system.console import Console
from qualm.registry.system.grids import Grid
from qualm.registry.text import print_json

if TYPE_CHECKING:
    from qualm.runners.data.aligned import Samples
    from qualm.runners.scoring.cells import Cell
    from qualm.runners.scoring.measuring.measured import Measured, Slice
    from qualm.runners.scoring.measuring.metrics import Metric

RESAMPLES = 500
"""Enough for a spread: to a thirtieth of itself."""
NONE, UNKNOWN = "none", "unknown"


@dataclass(frozen=True)
class Assumptions:
    """Power, number of tests, and values assumed where no answers are stored."""

    power: float = 0.8
    tests: int = 1
    difference: float | None = None
    disagreement: float = 0.25
    within: float = 0.1
    questions: int | None = None
    group_size: float = 1.0

    @property
    def level(self) -> float:
        """Return the level of one test: 0.05 divided by the number of tests."""
        return 0.05 / self.tests


@dataclass(frozen=True)
class DetectableDifference:
    """Smallest difference of two models that one dataset and slice can show."""

    dataset: str
    slice: str
    metric: str
    questions: int
    groups: int
    source: str
    """`answers` or `assumed`."""
    pairs: int
    """Number of pairs of models with a measured spread."""
    standard_error: float | None
    """Standard error of the difference of two models, median over pairs; None if stored answers do not show it."""
    smallest_difference: float | None
    """None where no difference can be shown, or where that is not known."""
    questions_needed: int | None


def show_power(project: Project, spec: str | None, metrics: Sequence[str] | None, assumptions: Assumptions, as_json: bool) -> None:
    rows = detectable_differences(project, spec, metrics, assumptions)
    if as_json:
        print_json({"level": assumptions.level, **asdict(assumptions), "rows": [asdict(row) for row in rows]})
        return
    print_power(rows, assumptions, Console())


def detectable_differences(
    project: Project, spec: str | None, metrics: Sequence[str] | None, assumptions: Assumptions
) -> list[DetectableDifference]:
    """Return detectable differences by dataset, slice and metric, from answers or assumptions.

    Accuracy unless `metrics` names others. Where fewer than two models answered, assumptions stand for answers, about accuracy alone.

    Raises:
        ProjectError: neither answers nor samples are there, and no number of questions was named.
    """
    side = side_here(project, spec)
    models = {name: name for name in side.results.models}
    report_inputs((side, models))
    try:
        cells = clean_cells(side, models)
    except ProjectError:
        cells = {}
    rows: list[DetectableDifference] = []
    by_dataset: dict[str, list[Cell]] = {}
    for (_, dataset), cell in cells.items():
        by_dataset.setdefault(dataset, []).append(cell)
    for dataset in side.results.datasets:
        if len(by_dataset.get(dataset, [])) > 1:
            rows += _from_answers(side, by_dataset[dataset], metrics or ["accuracy"], assumptions)
        else:
            rows += _assumed(side, dataset, assumptions)
    return rows


def _from_answers(
    side: ComparisonSide, cells: Sequence[Cell], names: Sequence[str], assumptions: Assumptions
) -> list[DetectableDifference]:
    from qualm.runners.runtime.threads import one_thread
    from qualm.runners.scoring.measuring.metrics import read_metrics

    metrics = read_metrics(chosen_metrics(_with_accuracy(side), names))
    with one_thread():
        return [
            row
            for part in _slices(side, cells[0].samples, RESAMPLES)
            for metric in metrics
            for row in _spreads(part, metric, cells, assumptions)
        ]


def _with_accuracy(side: ComparisonSide) -> list[dict[str, Any]]:
    """Return the spec's metrics, and `accuracy` if none of them is."""
    metrics: list[dict[str, Any]] = side.results.stage.params["metrics"]
    return (
        metrics if any(m["plugin"] == "accuracy" for m in metrics) else [*metrics, {"label": "accuracy", "plugin": "accuracy", "args": {}}]
    )


def _spreads(part: Slice, metric: Metric, cells: Sequence[Cell], assumptions: Assumptions) -> list[DetectableDifference]:
    """Return what is detectable per label of a metric, by resamples; [] below two models."""
    import numpy as np

    from qualm.runners.scoring.measuring.evaluate import evaluate

    by_label: dict[str, list[Measured]] = {}
    for cell in cells:
        for label, measured in evaluate([metric], cell, part, every=True):
            if measured.n and not np.isnan(measured.value):
                by_label.setdefault(label, []).append(measured)
    rows = []
    for label, of in by_label.items():
        groups = min(part.bootstrap.groups if one.groups is None else one.groups for one in of)
        small = (groups / (groups - 1)) ** 0.5 if groups > 1 else 1.0
        errors = [float(np.nanstd(a.resampled - b.resampled)) * small for a, b in combinations(of, 2)]
        if errors:
            where = (of[0].n, groups, median(errors), len(errors))
            rows.append(_reach(cells[0].samples.name, part.label, label, "answers", where, assumptions))
    return rows


def _assumed(side: ComparisonSide, dataset: str, assumptions: Assumptions) -> list[DetectableDifference]:
    from qualm.runners.data.splits import read_scored
    from qualm.runners.scoring.power import standard_error

    parts: list[tuple[str, int, int]] = []
    if assumptions.questions is not None:
        parts = [("all", assumptions.questions, max(1, round(assumptions.questions / assumptions.group_size)))]
    else:
        stage = side.results.located_stage()
        try:
            samples = read_scored(stage, dataset, stage.inputs["datasets"][dataset])
        except ProjectError as error:
            raise ProjectError(
                f"{dataset}: neither answers nor samples are here; name a number by --questions, or build the data with "
                f"`qualm run {stage.spec}`"
            ) from error
        parts = [(part.label, len(part.rows), part.bootstrap.groups) for part in _slices(side, samples, 0)]
    rows = []
    for label, n, groups in parts:
        spread = standard_error(n, n / groups, assumptions.disagreement, assumptions.within)
        rows.append(_reach(dataset, label, "accuracy", "assumed", (n, groups, spread, 0), assumptions))
    return rows


def _slices(side: ComparisonSide, samples: Samples, times: int) -> list[Slice]:
    from qualm.runners.scoring.measuring.slices import make_slices

    params = side.results.stage.params
    # What a macro average varies by is known from answers alone, for which there are resamples.
    averaged = [name for name in params.get("macro_averages", []) if name != DATASETS] if times else []
    return make_slices(samples, params.get("slices", []), times, side.results.stage.seed, averaged)


def _reach(
    dataset: str, part: str, metric: str, source: str, where: tuple[int, int, float, int], assumptions: Assumptions
) -> DetectableDifference:
    from qualm.runners.scoring.limits import FLAT, MIN_GROUPS
    from qualm.runners.scoring.power import questions_needed, smallest_difference

    n, groups, error, pairs = where
    if groups < MIN_GROUPS or error <= FLAT:  # models that answer alike show no spread, which is not one of 0
        return DetectableDifference(dataset, part, metric, n, groups, source, pairs, None, None, None)
    difference = smallest_difference(error, groups, assumptions.level, assumptions.power)
    needed = None
    if assumptions.difference:
        needed = questions_needed(assumptions.difference, n, groups, error, assumptions.level, assumptions.power)
    return DetectableDifference(dataset, part, metric, n, groups, source, pairs, error, difference, needed)


def print_power(rows: Sequence[DetectableDifference], assumptions: Assumptions, console: Console) -> None:
    """Print a table per dataset and metric, with a row per slice, and notes."""
    for dataset, metric in dict.fromkeys((row.dataset, row.metric) for row in rows):
        columns = ["n", "groups", "standard error", "smallest difference"] + (["needed"] if assumptions.difference else [])
        grid = Grid([("slice", "left"), *((name, "right") for name in columns)], Text(f"{dataset} · {metric}", style="bold"))
        here = [row for row in rows if (row.dataset, row.metric) == (dataset, metric)]
        for row in here:
            difference = _difference(row, assumptions)
            error = UNKNOWN if row.standard_error is None else format_measure(row.standard_error)
            needed = [f"{row.questions_needed:,}" if row.questions_needed else "?"] if assumptions.difference else []
            grid.add(row.slice, f"{row.questions:,}", f"{row.groups:,}", error, difference, *needed)
        grid.print(console)
        console.print(Text(_from(here[0], assumptions), style="dim"))
        console.print()
    from qualm.runners.scoring.limits import MIN_GROUPS

    note = say.DETECTED.format(power=assumptions.power, level=assumptions.level)
    family = say.DETECTED_TESTS.format(n=assumptions.tests) if assumptions.tests > 1 else say.DETECTED_ONE_TEST
    console.print(Text(note + family, style="dim"))
    differences = {_difference(row, assumptions) for row in rows}
    if NONE in differences:
        console.print(Text(say.POWER_NONE.format(groups=MIN_GROUPS), style="dim"))
    if UNKNOWN in differences or any(row.source == "answers" and row.standard_error is None for row in rows):
        console.print(Text(say.POWER_UNKNOWN, style="dim"))


def _difference(row: DetectableDifference, assumptions: Assumptions) -> str:
    """Return the smallest detectable difference, "none" if groups are too few, or "unknown"."""
    if row.smallest_difference is not None:
        return format_measure(row.smallest_difference)
    from qualm.runners.scoring.limits import MIN_GROUPS

    return NONE if row.groups < MIN_GROUPS else UNKNOWN


def _from(row: DetectableDifference, assumptions: Assumptions) -> str:
    if row.source == "answers":
        return say.SPREAD_OF_ANSWERS.format(pairs=say.count(row.pairs, "pair of models", "pairs of models"))
    return say.SPREAD_ASSUMED.format(disagreement=assumptions.disagreement, within=assumptions.within)
