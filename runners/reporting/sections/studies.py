"""Studies of VLM-Uncertainty-Bench, drawn if a spec's results allow.

Amount of calibration data; whether accuracy and certainty rank models alike; effects of size and of chat tuning.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import polars as pl

from qualm.runners.reporting import charts
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.figures import Figure, Panel, brief, drawn_interval, heading, model_legend
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.section import Section
from qualm.runners.reporting.text import Label, number, signed
from qualm.runners.results.gains import turn_around
from qualm.runners.results.rank_stability import tau_b
from qualm.runners.runtime.colours import SERIES
from qualm.runners.scoring.families import verdict
from qualm.runners.scoring.measuring.labels import SHARE
from qualm.runners.scoring.paired_tests import STUDIED


def studies(results: Report) -> list[Figure]:
    """Return the figures of all studies; of each kind, all but the first are folded."""
    kinds = [calibration_share(results), ranks(results), scale(results), chat_tuning(results)]
    return [replace(figure, folded=place > 0) for of in kinds for place, figure in enumerate(of)]


def _quality(results: Report, dataset: str) -> list[Label]:
    """Return up to three labels: accuracy, set size, uncertainty-aware accuracy; if measured."""
    scored = {(a.plugin, a.score): a for a in reversed(results.main_labels(dataset))}
    fits = [[scored[plugin, score] for score in ("", "mean", "lac", "aps") if (plugin, score) in scored] for plugin in STUDIED]
    return [of[0] for of in fits if of]


def _finite(results: Report, model: str, dataset: str, label: Label) -> float | None:
    value = results.value(model, dataset, label.text)
    return value if value is not None and math.isfinite(value) else None


def calibration_share(results: Report) -> list[Figure]:
    """Return figures of coverage and set size against calibration share; [] if it is constant."""
    fractions = {s: float(m[1]) for s in results.settings if s.startswith(SHARE) and (m := re.search(r"fraction=([\d.]+)", s))}
    if len(set(fractions.values())) < 2:
        return []
    figures = []
    goals = results.thresholds.group_by("setting").first()
    alpha = dict(zip(goals["setting"], goals["alpha"], strict=True))
    for dataset in results.datasets:
        legend = model_legend(results.models, results.palette)
        figure = Figure(f"{say.CALIBRATION_SIZE}: {brief(dataset)}", say.DASHED_TARGET, legend=legend)
        for plugin, score in product(("coverage", "set_size"), ("lac", "aps")):
            if rows := _share_rows(results, dataset, plugin, score, fractions):
                goal = 1 - alpha[next(iter(fractions))] if plugin == "coverage" else None
                what = f"{plugin.replace('_', ' ')} ({score.upper()})"
                svg = charts.lines(rows, [brief(m) for m in results.palette], say.SHARE_TO_CALIBRATE, what, goal=goal)
                figure.panels.append(Panel(what, svg))
        figures += [figure] if figure.panels else []
    return figures


def _share_rows(results: Report, dataset: str, plugin: str, score: str, fractions: dict[str, float]) -> list[dict[str, Any]]:
    rows = []
    for label in results.labels.values():
        if label.plugin != plugin or label.score != score or label.setting not in fractions:
            continue
        for model in results.models:
            cell = results.cells.get((model, dataset, label.text))
            if cell and cell["value"] is not None and math.isfinite(cell["value"]):
                rows.append({"model": brief(model), "x": fractions[label.setting], **drawn_interval(cell)})
    return sorted(rows, key=lambda r: (r["model"], r["x"]))


def ranks(results: Report) -> list[Figure]:
    """Return figures that rank three models or more by two metrics: means, each dataset."""
    figures = []
    for dataset in ["", *results.datasets]:
        labels = _quality(results, dataset or results.datasets[0])
        values = _table(results, dataset, labels)
        if len(labels) < 2 or len(values) < 3 or (not dataset and len(results.datasets) < 2):
            continue
        figures.append(_ranked(dataset, labels, values))
    return figures


def _table(results: Report, dataset: str, labels: list[Label]) -> dict[str, list[float]]:
    """Return model -> values of all labels on a dataset, or their mean over datasets for "".

    Models without a finite value of each label are left out. A mean needs two datasets.
    """
    datasets = [dataset] if dataset else [d for d in results.datasets if len(_quality(results, d)) == len(labels)]
    by_model: dict[str, list[float]] = {}
    for model in results.models:
        rows = [[_finite(results, model, d, a) for a in labels] for d in datasets]
        if rows and len(datasets) > (0 if dataset else 1) and all(v is not None for r in rows for v in r):
            by_model[model] = [float(v) for v in np.mean(np.array(rows, dtype=float), axis=0)]
    return by_model


def _ranked(dataset: str, labels: list[Label], values: dict[str, list[float]]) -> Figure:
    array = np.array(list(values.values()))
    signs = np.array([-1.0 if a.higher_is_better is not False else 1.0 for a in labels])
    columns = [pl.Series(s * array[:, j] + 0.0) for j, s in enumerate(signs)]
    places, slots = (np.column_stack([c.rank(ties).to_numpy() for c in columns]).astype(float) for ties in ("min", "ordinal"))
    order = np.lexsort((np.arange(len(array)), places[:, 0]))
    models = list(values)
    edge = max(2.0, len(models) / 5)
    rise = places[:, 0] - places[:, 1]
    moved = np.where(rise >= edge, "up", np.where(rise <= -edge, "down", "level")).tolist()
    rows = []
    for i, (j, a) in product(order, enumerate(labels)):
        name, place = brief(models[i], 28), f"{places[i, j]:.0f}"
        row = {"model": brief(models[i], 80), "metric": heading(a), "place": float(slots[i, j]), "moved": moved[i]}
        rows.append(row | {"before": f"{name}   {place}", "after": f"{place}   {name}"})
    figure = Figure(f"{say.RANKS}: {brief(dataset) if dataset else 'mean of all datasets'}", wide=True)
    names = [heading_without_arrow(label) for label in labels]
    first, second = names[:2]
    higher = say.RANKS_HIGHER.format(first=second, second=first)
    figure.legend = [("var(--right)", higher), ("var(--wrong)", say.RANKS_LOWER), ("var(--muted)", say.ABOUT_THE_SAME)]
    figure.panels = [Panel("", charts.rank_lines(rows, [heading(a) for a in labels]))]
    correlations = []
    for j, name in enumerate(names[1:], 1):
        rho = pl.select(pl.corr(columns[0], columns[j], method="spearman")).item()
        tau = float(tau_b(places[None, :, 0], places[None, :, j])[0])
        correlations.append(say.CORRELATION.format(first=first, second=name, rho=number(rho, 2), tau=number(tau, 2)))
    figure.caption = say.RANK_CORRELATION.format(n=len(models), correlations="; ".join(correlations))
    header = ["model", *(c for a in labels for c in (heading(a), "rank"))]
    body = [[brief(models[i]), *(c for j in range(len(labels)) for c in (number(array[i, j]), f"{places[i, j]:.0f}"))] for i in order]
    figure.table = (header, body)
    return figure


def heading_without_arrow(label: Label) -> str:
    """Return the label's heading without its arrow."""
    return heading(label).rstrip(" ↑↓")


def _about(results: Report) -> dict[str, dict[str, Any]]:
    return {m: a for m, a in (results.stage.params.get("about") or {}).items() if m in results.models}


def scale(results: Report) -> list[Figure]:
    """Return figures of accuracy and set size by model size; [] if no family has two sizes."""
    families: dict[str, list[tuple[float, str]]] = {}
    for model, facts in _about(results).items():
        if facts.get("family") and facts.get("billions"):
            families.setdefault(str(facts["family"]), []).append((float(facts["billions"]), model))
    families = {f: sorted(ms) for f, ms in sorted(families.items()) if len({b for b, _ in ms}) > 1}
    if not families:
        return []
    order = [brief(f) for f in list(families)[: len(SERIES)]]
    figures = []
    for dataset in results.datasets:
        figure = Figure(f"{say.MODEL_SIZE}: {brief(dataset)}", say.MODEL_SIZE_CAPTION)
        figure.legend = [(SERIES[i], f) for i, f in enumerate(order)]
        for label in _quality(results, dataset):
            rows = [
                {"model": brief(f), "x": billions, "value": value}
                for f in list(families)[: len(SERIES)]
                for billions, model in families[f]
                if (value := _finite(results, model, dataset, label)) is not None
            ]
            if rows:
                svg = charts.lines(rows, order, say.BILLIONS_OF_PARAMETERS, heading(label), log=True)
                figure.panels.append(Panel(heading(label), svg))
        figure.table = _differences(results, dataset, ("model", say.LARGER_MODEL), _neighbours(families))
        figures += [figure] if figure.panels else []
    return figures


def _neighbours(families: dict[str, list[tuple[float, str]]]) -> Iterator[tuple[str, str]]:
    """Yield (model, next larger model) pairs within each family."""
    for members in families.values():
        sizes = [[model for billions, model in members if billions == size] for size in sorted({billions for billions, _ in members})]
        for smaller, larger in pairwise(sizes):
            yield from product(smaller, larger)


def _differences(
    results: Report, dataset: str, model_headings: tuple[str, str], pairs: Iterable[tuple[str, str]]
) -> tuple[list[str], list[list[str]]] | None:
    """Return (headings, rows) of the corrected tests of pairs of models; None if none."""
    labels = _quality(results, dataset)
    rows = [[brief(a), brief(b), *(_difference(results, dataset, a, b, label) for label in labels)] for a, b in pairs]
    body = [row for row in rows if any(row[2:])]
    return ([*model_headings, *(f"{heading_without_arrow(label)}, difference" for label in labels)], body) if body else None


def _difference(results: Report, dataset: str, a: str, b: str, label: Label) -> str:
    """Return text: b minus a with interval and verdict; "" without a test."""
    if (test := _test(results, dataset, a, b, label)) is None:
        return ""
    interval = f" [{signed(test['low'], 3)}, {signed(test['high'], 3)}]" if None not in (test["low"], test["high"]) else ""
    word = verdict(test["p_adjusted"], test["difference"], label.higher_is_better)
    return f"{signed(test['difference'], 3)}{interval} {word}".strip()


def chat_tuning(results: Report) -> list[Figure]:
    """Return a figure per dataset: base models beside their chat-tuned forms; [] without any."""
    about = _about(results)
    pairs = [(str(a["base"]), m) for m, a in about.items() if a.get("base") in results.models and a.get("chat") is not False]
    if not pairs:
        return []
    figures = []
    for dataset in results.datasets:
        figure = Figure(f"{say.CHAT_TUNING}: {brief(dataset)}", say.CHAT_TUNING_CAPTION.format(colours=say.COLOURED), wide=True)
        colours = [f"var(--{name})" for name in ("right", "wrong", "muted")]
        figure.legend = list(zip(colours, (say.SIGNIFICANTLY_BETTER, say.SIGNIFICANTLY_WORSE, say.TIED_OR_NOT_TESTED), strict=True))
        for label in _quality(results, dataset):
            rows = []
            for base, tuned in pairs:
                before, after = _finite(results, base, dataset, label), _finite(results, tuned, dataset, label)
                if before is not None and after is not None:
                    change = _change(results, dataset, base, tuned, label)
                    rows.append({"row": brief(tuned), "before": before, "after": after, "change": change})
            if rows:
                svg = charts.dumbbells(rows, [brief(t) for _, t in pairs])
                figure.panels.append(Panel(heading(label), svg))
        figure.table = _differences(results, dataset, ("base", "chat-tuned"), pairs)
        figures += [figure] if figure.panels else []
    return figures


def _change(results: Report, dataset: str, base: str, tuned: str, label: Label) -> str:
    """Return `better`, `worse` or `open` for a tuned model against its base."""
    if (test := _test(results, dataset, base, tuned, label)) is None:
        return "open"
    word = verdict(test["p_adjusted"], test["difference"], label.higher_is_better)
    return word if word in ("better", "worse") else "open"


def _test(results: Report, dataset: str, a: str, b: str, label: Label) -> dict[str, Any] | None:
    """Return the test of b against a, turned if stored the other way; None if undefined."""
    tests = results.comparisons.filter(pl.col("difference").is_not_null(), dataset=dataset, metric=label.text, slice="all")
    test = next((test for test in tests.iter_rows(named=True) if {test["a"], test["b"]} == {a, b}), None)
    return turn_around(test) if test is not None and test["b"] != b else test


ASSETS = ["../templates/studies.html"]
SECTION = Section("studies", "Studies", studies, "studies.html")
