"""CertainlyUncertain's tables 5 and 6 in a spec's own numbers: what training and abstaining change, and what they cost.

A row per model, grouped by how it came about. Values are fractions of 1, as everywhere; the paper prints them times 100.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qualm.runners.reporting.charts.marks import CALIBRATION, MarkedNumber, difference, finite, test_in_words, verdict
from qualm.runners.reporting.load import Results
from qualm.runners.reporting.text import Label, between, counted, number, percent, signed, titled, visible, why_undefined
from qualm.runners.scoring.families import how_corrected
from qualm.runners.scoring.rankings import MODELS

CENTRAL = ("f1_idk", "lave_idk_accuracy", "confidence_weighted_accuracy")
ACCURACIES = ("lave_idk_accuracy", "vqa_accuracy", "accuracy")
SHORT = {"f1_idk": "F1 IDK", "lave_idk_accuracy": "accuracy", "confidence_weighted_accuracy": "conf.-w. acc."}
GROUPS = {"": "As it is", "abstaining": "Abstaining below a threshold"}
NAMES = {"sft": "Supervised fine-tuning", "rtune": "R-tuning", "dpo": "Preference tuning (DPO)"}


@dataclass
class Strategies:
    """The table of one data set."""

    dataset: str
    baseline: str
    groups: list[tuple[str, int]]
    """Headings over the columns: a kind of uncertainty, and how many columns it has."""
    columns: list[str]
    blocks: list[tuple[str, list[tuple[str, list[MarkedNumber]]]]] = field(default_factory=list)
    """(how they came about, [(model, values)])."""
    averages: tuple[list[str], list[list[str]]] | None = None
    """The paper's own way: unweighted means over categories."""
    rules: list[str] = field(default_factory=list)
    further: tuple[list[str], list[tuple[str, list[MarkedNumber]]]] | None = None
    """Tests between other models than the baseline: metrics, and (who against whom, differences)."""
    categories: list[str] = field(default_factory=list)
    correction: str = ""


@dataclass(frozen=True)
class _Column:
    slice: str
    label: Label


def strategies(results: Results) -> list[Strategies]:
    """A table for every data set on which refusals are scored; none where nothing is."""
    return [t for d in results.datasets if (t := _table(results, d)) is not None]


def _table(results: Results, dataset: str) -> Strategies | None:
    labels = [a for p in CENTRAL for a in results.main_labels(dataset) if a.plugin == p][: len(CENTRAL)]
    if "f1_idk" not in {a.plugin for a in labels} or answerable_only(results, dataset):
        return None
    mains, leaves = categories(results, dataset)
    columns = [_Column(f"category={m}", a) for m in mains for a in labels] + [_Column("all", a) for a in labels]
    last = next((a for p in CALIBRATION for a in results.main_labels(dataset) if a.plugin == p), None)
    columns += [_Column("all", last)] if last is not None else []
    groups = [*((visible(m, 40), len(labels)) for m in mains), ("all questions", len(labels)), *([("", 1)] if last is not None else [])]
    heads = [f"{SHORT.get(c.label.plugin, titled(c.label.plugin))}\N{NO-BREAK SPACE}{c.label.arrow}".strip() for c in columns]
    table = Strategies(visible(dataset, 80), visible(results.baseline, 80), groups, heads, categories=leaves)
    models = [m for m in results.models if any((m, dataset, "all", a.text) in results.clean for a in labels)]
    ranks = [results.ranks(MODELS, dataset, c.label.text, c.slice) for c in columns]
    for heading, members in grouped(results, models):
        rows = [(m, [_mark(results, m, dataset, c, r.get(m, "")) for c, r in zip(columns, ranks, strict=True)]) for m in members]
        table.blocks.append((heading, rows))
    table.averages = _averages(results, dataset, mains, leaves, labels, models)
    table.rules = list(_rules(results, dataset))
    further = [*labels, *(a for a in results.main_labels(dataset) if a.plugin == "answerable_accuracy"), *([last] if last else [])]
    table.further = _further(results, dataset, further)
    tested = results.stage.params.get("made", {}).get("compare")
    table.correction = how_corrected(tested) if tested else "corrected as the spec says"
    return table


def answerable_only(results: Results, dataset: str) -> bool:
    samples = results.samples.get(dataset)
    return samples is not None and bool(samples["answerable"].fill_null(True).all())


def categories(results: Results, dataset: str) -> tuple[list[str], list[str]]:
    """Main kinds and categories below them that scores were sliced by, in the taxonomy's order where there is one."""
    slices = [k[2].removeprefix("category=") for k in results.clean if k[1] == dataset and k[2].startswith("category=")]
    names = list(dict.fromkeys(slices))
    taxonomy: Mapping[str, Mapping[str, Any]] = results.stage.params.get("taxonomy") or {}
    order = [path for main, below in taxonomy.items() for path in (main, *(f"{main}/{name}" for name in below))]
    names.sort(key=lambda n: order.index(n) if n in order else len(order))
    leaves = [n for n in names if "/" in n]
    return [n for n in names if any(leaf.startswith(f"{n}/") for leaf in leaves)], leaves


def grouped(results: Results, models: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Models by how they came about: as they are, abstaining, then each kind of training; the baseline first."""
    trained: Mapping[str, str] = results.stage.params.get("finetunes") or {}
    by_kind: dict[str, list[str]] = {}
    for model in sorted(models, key=lambda m: m != results.baseline):
        kind = "abstaining" if model in results.abstaining else str(trained.get(model, ""))
        by_kind.setdefault(kind, []).append(model)
    order = ["", "abstaining", *NAMES]
    kinds = sorted(by_kind, key=lambda k: order.index(k) if k in order else len(order))
    return [(GROUPS.get(k) or NAMES.get(k) or f"Trained by {visible(k, 40)}", by_kind[k]) for k in kinds]


def _mark(results: Results, model: str, dataset: str, column: _Column, rank: str) -> MarkedNumber:
    row = results.clean.get((model, dataset, column.slice, column.label.text))
    if row is None:
        return MarkedNumber("–", title="not measured")
    if not finite(row["value"]):
        return MarkedNumber("undefined", why_undefined(row["n"], row["n_unscored"]), title=counted(row))
    mark = MarkedNumber(number(row["value"]), between(row), rank, title=counted(row))
    test = results.tests.get((model, dataset, column.slice, column.label.text))
    if test is not None:
        mark.sign, mark.tone = verdict(test)
        mark.title += f"; {test_in_words(test)}"
    return mark


def _averages(
    results: Results, dataset: str, mains: Sequence[str], leaves: Sequence[str], labels: Sequence[Label], models: Sequence[str]
) -> tuple[list[str], list[list[str]]] | None:
    """Unweighted means of the categories' own scores, which is how the paper gets its epistemic, aleatoric and total columns."""
    if not mains:
        return None
    parts = {**{m: [leaf for leaf in leaves if leaf.startswith(f"{m}/")] for m in mains}, "all": list(leaves)}
    rows = []
    for model in models:
        cells = []
        for of in parts.values():
            for label in labels:
                values = [(results.clean.get((model, dataset, f"category={c}", label.text)) or {}).get("value") for c in of]
                finite = [float(v) for v in values if v is not None and math.isfinite(v)]
                cells.append(number(sum(finite) / len(finite)) if values and len(finite) == len(values) else "undefined")
        rows.append([visible(model, 60), *cells])
    header = ["model", *(f"{visible(main, 30)}: {SHORT.get(a.plugin, titled(a.plugin))}" for main in parts for a in labels)]
    return header, rows


def _further(results: Results, dataset: str, labels: Sequence[Label]) -> tuple[list[str], list[tuple[str, list[MarkedNumber]]]] | None:
    """The tests over all questions that the spec asks for beside those against the baseline."""
    by_pair = {
        (r["a"], r["b"], r["metric"]): r
        for r in results.comparisons.iter_rows(named=True)
        if r["dataset"] == dataset and r["slice"] == "all" and r["a"] != results.baseline
    }
    rows = []
    for a, b in dict.fromkeys(key[:2] for key in by_pair):
        tests = [by_pair.get((a, b, label.text)) for label in labels]
        rows.append((f"{visible(b, 60)} against {visible(a, 60)}", [difference(test) for test in tests]))
    header = [f"{SHORT.get(a.plugin, titled(a.plugin))}\N{NO-BREAK SPACE}{a.arrow}".strip() for a in labels]
    return (header, rows) if rows else None


def _rules(results: Results, dataset: str) -> Iterator[str]:
    """What each way of abstaining chose on which rows, and what it promises."""
    rows = results.rules.filter(results.rules["dataset"] == dataset)
    for r in rows.iter_rows(named=True):
        part = "" if r["part"] == "all" else f", {visible(r['part'], 60)}"
        threshold = "no threshold: nothing to choose it on" if r["threshold"] is None else f"threshold {number(r['threshold'])}"
        failed = "" if r["attained"] else " What was asked for could not be had."
        share = f"; declines {percent(r['n_abstained'] / r['n'])} of {r['n']:,} answers" if r["n"] else ""
        on = {"val": "the validation split", "half": "half of the test groups", "test": "the test split itself: optimistic"}.get(
            r["fit"], visible(r["fit"], 20)
        )
        yield (
            f"{visible(r['model'], 60)}+{visible(r['method'], 60)}{part}: {threshold}, chosen on {r['n_fit']:,} answers of {on}{share}. "
            f"{visible(r['statement'], 400)}{failed}"
        )


@dataclass
class CostTable:
    """What a model may have lost where questions have answers."""

    columns: list[tuple[str, str]]
    """(data set, metric)."""
    baseline: str
    rows: list[tuple[str, list[MarkedNumber]]] = field(default_factory=list)


def cost(results: Results) -> CostTable | None:
    """The paper's table 6: accuracy where there is an answer, and on data sets without unanswerable questions, beside its change."""
    columns: list[tuple[str, Label]] = []
    for dataset in results.datasets:
        labels = {a.plugin: a for a in results.main_labels(dataset) if not a.score and not a.estimator}
        plain = dataset in results.samples and answerable_only(results, dataset)
        label = next((labels[p] for p in ACCURACIES if p in labels), None) if plain else labels.get("answerable_accuracy")
        columns += [(dataset, label)] if label is not None else []
    if not columns or len(results.models) < 2 or not any(a.plugin == "answerable_accuracy" for _, a in columns):
        return None
    table = CostTable([(visible(d, 60), f"{a.title} {a.arrow}".strip()) for d, a in columns], visible(results.baseline, 80))
    for _, members in grouped(results, results.models):
        for model in members:
            table.rows.append((model, [_change(results, model, d, a) for d, a in columns]))
    return table


def _change(results: Results, model: str, dataset: str, label: Label) -> MarkedNumber:
    mark = _mark(results, model, dataset, _Column("all", label), "")
    test = results.tests.get((model, dataset, "all", label.text))
    if test is None:
        mark.interval = f"({mark.interval})" if model == results.baseline and mark.interval else mark.interval
        return mark
    if finite(test["difference"]):
        has_interval = finite(test["low"]) and finite(test["high"])
        limits = f" ({signed(test['low'])} to {signed(test['high'])})" if has_interval else ""
        mark.interval = f"{signed(test['difference'])}{limits}"
    return mark
