"""The figure of the first screen: models by quality and estimators by AUROC, with simultaneous intervals."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qualm.registry import baseline_model
from qualm.runners.reporting import charts
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.chance import is_no_better_than_chance
from qualm.runners.reporting.figures import Figure, Panel, brief, heading
from qualm.runners.reporting.findings import MAX_NAMED, RANKS, estimator_values, image_seeing_models, unseen_by
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.marks import is_finite
from qualm.runners.reporting.text import Label, decimals, display_name, visible
from qualm.runners.runtime.colours import ACCENT, MUTED, SERIES
from qualm.runners.scoring.rankings import ESTIMATORS, MODELS

MAX_PANELS = 12
MAX_ROWS = 12
CHANCE = 0.5
"""AUROC of an uninformative uncertainty."""
STATES = {
    "lead": (ACCENT, say.STATE_LEAD),
    "behind": (MUTED, say.STATE_BEHIND),
    "not compared": (SERIES[1], say.STATE_NOT_COMPARED),
    "unequal": (SERIES[1], say.STATE_UNEQUAL),
    "unranked": (SERIES[1], say.STATE_UNRANKED),
    "inverted": (MUTED, say.STATE_INVERTED),
}


def findings_figure(results: Report) -> Figure | None:
    """Return a figure of models by quality and estimators by AUROC; None without values.

    Models come first, then panels with significant differences. Models without a ranking have their own intervals.
    """
    drawn = [panel for dataset in results.datasets for panel in _panels(results, dataset)]
    drawn = drawn or [panel for dataset in results.datasets for panel in _unranked(results, dataset)]
    if not drawn:
        return None
    drawn.sort(key=lambda panel: (panel[0] != "Models", len({row["state"] for row in panel[2]}) < 2))
    kinds = [kind for kind in ("Models", "estimators") if any(kind == of for of, _, _ in drawn)]
    rows = [row for _, _, of in drawn[:MAX_PANELS] for row in of[:MAX_ROWS]]
    simultaneous = any(row["state"] not in ("not compared", "unranked") for row in rows)
    caption = [say.DOT_AND_LINE.format(interval=say.SIMULTANEOUS_INTERVAL if simultaneous else say.INTERVAL)]
    if any(row["blind"] for row in rows):
        caption.append(say.RING.format(unseen=unseen_by([row["name"] for row in rows if row["blind"]])))
    if "estimators" in kinds:
        caption.append(say.DASHED_CHANCE)
    if longest := max((len(of) for _, _, of in drawn if len(of) > MAX_ROWS), default=0):
        caption.append(say.BEST_ROWS_SHOWN.format(shown=MAX_ROWS, n=longest))
    legend = [STATES[state] for state in STATES if any(row["state"] == state for row in rows)]
    title = say.BEST_FIRST.format(kinds=" and ".join(kinds))
    return Figure(title[0].upper() + title[1:], " ".join(caption), [panel for _, panel, _ in drawn], legend, broad=True).trimmed(MAX_PANELS)


def _panels(results: Report, dataset: str) -> Iterator[tuple[str, Panel, list[dict[str, Any]]]]:
    """Yield (kind of rows: Models or estimators, panel, its rows) of one dataset."""
    label = results.quality(dataset)
    if label and len(ranked := results.candidates(MODELS, dataset, label.text)) > 1:
        values = {model: results.value(model, dataset, label.text) for model in results.models}
        yield _panel("Models", dataset, label, say.MODELS.format(n=len(ranked)), _rows(ranked, values, label), None)
    elif len(results.models) > 1:
        yield from _unranked(results, dataset)
    for model in image_seeing_models(results)[:MAX_NAMED]:
        for metric in RANKS:
            if len(ranked := results.candidates(ESTIMATORS, dataset, metric, model=model)) > 1:
                label = Label(metric, text=metric, higher_is_better=True)
                rows = _rows(ranked, estimator_values(results, dataset, model, metric), label)
                yield _panel("estimators", dataset, label, say.ESTIMATORS_OF.format(n=len(ranked), model=brief(model)), rows, CHANCE)


def _unranked(results: Report, dataset: str) -> Iterator[tuple[str, Panel, list[dict[str, Any]]]]:
    """Yield up to one ("Models", panel, rows): models with a value, unranked, best first."""
    label = results.quality(dataset) or next(iter(results.headline(dataset, 1)), None)
    if label is None:  # all its metrics are of perturbed inputs
        return
    cells = {model: results.cells.get((model, dataset, label.text), {}) for model in results.models}
    rows = _best_first([_row(name, "unranked", cell) for name, cell in cells.items() if is_finite(cell.get("value"))], label)
    if rows:
        yield _panel("Models", dataset, label, say.MODELS_UNRANKED.format(n=len(rows), s="s" if len(rows) > 1 else ""), rows, None)


def _panel(
    kind: str, dataset: str, label: Label, note: str, rows: list[dict[str, Any]], reference: float | None
) -> tuple[str, Panel, list[dict[str, Any]]]:
    coloured = [{**row, "colour": STATES[row["state"]][0]} for row in rows[:MAX_ROWS]]
    return kind, Panel(f"{brief(dataset)} · {heading(label)}", charts.ranked_dots(coloured, reference), note), rows


def _state(row: Mapping[str, Any]) -> str:
    if row["not_comparable"]:
        return "unequal"
    if row["may_be_best"]:
        return "lead"
    return "inverted" if is_no_better_than_chance(row) else "behind"


def _rows(ranked: Sequence[Mapping[str, Any]], values: Mapping[str, float | None], label: Label) -> list[dict[str, Any]]:
    """Return rows of ranked candidates and of others with a finite value, the best first."""
    compared = [_row(row["candidate"], _state(row), row) for row in ranked]
    names = {row["name"] for row in compared}
    others = [
        _row(name, "not compared", {"value": value, "decimals": decimals(ranked[0])})
        for name, value in values.items()
        if name not in names and is_finite(value)
    ]
    return _best_first([*compared, *others], label)


def _row(name: str, state: str, of: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {key: of.get(key) for key in ("value", "low", "high", "decimals")}
    return {"name": name, "state": state, "blind": bool(baseline_model(name)), **numbers}


def _best_first(rows: Sequence[Mapping[str, Any]], label: Label) -> list[dict[str, Any]]:
    """Return the rows with their printed names, the best first."""
    sign = 1 if label.higher_is_better is False else -1
    called = display_name if label.plugin in RANKS else str
    return [{**row, "row": visible(called(row["name"]), 200)} for row in sorted(rows, key=lambda row: sign * row["value"])]
