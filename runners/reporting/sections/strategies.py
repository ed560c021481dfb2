"""CertainlyUncertain's tables 4, 5 and 6 in a spec's own numbers: what training and abstaining change, and what they cost.

A row per model. Values are fractions of 1, as everywhere; the paper prints them times 100.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qualm.registry import BLIND, MACRO, REFUSERS, baseline_model
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.marks import CALIBRATION, MarkedNumber, describe_test, difference, is_finite, verdict_mark
from qualm.runners.reporting.sections.leaderboard import undefined_columns
from qualm.runners.reporting.text import Label, aside, between, counted, heading_name, number, percent, rounded, signed, visible
from qualm.runners.results.gains import BlindComparison, compare_with_blind
from qualm.runners.scoring.apply_judge import describe_abstention_judges
from qualm.runners.scoring.families import compared_quantity, describe_correction, describe_margin
from qualm.runners.scoring.rankings import MODELS
from qualm.runners.scoring.scored_share import describe_bounds, describe_unequal_shares
from qualm.runners.scoring.unscored import NO_CONFIDENCE

CENTRAL = ("f1_idk", "lave_idk_accuracy", "confidence_weighted_accuracy")
ACCURACIES = ("lave_idk_accuracy", "vqa_accuracy", "accuracy")
OWN = ("mmhal_score", "mmhal_hallucination_rate", "hallucinated_sentence_ratio", "mme_score", "group_accuracy", "yes_no_f1")
"""Headline metrics of benchmarks that do not report accuracy."""
SURE = ("confidence_weighted_accuracy", "ece")
"""Columns of a dataset without unanswerable questions."""
SHORT = {
    "f1_idk": "F1 IDK",
    "lave_idk_accuracy": "accuracy",
    "confidence_weighted_accuracy": "conf.-w. acc.",
    "idk_rate": "abstained",
    "hedge_rate": "hedged",
}
MEAN, OVER_CATEGORIES = say.MEAN_OF_CATEGORIES, f"{MACRO}category"
MAX_ANSWERABLE = 3
"""Datasets without unanswerable questions in the table; the leaderboard has all."""
KINDS = {"blind": "baseline", "abstaining": say.WITH_ABSTENTION, "sft": say.FINE_TUNED, "rtune": "R-tuning", "dpo": "DPO"}
"""Kinds of derived models as they are called below a model's name."""


@dataclass
class Averages:
    """Table of unweighted means over categories, by kind of uncertainty and over all."""

    groups: list[tuple[str, int]]
    """Headings over the columns, and how many columns each has."""
    columns: list[str]
    rows: list[tuple[str, list[str]]]
    """(model, values)."""
    sizes: str
    """Numbers of questions of the categories."""


@dataclass
class Board:
    """A table with a row per model, whose numbers have marks of tests."""

    groups: list[tuple[str, int]]
    """Headings over the columns, and how many columns each has."""
    columns: list[str]
    rows: list[tuple[str, str, list[MarkedNumber]]]
    """(model, its kind, values)."""

    @property
    def undefined(self) -> list[tuple[str, str]]:
        """Return (column title, reasons) of the columns with undefined values."""
        return undefined_columns(self.columns, [marks for _, _, marks in self.rows])


@dataclass
class Strategies:
    """The tables and sentences on abstention for one dataset."""

    dataset: str
    baseline: str
    board: Board
    """All questions, and datasets without unanswerable questions."""
    parts: Board | None
    """Kinds of uncertainty, and the mean over categories."""
    averages: Averages | None = None
    """The paper's own way: unweighted means over categories."""
    rules: list[str] = field(default_factory=list)
    further: tuple[list[str], list[tuple[str, list[MarkedNumber]]]] | None = None
    """Tests between other models than the baseline: metrics, and (who against whom, differences)."""
    beyond: tuple[list[str], list[tuple[str, list[MarkedNumber]]]] | None = None
    """Tests against the baselines that do not use the image: metrics, and (model, smallest difference)."""
    gains: list[str] = field(default_factory=list)
    """Conclusions from these tests, a sentence per metric."""
    categories: list[str] = field(default_factory=list)
    correction: str = ""
    decided: str = ""
    """Sentence on how abstention is detected."""
    prevalence: str = ""
    """Number of unanswerable questions, as text."""
    without: list[str] = field(default_factory=list)
    subsets: list[str] = field(default_factory=list)
    """Models that were run on a subset, and its size."""


@dataclass(frozen=True)
class _Column:
    label: Label
    slice: str = "all"
    dataset: str = ""
    """The dataset of the column if it is not that of the table."""

    @property
    def head(self) -> str:
        return f"{SHORT.get(self.label.plugin, heading_name(self.label.plugin))}\N{NO-BREAK SPACE}{self.label.arrow}".strip()


def strategies(results: Report) -> list[Strategies]:
    """Return a Strategies (tables and sentences) per dataset on which abstention is scored."""
    return [t for d in results.datasets if (t := _table(results, d)) is not None]


def _table(results: Report, dataset: str) -> Strategies | None:
    labels = [a for p in CENTRAL for a in results.main_labels(dataset) if a.plugin == p][: len(CENTRAL)]
    if "f1_idk" not in {a.plugin for a in labels} or answerable_only(results, dataset):
        return None
    mains, leaves = categories(results, dataset)
    models = [m for m in results.models if any((m, dataset, "all", a.text) in results.clean for a in labels)]
    board = _board(results, dataset, _columns(results, dataset, labels), models)
    parts_of = _part_columns(results, dataset, labels, mains)
    parts_board = _board(results, dataset, parts_of, models) if parts_of else None
    table = Strategies(visible(dataset, 80), visible(results.baseline, 80), board, parts_board, categories=leaves)
    table.prevalence = _prevalence(results, dataset)
    params = results.stage.params
    table.decided = visible(describe_abstention_judges(params, params.get("made", {}).get("judges", ())), 300)
    table.without = [visible(m, 60) for m in models if any(_lacks_confidence(results, m, dataset, a) for a in labels)]
    parts = results.stage.params.get("subsets", {})
    table.subsets = [say.SUBSET.format(model=visible(m, 60), n=parts[m]["per_category"]) for m in models if m in parts]
    table.averages = _averages(results, dataset, mains, leaves, labels, models)
    table.rules = list(_rules(results, dataset))
    further = [*labels, *(a for a in results.main_labels(dataset) if a.plugin == "answerable_accuracy"), *_calibration(results, dataset)]
    table.further = _other_tests(results, dataset, further)
    table.beyond, table.gains = _blind_tests(results, dataset, labels, models)
    tested = results.stage.params.get("made", {}).get("compare")
    table.correction = describe_correction(tested) if tested else say.CORRECTED_AS_SPECIFIED
    return table


Groups = list[tuple[str, list[_Column]]]


def _board(results: Report, dataset: str, groups: Groups, models: Sequence[str]) -> Board:
    columns = [c for _, of in groups for c in of]
    ranks = [results.ranks(MODELS, c.dataset or dataset, c.label.text, c.slice) for c in columns]
    rows = [
        (m, kind_of(results, m), [_mark(results, m, dataset, c, r.get(m, "")) for c, r in zip(columns, ranks, strict=True)]) for m in models
    ]
    return Board([(visible(name, 60), len(of)) for name, of in groups], [c.head for c in columns], rows)


def _columns(results: Report, dataset: str, labels: Sequence[Label]) -> Groups:
    """Return (heading, columns) groups: `dataset`, then SURE of up to 3 answerable datasets."""
    refused = [a for a in results.main_labels(dataset) if a.plugin in ("idk_rate", "hedge_rate")]
    groups = [(say.ALL_QUESTIONS, [_Column(a) for a in [*labels, *refused, *_calibration(results, dataset)]])]
    answerable = [d for d in results.datasets if answerable_only(results, d) and any(a.plugin in SURE for a in results.main_labels(d))]
    for plain in answerable[:MAX_ANSWERABLE]:
        by_plugin = {a.plugin: a for a in reversed(results.main_labels(plain))}
        groups.append((say.ALL_ANSWERABLE.format(dataset=plain), [_Column(by_plugin[p], dataset=plain) for p in SURE if p in by_plugin]))
    return groups


def _part_columns(results: Report, dataset: str, labels: Sequence[Label], mains: Sequence[str]) -> Groups:
    """Return (heading, columns) groups: each kind of uncertainty, then the mean of categories."""
    groups = [(m, [_Column(a, f"category={m}") for a in labels]) for m in mains]
    if any(of == dataset and part == OVER_CATEGORIES for _, of, part, _ in results.clean):
        groups.append((MEAN, [_Column(a, OVER_CATEGORIES) for a in labels]))
    return groups


def _calibration(results: Report, dataset: str) -> list[Label]:
    """Return the label of the main calibration error as a list of one; [] if unmeasured."""
    return [a for p in CALIBRATION for a in results.main_labels(dataset) if a.plugin == p][:1]


def _prevalence(results: Report, dataset: str) -> str:
    samples = results.samples.get(dataset)
    if samples is None or samples.is_empty():
        return ""
    unanswerable = int((~samples["answerable"].fill_null(True)).sum())
    return say.PREVALENCE.format(unanswerable=unanswerable, n=len(samples), share=percent(unanswerable / len(samples)))


def _lacks_confidence(results: Report, model: str, dataset: str, label: Label) -> bool:
    """Return true if a value is undefined because the answers have no confidence."""
    row = results.clean.get((model, dataset, "all", label.text))
    return row is not None and not is_finite(row["value"]) and (row.get("why") or "").startswith(NO_CONFIDENCE)


def answerable_only(results: Report, dataset: str) -> bool:
    samples = results.samples.get(dataset)
    return samples is not None and bool(samples["answerable"].fill_null(True).all())


def categories(results: Report, dataset: str) -> tuple[list[str], list[str]]:
    """Return (main kinds, KIND/NAME categories) that scores are sliced by, in taxonomy order.

    A category without a slash is in neither list unless it is the main kind of another.
    """
    slices = [k[2].removeprefix("category=") for k in results.clean if k[1] == dataset and k[2].startswith("category=")]
    names = list(dict.fromkeys(slices))
    taxonomy: Mapping[str, Mapping[str, Any]] = results.stage.params.get("taxonomy") or {}
    order = [path for main, below in taxonomy.items() for path in (main, *(f"{main}/{name}" for name in below))]
    names.sort(key=lambda n: order.index(n) if n in order else len(order))
    leaves = [n for n in names if "/" in n]
    return [n for n in names if any(leaf.startswith(f"{n}/") for leaf in leaves)], leaves


def kind_of(results: Report, model: str) -> str:
    """Return how a model was derived, in words; "" for an original model."""
    trained: Mapping[str, str] = results.stage.params.get("finetunes") or {}
    kind = "blind" if baseline_model(model) else "abstaining" if model in results.abstaining else str(trained.get(model, ""))
    return KINDS.get(kind) or visible(kind, 40)


def _mark(results: Report, model: str, dataset: str, column: _Column, rank: str) -> MarkedNumber:
    dataset = column.dataset or dataset
    row = results.clean.get((model, dataset, column.slice, column.label.text))
    if row is None:
        return MarkedNumber("–", title=say.NOT_MEASURED)
    if _lacks_confidence(results, model, dataset, column.label):
        return MarkedNumber("–", say.NO_CONFIDENCE, title=NO_CONFIDENCE)
    if not is_finite(row["value"]):
        why = visible(row["why"] or say.NO_REASON, 300)
        return MarkedNumber("undefined", title=f"{why}; {counted(row)}", why=why)
    ends = "; ".join(filter(None, (between(row), describe_bounds(row))))
    mark = MarkedNumber(rounded(row), ends, rank, title=counted(row))
    test = results.tests.get((model, dataset, column.slice, column.label.text))
    if test is not None:
        shares = describe_unequal_shares({test[side]: test[f"scored_share_{side}"] for side in "ab"})
        # A mark would rank models with different scored shares; the title has the difference and says so.
        mark.sign, mark.tone = ("", "") if shares else verdict_mark(test)
        mark.title += "".join(f"; {text}" for text in (describe_test(test), shares) if text)
    return mark


def _averages(
    results: Report, dataset: str, mains: Sequence[str], leaves: Sequence[str], labels: Sequence[Label], models: Sequence[str]
) -> Averages | None:
    """Return unweighted means over `leaves` (KIND/NAME) by main kind and overall; or None."""
    if not mains:
        return None
    parts = {**{m: [leaf for leaf in leaves if leaf.startswith(f"{m}/")] for m in mains}, "all": list(leaves)}
    columns = [(of, label) for of in parts.values() for label in labels]
    rows = [(model, [number(mean_over_categories(results, model, dataset, *column)) for column in columns]) for model in models]
    groups = [(visible(main, 60), len(labels)) for main in parts]
    return Averages(groups, [_Column(a).head for a in labels] * len(parts), rows, _sizes(results, dataset, leaves))


def _sizes(results: Report, dataset: str, categories: Sequence[str]) -> str:
    """Return a sentence with the sizes of the smallest and the largest category."""
    sizes = dict.fromkeys(categories, 0)
    for (_, of, part, _), row in results.clean.items():
        category = part.removeprefix("category=")
        if of == dataset and category in sizes and part != category:
            sizes[category] = max(sizes[category], row["n"])
    least, most = min(sizes, key=lambda c: sizes[c]), max(sizes.values())
    if sizes[least] == most:
        return say.EQUAL_CATEGORIES.format(n=most)
    return say.UNEQUAL_CATEGORIES.format(smallest=visible(least, 60), n=sizes[least], largest=most)


def mean_over_categories(results: Report, model: str, dataset: str, categories: Sequence[str], label: Label) -> float:
    """Return the unweighted mean of a model's scores over categories; NaN if one is missing."""
    values = [(results.clean.get((model, dataset, f"category={c}", label.text)) or {}).get("value") for c in categories]
    return float(np.mean([math.nan if v is None else v for v in values])) if values else math.nan


def _other_tests(results: Report, dataset: str, labels: Sequence[Label]) -> tuple[list[str], list[tuple[str, list[MarkedNumber]]]] | None:
    """Return (headings, rows) of tests between models other than the baseline; None if none."""
    tests = results.comparisons.filter(dataset=dataset, slice="all").iter_rows(named=True)
    by_pair = {(r["a"], r["b"], r["metric"]): r for r in tests if r["a"] != results.baseline}
    rows = []
    for a, b in dict.fromkeys(key[:2] for key in by_pair):
        marks = [difference(by_pair.get((a, b, label.text))) for label in labels]
        rows.append((f"{visible(b, 60)} against {visible(a, 60)}", marks))
    header = [" ".join(filter(None, (_Column(a).head, f"({by})" if (by := compared_quantity(a.compared_by)) else ""))) for a in labels]
    return (header, rows) if rows else None


def _blind_tests(
    results: Report, dataset: str, labels: Sequence[Label], models: Sequence[str]
) -> tuple[tuple[list[str], list[tuple[str, list[MarkedNumber]]]] | None, list[str]]:
    """Return ((headings, rows) of smallest gains over blind baselines or None, conclusions)."""
    if not any(map(baseline_model, models)):
        return None, [say.NO_BASELINE] if len(models) > 1 else []
    here = results.comparisons.filter(dataset=dataset, slice="all").to_dicts()
    by_label = {a: compare_with_blind([r for r in here if r["metric"] == a.text], models, results.baseline) for a in labels}
    by_model = [tests for tests in zip(*by_label.values(), strict=True) if any(test.hardest for test in tests)]
    rows = [(tests[0].model, [_smallest(test) for test in tests]) for tests in by_model]
    if not rows:
        return None, [say.BASELINES_UNTESTED]
    gains = [s for a, tests in by_label.items() if (s := _gains(SHORT.get(a.plugin, heading_name(a.plugin)), tests, results.baseline))]
    gained = dict.fromkeys(t.model for tests in by_label.values() for t in tests if t.is_gain and not t.ran_without_image)
    if gained:
        names = ", ".join(visible(model, 60) for model in gained)
        gains.append(say.REFUSERS_ONLY.format(models=names))
    return ([_Column(a).head for a in labels], rows), gains


def _smallest(test: BlindComparison) -> MarkedNumber:
    mark = difference(test.hardest)
    if test.hardest is not None:
        mark.interval = f"over {visible(test.hardest['a'], 60)}"
    return mark


def _gains(metric: str, tests: Sequence[BlindComparison], baseline: str) -> str:
    """Return text on models better than `baseline`, split by whether they beat all blind ones."""
    better = [test for test in tests if test.over_baseline == "better"]
    if not better:
        return ""
    names = ", ".join(visible(test.model, 60) for test in better if test.is_gain) or "none"
    text = say.GAINS.format(metric=metric, baseline=visible(baseline, 60), models=names)
    others = "; ".join(
        visible(test.model, 60) + (f" ({describe_test(test.hardest)})" if test.hardest is not None else say.NOT_TESTED_ASIDE)
        for test in better
        if not test.is_gain
    )
    return say.GAINS_OVER_SPEC_BASELINE.format(text=text, baseline=visible(baseline, 60), models=others) if others else text


def _rules(results: Report, dataset: str) -> Iterator[str]:
    """Yield a text per abstention rule (model, method, category): its fit and its guarantee."""
    rows = results.abstention_rules.filter(results.abstention_rules["dataset"] == dataset)
    for r in rows.iter_rows(named=True):
        if r["method"] in {BLIND[way] for way in REFUSERS}:
            share = say.REFUSES.format(share=percent(r["n_abstained"] / r["n"]), n=r["n"]) if r["n"] else ""
            training = say.TRAINED_ON.format(n=r["n_fit"])
            yield f"{visible(r['model'], 60)}+{r['method']}: {visible(r['statement'], 400)} {training}{share}"
            continue
        part = "" if r["part"] == "all" else f", {visible(r['part'], 60)}"
        threshold = say.NO_THRESHOLD if r["threshold"] is None else say.THRESHOLD.format(value=number(r["threshold"]))
        failed = "" if r["attained"] else say.TARGET_NOT_ATTAINED
        share = say.ABSTAINS_ON.format(share=percent(r["n_abstained"] / r["n"]), n=r["n"]) if r["n"] else ""
        on = {"val": say.VALIDATION_SPLIT, "half": say.HALF_OF_GROUPS, "test": say.TEST_SPLIT}.get(r["fit"], visible(r["fit"], 20))
        names = {"model": visible(r["model"], 60), "method": visible(r["method"], 60), "part": part, "threshold": threshold}
        found = {"share": share, "statement": visible(r["statement"], 400), "failed": failed}
        yield say.ABSTENTION_RULE.format(n=r["n_fit"], split=on, **names, **found)


@dataclass
class CostTable:
    """Table of performance on answerable questions, with the change from the baseline."""

    columns: list[tuple[str, str]]
    """(dataset, metric)."""
    baseline: str
    rows: list[tuple[str, list[MarkedNumber]]] = field(default_factory=list)


def cost_table(results: Report) -> CostTable | None:
    """Return models' metrics, with changes from the baseline (Table 6); None for one model.

    The columns are those of `_cost_columns`: not all are accuracies on answerable questions. None also if no accuracy on answerable
    questions is measured.
    """
    columns = [(d, label) for d in results.datasets for label in _cost_columns(results, d)]
    if not columns or len(results.models) < 2 or not any(a.plugin == "answerable_accuracy" for _, a in columns):
        return None
    heads = [(visible(d, 60), " ".join(filter(None, (a.title, a.sweep, a.arrow)))) for d, a in columns]
    rows = [(model, [_change(results, model, d, a) for d, a in columns]) for model in results.models]
    return CostTable(heads, visible(results.baseline, 80), rows)


def _cost_columns(results: Report, dataset: str) -> list[Label]:
    """Return the metric labels that stand for a dataset in the table of costs.

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


def _measured(results: Report, dataset: str, label: Label) -> bool:
    return any(is_finite(results.value(model, dataset, label.text)) for model in results.models)


def _change(results: Report, model: str, dataset: str, label: Label) -> MarkedNumber:
    mark = _mark(results, model, dataset, _Column(label), "")
    test = results.tests.get((model, dataset, "all", label.text))
    if test is None:
        mark.interval = f"({mark.interval})" if model == results.baseline and mark.interval else mark.interval
        return mark
    if is_finite(test["difference"]):
        has_interval = is_finite(test["low"]) and is_finite(test["high"])
        limits = aside(between(test, form=signed) if has_interval else "")
        mark.interval = "; ".join(filter(None, (f"{rounded(test, 'difference', signed)}{limits}", describe_margin(test))))
    return mark
