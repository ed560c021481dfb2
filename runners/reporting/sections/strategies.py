"""CertainlyUncertain's tables 4, 5 and 6 in a spec's own numbers: what training and abstaining change, and what they cost.

A row per model, grouped by how it came about. Values are fractions of 1, as everywhere; the paper prints them times 100.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qualm.registry import BLIND, MACRO, REFUSERS, blind_of
from qualm.runners.reporting.charts.marks import CALIBRATION, MarkedNumber, difference, finite, test_in_words, verdict
from qualm.runners.reporting.load import Results
from qualm.runners.reporting.text import Label, aside, between, counted, number, percent, rounded, signed, titled, visible
from qualm.runners.scoring.apply_judge import abstention_words
from qualm.runners.scoring.families import how_corrected, measured_by, within_margin
from qualm.runners.scoring.missing.scored_share import bounds_in_words, unequal_shares
from qualm.runners.scoring.missing.unscored import NO_CONFIDENCE
from qualm.runners.scoring.rankings import MODELS
from qualm.runners.studies.gains import Beyond, beyond_blind

CENTRAL = ("f1_idk", "lave_idk_accuracy", "confidence_weighted_accuracy")
ACCURACIES = ("lave_idk_accuracy", "vqa_accuracy", "accuracy")
OWN = ("mmhal_score", "mmhal_hallucination_rate", "hallucinated_sentence_ratio", "mme_score", "group_accuracy", "yes_no_f1")
"""Headline metrics of benchmarks that do not report accuracy."""
SURE = ("confidence_weighted_accuracy", "ece")
"""What stands of every data set without unanswerable questions."""
SHORT = {
    "f1_idk": "F1 IDK",
    "lave_idk_accuracy": "accuracy",
    "confidence_weighted_accuracy": "conf.-w. acc.",
    "idk_rate": "refused",
    "hedge_rate": "hedged",
}
MEAN, OVER_CATEGORIES = "mean of categories", f"{MACRO}category"
MOST_PLAIN = 3
"""Data sets without unanswerable questions that stand beside the table; all stand in the leaderboard."""
GROUPS = {"": "As it is", "blind": "Without looking", "abstaining": "Abstaining, or read anew"}
NAMES = {"sft": "Supervised fine-tuning", "rtune": "R-tuning", "dpo": "Preference tuning (DPO)"}


@dataclass
class Averages:
    """Means over categories, of every kind of uncertainty and of all."""

    groups: list[tuple[str, int]]
    """Headings over the columns, and how many columns each has."""
    columns: list[str]
    rows: list[tuple[str, list[str]]]
    """(model, values)."""
    sizes: str
    """How many questions the categories have that count alike."""


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
    averages: Averages | None = None
    """The paper's own way: unweighted means over categories."""
    rules: list[str] = field(default_factory=list)
    further: tuple[list[str], list[tuple[str, list[MarkedNumber]]]] | None = None
    """Tests between other models than the baseline: metrics, and (who against whom, differences)."""
    beyond: tuple[list[str], list[tuple[str, list[MarkedNumber]]]] | None = None
    """How far models are beyond rows that do not look: metrics, and (model, least difference)."""
    gains: list[str] = field(default_factory=list)
    """What is a gain by that, and what is not, a sentence per metric."""
    categories: list[str] = field(default_factory=list)
    correction: str = ""
    decided: str = ""
    """Who decides whether an answer abstains."""
    prevalence: str = ""
    """How many of the questions have no answer: what the share of refusals should come to."""
    without: list[str] = field(default_factory=list)
    """Models that gave no confidence."""
    subsets: list[str] = field(default_factory=list)
    """Models that were asked a part of the questions, and which."""


@dataclass(frozen=True)
class _Column:
    label: Label
    slice: str = "all"
    dataset: str = ""
    """Another one than the table's."""

    @property
    def head(self) -> str:
        return f"{SHORT.get(self.label.plugin, titled(self.label.plugin))}\N{NO-BREAK SPACE}{self.label.arrow}".strip()


def strategies(results: Results) -> list[Strategies]:
    """A table for every data set on which refusals are scored; none where nothing is."""
    return [t for d in results.datasets if (t := _table(results, d)) is not None]


def _table(results: Results, dataset: str) -> Strategies | None:
    labels = [a for p in CENTRAL for a in results.main_labels(dataset) if a.plugin == p][: len(CENTRAL)]
    if "f1_idk" not in {a.plugin for a in labels} or answerable_only(results, dataset):
        return None
    mains, leaves = categories(results, dataset)
    grouped_columns = _columns(results, dataset, labels, mains)
    columns = [c for _, of in grouped_columns for c in of]
    groups = [(visible(name, 60), len(of)) for name, of in grouped_columns]
    table = Strategies(visible(dataset, 80), visible(results.baseline, 80), groups, [c.head for c in columns], categories=leaves)
    models = [m for m in results.models if any((m, dataset, "all", a.text) in results.clean for a in labels)]
    ranks = [results.ranks(MODELS, c.dataset or dataset, c.label.text, c.slice) for c in columns]
    for heading, members in grouped(results, models):
        rows = [(m, [_mark(results, m, dataset, c, r.get(m, "")) for c, r in zip(columns, ranks, strict=True)]) for m in members]
        table.blocks.append((heading, rows))
    table.prevalence = _prevalence(results, dataset)
    params = results.stage.params
    table.decided = visible(abstention_words(params, params.get("made", {}).get("judges", ())), 300)
    table.without = [visible(m, 60) for m in models if any(_no_confidence(results, m, dataset, a) for a in labels)]
    parts = results.stage.params.get("subsets", {})
    table.subsets = [f"{visible(m, 60)} ({parts[m]['per_category']} of each category)" for m in models if m in parts]
    table.averages = _averages(results, dataset, mains, leaves, labels, models)
    table.rules = list(_rules(results, dataset))
    further = [*labels, *(a for a in results.main_labels(dataset) if a.plugin == "answerable_accuracy"), *_calibration(results, dataset)]
    table.further = _further(results, dataset, further)
    table.beyond, table.gains = _beyond(results, dataset, labels, models)
    tested = results.stage.params.get("made", {}).get("compare")
    table.correction = how_corrected(tested) if tested else "corrected as the spec says"
    return table


def _columns(results: Results, dataset: str, labels: Sequence[Label], mains: Sequence[str]) -> list[tuple[str, list[_Column]]]:
    """Headings and what stands below each: every kind of uncertainty, all questions pooled, the mean of the categories as the paper
    takes it, and what became of data sets all of whose questions have answers."""
    refused = [a for a in results.main_labels(dataset) if a.plugin in ("idk_rate", "hedge_rate")]
    groups = [(m, [_Column(a, f"category={m}") for a in labels]) for m in mains]
    groups.append(("all questions", [_Column(a) for a in [*labels, *refused, *_calibration(results, dataset)]]))
    if any(of == dataset and part == OVER_CATEGORIES for _, of, part, _ in results.clean):
        groups.append((MEAN, [_Column(a, OVER_CATEGORIES) for a in labels]))
    for plain in _plain(results)[:MOST_PLAIN]:
        by_plugin = {a.plugin: a for a in reversed(results.main_labels(plain))}
        groups.append((f"plain: {plain}", [_Column(by_plugin[p], dataset=plain) for p in SURE if p in by_plugin]))
    return groups


def _plain(results: Results) -> list[str]:
    """Data sets all of whose questions have answers, and on which confidence is scored."""
    return [d for d in results.datasets if answerable_only(results, d) and any(a.plugin in SURE for a in results.main_labels(d))]


def _calibration(results: Results, dataset: str) -> list[Label]:
    """The calibration error over unanswerable questions, else over all; nothing where neither is measured."""
    return [a for p in CALIBRATION for a in results.main_labels(dataset) if a.plugin == p][:1]


def _prevalence(results: Results, dataset: str) -> str:
    samples = results.samples.get(dataset)
    if samples is None or samples.is_empty():
        return ""
    unanswerable = int((~samples["answerable"].fill_null(True)).sum())
    return f"{unanswerable:,} of {len(samples):,} questions have no answer, {percent(unanswerable / len(samples))}"


def _no_confidence(results: Results, model: str, dataset: str, label: Label) -> bool:
    """Whether a value is undefined because the answers came without confidences."""
    row = results.clean.get((model, dataset, "all", label.text))
    return row is not None and not finite(row["value"]) and (row.get("why") or "").startswith(NO_CONFIDENCE)


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
    """Models by how they came about: as they are, abstaining, then each kind of training."""
    trained: Mapping[str, str] = results.stage.params.get("finetunes") or {}
    by_kind: dict[str, list[str]] = {}
    for model in models:
        kind = "blind" if blind_of(model) else "abstaining" if model in results.abstaining else str(trained.get(model, ""))
        by_kind.setdefault(kind, []).append(model)
    order = ["", "blind", "abstaining", *NAMES]
    kinds = sorted(by_kind, key=lambda k: order.index(k) if k in order else len(order))
    return [(GROUPS.get(k) or NAMES.get(k) or f"Trained by {visible(k, 40)}", by_kind[k]) for k in kinds]


def _mark(results: Results, model: str, dataset: str, column: _Column, rank: str) -> MarkedNumber:
    dataset = column.dataset or dataset
    row = results.clean.get((model, dataset, column.slice, column.label.text))
    if row is None:
        return MarkedNumber("–", title="not measured")
    if _no_confidence(results, model, dataset, column.label):
        return MarkedNumber("–", "no confidence", title=NO_CONFIDENCE)
    if not finite(row["value"]):
        return MarkedNumber("undefined", visible(row["why"] or "", 80), title=counted(row))
    ends = "; ".join(filter(None, (between(row), bounds_in_words(row))))
    mark = MarkedNumber(rounded(row), ends, rank, title=counted(row))
    test = results.tests.get((model, dataset, column.slice, column.label.text))
    if test is not None:
        shares = unequal_shares({test[side]: test[f"scored_share_{side}"] for side in "ab"})
        # A mark would rank what was scored unequally often; the title has the difference and says so.
        mark.sign, mark.tone = ("", "") if shares else verdict(test)
        mark.title += "".join(f"; {text}" for text in (test_in_words(test), shares) if text)
    return mark


def _averages(
    results: Results, dataset: str, mains: Sequence[str], leaves: Sequence[str], labels: Sequence[Label], models: Sequence[str]
) -> Averages | None:
    """Unweighted means of the categories' own scores, which is how the paper gets its epistemic, aleatoric and total columns."""
    if not mains:
        return None
    parts = {**{m: [leaf for leaf in leaves if leaf.startswith(f"{m}/")] for m in mains}, "all": list(leaves)}
    rows = []
    for model in models:
        cells = [number(mean_over(results, model, dataset, of, label)) for of in parts.values() for label in labels]
        rows.append((model, cells))
    groups = [(visible(main, 60), len(labels)) for main in parts]
    return Averages(groups, [_Column(a).head for a in labels] * len(parts), rows, _sizes(results, dataset, leaves))


def _sizes(results: Results, dataset: str, categories: Sequence[str]) -> str:
    """How many questions the smallest and the largest category have: each counts as much, however few it has."""
    sizes = dict.fromkeys(categories, 0)
    for (_, of, part, _), row in results.clean.items():
        category = part.removeprefix("category=")
        if of == dataset and category in sizes and part != category:
            sizes[category] = max(sizes[category], row["n"])
    least, most = min(sizes, key=lambda c: sizes[c]), max(sizes.values())
    if sizes[least] == most:
        return f"Each has {most:,} questions"
    return f"All categories have equal weight, although {visible(least, 60)} has {sizes[least]:,} questions and the largest {most:,}"


def mean_over(results: Results, model: str, dataset: str, categories: Sequence[str], label: Label) -> float:
    """The unweighted mean of a model's scores of categories; undefined where one of them is."""
    values = [(results.clean.get((model, dataset, f"category={c}", label.text)) or {}).get("value") for c in categories]
    return float(np.mean([math.nan if v is None else v for v in values])) if values else math.nan


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
    header = [" ".join(filter(None, (_Column(a).head, f"({by})" if (by := measured_by(a.compared_by)) else ""))) for a in labels]
    return (header, rows) if rows else None


NOT_HELD = (
    "No row here answers without the picture (`blind:` in the spec adds such rows), so no difference is called a gain: "
    "it might come from the "
    "questions alone."
)
NOT_TESTED = (
    "No row was tested against those that answer without the picture (`compare:` with a `baseline` or `pairs` does), so no difference is "
    "called a gain: it might come from the questions alone."
)


def _beyond(
    results: Results, dataset: str, labels: Sequence[Label], models: Sequence[str]
) -> tuple[tuple[list[str], list[tuple[str, list[MarkedNumber]]]] | None, list[str]]:
    """Models against what does not look, over all questions."""
    if not any(map(blind_of, models)):
        return None, [NOT_HELD] if len(models) > 1 else []
    here = [r for r in results.comparisons.iter_rows(named=True) if r["dataset"] == dataset and r["slice"] == "all"]
    by_label = {a: beyond_blind([r for r in here if r["metric"] == a.text], models, results.baseline) for a in labels}
    rows = [
        (gains[0].model, [_least(one) for one in gains])
        for gains in zip(*by_label.values(), strict=True)
        if any(one.hardest for one in gains)
    ]
    if not rows:
        return None, [NOT_TESTED]
    sentences = [s for a, gains in by_label.items() if (s := _gains(SHORT.get(a.plugin, titled(a.plugin)), gains, results.baseline))]
    return ([_Column(a).head for a in labels], rows), sentences


def _least(one: Beyond) -> MarkedNumber:
    mark = difference(one.hardest)
    if one.hardest is not None:
        mark.interval = f"over {visible(one.hardest['a'], 60)}"
    return mark


def _gains(metric: str, beyond: Sequence[Beyond], baseline: str) -> str:
    """Which models gain over the baseline, and which have only not been shown not to look."""
    better = [one for one in beyond if one.over_baseline == "better"]
    if not better:
        return ""
    gains = [one for one in better if one.is_gain]
    names = ", ".join(visible(one.model, 60) for one in gains) or "none"
    text = f"{metric}: models with a gain over {visible(baseline, 60)} and over every blind row that they are compared with: {names}."
    if unasked := [visible(one.model, 60) for one in gains if not one.without_picture]:
        text += f" Not asked with another picture or none, so compared only with refusers: {', '.join(unasked)}."
    others = "; ".join(
        visible(one.model, 60) + (f" ({test_in_words(one.hardest)})" if one.hardest is not None else " (not tested)")
        for one in better
        if not one.is_gain
    )
    return f"{text} Better than {visible(baseline, 60)}, but not shown to be better than the blind rows: {others}." if others else text


def _rules(results: Results, dataset: str) -> Iterator[str]:
    """What each way of abstaining chose on which rows, and what it promises."""
    rows = results.rules.filter(results.rules["dataset"] == dataset)
    for r in rows.iter_rows(named=True):
        if r["method"] in {BLIND[way] for way in REFUSERS}:
            share = f" It refuses {percent(r['n_abstained'] / r['n'])} of {r['n']:,} questions." if r["n"] else ""
            yield f"{visible(r['model'], 60)}+{r['method']}: {visible(r['statement'], 400)} {r['n_fit']:,} questions to learn from.{share}"
            continue
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
    columns = [(d, label) for d in results.datasets for label in _headline_labels(results, d)]
    if not columns or len(results.models) < 2 or not any(a.plugin == "answerable_accuracy" for _, a in columns):
        return None
    table = CostTable(
        [(visible(d, 60), " ".join(filter(None, (a.title, a.sweep, a.arrow)))) for d, a in columns], visible(results.baseline, 80)
    )
    for _, members in grouped(results, results.models):
        for model in members:
            table.rows.append((model, [_change(results, model, d, a) for d, a in columns]))
    return table


def _headline_labels(results: Results, dataset: str) -> list[Label]:
    """Return the columns that represent a dataset in the table of costs.

    A benchmark with metrics of its own has these, a dataset of answerable questions has its accuracy. With unanswerable
    questions it is the accuracy on the answerable ones, and the accuracy on all unless the questions form contrastive pairs.
    """
    labels = [a for a in results.main_labels(dataset) if not a.score and not a.estimator and _measured(results, dataset, a)]
    own = [a for a in labels if a.plugin in OWN]
    by_plugin = {a.plugin: a for a in reversed(labels)}
    accuracy = next((by_plugin[p] for p in ACCURACIES if p in by_plugin), None)
    if own or dataset not in results.samples or answerable_only(results, dataset):
        plain = accuracy if dataset in results.samples else by_plugin.get("answerable_accuracy")
        return own or ([plain] if plain else [])
    in_pairs = results.samples[dataset]["pair_id"].is_not_null().any()
    return [a for a in (by_plugin.get("answerable_accuracy"), None if in_pairs else accuracy) if a is not None]


def _measured(results: Results, dataset: str, label: Label) -> bool:
    return any(finite(results.value(model, dataset, label.text)) for model in results.models)


def _change(results: Results, model: str, dataset: str, label: Label) -> MarkedNumber:
    mark = _mark(results, model, dataset, _Column(label), "")
    test = results.tests.get((model, dataset, "all", label.text))
    if test is None:
        mark.interval = f"({mark.interval})" if model == results.baseline and mark.interval else mark.interval
        return mark
    if finite(test["difference"]):
        has_interval = finite(test["low"]) and finite(test["high"])
        limits = aside(between(test, form=signed) if has_interval else "")
        mark.interval = "; ".join(filter(None, (f"{rounded(test, 'difference', signed)}{limits}", within_margin(test))))
    return mark
