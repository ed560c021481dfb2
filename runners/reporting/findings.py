"""Findings: one sentence each, with its interval and test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import polars as pl

from qualm.registry import BLIND, baseline_model
from qualm.runners.data.statistics import ALL
from qualm.runners.reporting.chance import none_beats_chance
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.text import Label, aside, between, decimals, number, promised, rounded, signed, visible, words
from qualm.runners.scoring.families import ALPHA, verdict, within_margin
from qualm.runners.scoring.rankings import ESTIMATORS, FEWEST_GROUPS, MODELS
from qualm.runners.scoring.scored_share import bounds_in_words, unequal_shares
from qualm.runners.studies.gains import Beyond, beyond_blind
from qualm.runners.studies.shortcuts import describe_shortcuts

MAX_FINDINGS = 7
"""Findings that are not folded."""
MOST = 3
"""Models with a sentence each; the tables have all."""
RANKS = {"auroc": "the wrong answers of {model}", "auroc_uncertain": "the uncertain questions asked of {model}"}
"""Metric -> answers or questions that an estimator should rank highest."""


def findings(results: Report) -> list[str]:
    """Return the findings of a spec, the most important first; those of one kind are in the order of the datasets.

    The report shows the first `MAX_FINDINGS` and has the others on demand.
    """
    by_dataset = {name: list(_of(results, name)) for name in results.datasets}
    named = sum(map(bool, by_dataset.values())) > 1
    found = [(rank, f"{name}: {text}" if named else text) for name, of in by_dataset.items() for rank, text in of]
    found += [(0, text) for text in _one_model(results)]
    return [visible(text, 600) for _, text in sorted(found, key=lambda finding: finding[0])]


def _of(results: Report, dataset: str) -> Iterator[tuple[int, str]]:
    """Yield the findings of one dataset with their rank of importance."""
    if label := results.quality(dataset):
        for rank, kind in enumerate((_answers, _against_baseline, _without_looking, _over_prompts), 1):
            yield from ((rank, text) for text in kind(results, dataset, label))
    yield from ((5, text) for text in _estimators(results, dataset))
    yield from ((6, text) for text in _sets(results, dataset))
    if label:
        yield from ((7, text) for text in _not_held_against(results, dataset))


def _one_model(results: Report) -> Iterator[str]:
    """Yield one sentence with the values of the only model on every dataset."""
    if len(models := looking(results)) != 1:
        return
    values: dict[str, list[str]] = {}
    for dataset in results.datasets:
        if (label := results.quality(dataset)) and results.value(models[0], dataset, label.text) is not None:
            values.setdefault(label.title, []).append(f"{_named(results, dataset, models[0], label)} on {dataset}")
    if values:
        yield f"{models[0]} has {'; '.join(f'{title} {_and(of)}' for title, of in values.items())}."


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def looking(results: Report) -> list[str]:
    """Return the models that are no baselines without the image."""
    return [model for model in results.models if not baseline_model(model)]


def _named(results: Report, dataset: str, model: str, label: Label) -> str:
    """Return a model's value with its interval."""
    row = results.cells.get((model, dataset, label.text))
    if row is None:
        return ""
    none = ": ".join(filter(None, ("no interval", row.get("why_no_interval"))))
    return f"{rounded(row)}{aside('; '.join(filter(None, (between(row) or none, bounds_in_words(row)))))}"


def _answers(results: Report, dataset: str, label: Label) -> Iterator[str]:
    models = [m for m in looking(results) if results.value(m, dataset, label.text) is not None]
    ranked = results.candidates(MODELS, dataset, label.text)
    if len(ranked) < 2:
        groups = max((results.cells[m, dataset, label.text]["n_groups"] or 0 for m in models), default=0)
        if len(models) > 1 and 0 < groups < FEWEST_GROUPS:
            values = ", ".join(f"{m} {_named(results, dataset, m, label)}" for m in models)
            why = f"a ranking needs {FEWEST_GROUPS} groups of questions, and {groups} have a score"
            yield f"Models are not ranked by {label.title}, since {why}. Values: {values}."
        return
    if ranked[0]["not_comparable"]:
        shares = unequal_shares({row["candidate"]: row["scored_share"] for row in ranked})
        values = ", ".join(f"{row['candidate']} {_named(results, dataset, row['candidate'], label)}" for row in ranked)
        yield f"Models are not ranked by {label.title}, since {shares}. Values: {values}."
        return
    of = _compared(ranked, models, models_in_words(results, [row["candidate"] for row in ranked]))
    alike = [row["candidate"] for row in ranked if row["value"] == ranked[0]["value"]]
    if len(alike) == len(ranked):
        yield f"{'Both models' if of == '2 models' else f'All {of}'} have the same {label.title}, {rounded(ranked[0])}."
    elif len(alike) > 1:
        yield f"{', '.join(alike[:-1])} and {alike[-1]} share the best {label.title} of {of}, {_picked(ranked)}."
    else:
        yield f"{alike[0]} has the best {label.title} of {of}, {_picked(ranked)}; {_others(ranked)}."


def models_in_words(results: Report, names: Sequence[str]) -> str:
    """Return how many models these are; a model with abstention or recalibration is counted apart."""
    versions = sum(name in results.abstaining for name in names)
    counts = [(len(names) - versions, ""), (versions, " with abstention or recalibration")]
    return " and ".join(f"{n:,} model{'s' * (n != 1)}{what}" for n, what in counts if n)


def _compared(ranked: Sequence[dict[str, Any]], scored: Sequence[str], what: str, called: Callable[[str], str] = str) -> str:
    """Return among how many the best was found; those with a value that could not be compared are named, since they may be better."""
    left = [called(name) for name in scored if name not in {row["candidate"] for row in ranked}]
    return f"the {what} that could be compared (not {_listed(left, 'others')})" if left else what


def _without_looking(results: Report, dataset: str, label: Label) -> Iterator[str]:
    """Yield the best baseline without the image, and whether the best model is better, unless another sentence says so."""
    rows = [(v, m) for m in results.models if baseline_model(m) and (v := results.value(m, dataset, label.text)) is not None]
    if not rows:
        return
    _, name = (min if label.higher_is_better is False else max)(rows)
    reaches = f"{label.title}, {_named(results, dataset, name, label)}"
    unseen = unseen_by([row for _, row in rows])
    sentence = f"The baseline without {unseen}, {name}, has {reaches}" if len(rows) == 1 else (
        f"Of {len(rows)} baselines without {unseen}, {name} has the best {reaches}"
    )  # fmt: skip
    models = [(v, m) for m in looking(results) if (v := results.value(m, dataset, label.text)) is not None]
    best = (min if label.higher_is_better is False else max)(models, default=(0.0, ""))[1]
    if best and (not results.baseline or best == results.baseline):
        beyond = _beyond(results, dataset, label, best)
        sentence += f"; {best} is significantly better than {_listed(beyond.rows, 'of them')}" if beyond.beyond else (
            f"; {best} is not significantly better than all of them{_least(beyond)}"
        )  # fmt: skip
    yield f"{sentence}."


def unseen_by(rows: Sequence[str]) -> str:
    """Return what a set of baselines does not use.

    >>> unseen_by(["base+blind_refuser", "base+swapped_picture"]), unseen_by(["base+blind_refuser", "base+picture_refuser"])
    ('the image', 'the image or the question')
    """
    of_images = sum(row.endswith(f"+{BLIND['picture_refuser']}") for row in rows)
    if not of_images:
        return "the image"
    return "the question" if of_images == len(rows) else "the image or the question"


def _not_held_against(results: Report, dataset: str) -> Iterator[str]:
    """Yield the shortcuts of a dataset that no baseline uses: a gain may come from them."""
    missing = {"question": "refuser", "picture": "picture_refuser"}
    missing = {sees: way for sees, way in missing.items() if not any(m.endswith(f"+{BLIND[way]}") for m in results.models)}
    for row in results.source.shortcuts(dataset).collect().iter_rows(named=True):
        if row["category"] == ALL and row["sees"] in missing and len(looking(results)) > 1:
            for line in describe_shortcuts([row]):
                way = missing[row["sees"]]
                yield f"{line[0].upper()}{line[1:]}. No baseline uses this (add `blind: {way}`), so an improvement may come from it."


def _picked(ranked: Sequence[dict[str, Any]]) -> str:
    """Return the best value with its selection-adjusted interval, which holds for all values of a column at once."""
    ends = between(ranked[0])
    return rounded(ranked[0]) + aside(ends and f"{ends}, selection-adjusted")


def _others(ranked: Sequence[dict[str, Any]]) -> str:
    """Return how many of the others are statistically tied with the best, in words."""
    return _apart(sum(row["p_adjusted"] is None or row["p_adjusted"] >= ALPHA for row in ranked[1:]), len(ranked) - 1)


def _over_prompts(results: Report, dataset: str, label: Label) -> Iterator[str]:
    """Yield each model's spread over its prompts, with the test of the best against the worst."""
    for origin, models in results.stage.params.get("prompts", {}).items():
        values = {m: value for m in models if (value := results.value(m, dataset, label.text)) is not None}
        if len(values) < 2:
            continue
        worst, best = min(values, key=lambda m: values[m]), max(values, key=lambda m: values[m])
        names = {m: m.rpartition("prompt=")[2] for m in values}
        printed = {m: rounded(results.cells[m, dataset, label.text]) for m in values}
        sentence = (
            f"{origin}: over {len(values)} prompts, {label.title} is {printed[worst]} ({names[worst]}) to {printed[best]} "
            f"({names[best]}), a spread of {number(values[best] - values[worst], decimals(results.cells[best, dataset, label.text]))}"
        )
        pair = pl.col("a").is_in([worst, best]) & pl.col("b").is_in([worst, best]) & (pl.col("a") != pl.col("b"))
        here = (pl.col("dataset") == dataset) & (pl.col("slice") == ALL) & (pl.col("metric") == label.text)
        for test in results.comparisons.filter(pair & here).iter_rows(named=True):
            if test["p_adjusted"] is not None and test["low"] is not None:
                sign = 1 if test["b"] == best else -1
                low, high = sorted((sign * test["low"], sign * test["high"]))
                of_best = {"difference": sign * test["difference"], "low": low, "high": high}
                differs = verdict(test["p_adjusted"], test["difference"], test["higher_is_better"])
                tied = "the prompts differ significantly" if differs else "the prompts are statistically tied"
                sentence += (
                    f"; on the questions that both have, the difference is {rounded(of_best, 'difference', signed)}"
                    f"{aside(between(of_best, form=signed))}; "
                    f"{tied}, corrected p = {number(test['p_adjusted'], 4)}"
                )
        yield f"{sentence}."


def _against_baseline(results: Report, dataset: str, label: Label) -> Iterator[str]:
    tests = [
        test
        for model in looking(results)
        if (test := results.tests.get((model, dataset, "all", label.text))) and test["p_adjusted"] is not None and model != results.baseline
    ]
    differing = [t for t in tests if verdict(t["p_adjusted"], t["difference"], t["higher_is_better"])]
    for test in sorted(differing, key=lambda t: -abs(t["difference"]))[:MOST]:
        better = verdict(test["p_adjusted"], test["difference"], test["higher_is_better"])
        change = f"{rounded(test, 'difference', signed)}{aside(between(test, form=signed))}"
        sentence = (
            f"{test['b']} is significantly {better} than {results.baseline} on {label.title}: {change}, "
            f"corrected p = {number(test['p_adjusted'], 4)}"
        )
        shares = unequal_shares({side: test[f"scored_share_{of}"] for of in "ab" for side in [test[of]]})
        looked = _looked(results, dataset, label, test["b"]) if better == "better" else ""
        yield f"{sentence}{looked}{f'; {shares}, and the test uses the questions that both have' if shares else ''}."
    equal = [t for t in tests if t not in differing and within_margin(t)]
    for test in equal[:MOST]:
        to = "to" if within_margin(test).startswith("equal") else "than"
        p = test["p_equivalent"] if to == "to" else test["p_not_worse"]
        ends = f"{rounded(test, 'difference', signed)}{aside(between(test, form=signed))}"
        yield f"{test['b']} is {within_margin(test)} {to} {results.baseline} on {label.title}: {ends}, corrected p = {number(p, 4)}."
    if tests and len(differing) + len(equal) < len(tests):
        left = len(tests) - len(differing) - len(equal)
        if left == len(tests):
            rest = f"{tests[0]['b']} is" if left == 1 else f"all {left} others are"
        else:
            rest = f"{left} of {len(tests)} others {'is' if left == 1 else 'are'}"
        yield f"On {label.title} {rest} statistically tied with {results.baseline}, which does not prove equality."


def _looked(results: Report, dataset: str, label: Label, model: str) -> str:
    """Return whether a better model also beats the baselines without the image, in words; empty if there are none."""
    if not any(map(baseline_model, results.models)):
        return ""
    beyond = _beyond(results, dataset, label, model)
    if beyond.beyond:
        many = "s" * (len(beyond.rows) > 1)
        return f", and than the baseline{many} without {unseen_by(beyond.rows)} ({_listed(beyond.rows, 'baselines')})"
    return f"; it is not significantly better than every baseline without {unseen_by(beyond.rows)}{_least(beyond)}"


def _beyond(results: Report, dataset: str, label: Label, model: str) -> Beyond:
    rows = results.comparisons.filter(dataset=dataset, slice="all", metric=label.text).iter_rows(named=True)
    return next(tests for tests in beyond_blind(rows, results.models, results.baseline) if tests.model == model)


def _least(beyond: Beyond) -> str:
    return f" (smallest difference: to {beyond.hardest['a']})" if beyond.hardest else ""


def _listed(names: Sequence[str], what: str) -> str:
    """Return up to `MOST` names in words, else their number."""
    return f"{len(names)} {what}" if len(names) > MOST else _and(names)


def _estimators(results: Report, dataset: str) -> Iterator[str]:
    for model in looking(results)[:MOST]:
        for metric, ranks in RANKS.items():
            yield from _best_estimator(results, dataset, model, metric, ranks.format(model=model))


def _best_estimator(results: Report, dataset: str, model: str, metric: str, ranks: str) -> Iterator[str]:
    ranked = results.candidates(ESTIMATORS, dataset, metric, model=model)
    if len(ranked) < 2:
        return
    alike = [row for row in ranked if row["value"] == ranked[0]["value"]]
    of = _compared(ranked, list(estimator_values(results, dataset, model, metric)), f"{len(ranked)} estimators", words)
    value = f"AUROC {_picked(ranked)}, where chance is 0.5"
    if ranked[0]["not_comparable"]:
        shares = unequal_shares({words(row["candidate"]): row["scored_share"] for row in ranked})
        yield f"Estimators are not ranked by AUROC for {ranks}, since {shares}."
        return
    if no_better := none_beats_chance(ranked[0]):
        yield f"Of {of} that rank {ranks}, {no_better}; the best, {words(ranked[0]['candidate'])}, has AUROC {_picked(ranked)}."
        return
    if len(alike) > 1:
        yield f"{len(alike)} of {of} are tied for the best ranking of {ranks}: {value}."
        return
    best = words(ranked[0]["candidate"])
    yield f"Of {of}, {best} ranks {ranks} best: {value}; {_others(ranked)}."


def estimator_values(results: Report, dataset: str, model: str, metric: str) -> dict[str, float]:
    """Return the values of a model's estimators, compared or not."""
    labels = [a for a in results.main_labels(dataset) if a.text == f"{metric}[{a.estimator}]"]
    return {a.estimator: value for a in labels if (value := results.value(model, dataset, a.text)) is not None}


def _sets(results: Report, dataset: str) -> Iterator[str]:
    """Yield one sentence per model about its prediction sets."""
    labels = [a for a in results.main_labels(dataset) if a.plugin == "coverage" and a.score not in ("", "mean")]
    if labels and all((m, dataset, a.setting, a.score) in results.uninformative for m in looking(results) for a in labels):
        first = results.cells.get((looking(results)[0], dataset, labels[0].text)) or {}
        yield f"Prediction sets are uninformative: {first.get('why_no_interval') or 'every set has all options'}."
        return
    for model in looking(results)[:MOST]:
        parts = []
        for label in labels:
            row = results.cells.get((model, dataset, label.text))
            if row is None or row["value"] is None or not (band := promised(row)):
                continue
            size = results.value(model, dataset, label.text.replace("coverage", "set_size", 1))
            options = "" if size is None else f" with {number(size, 1)} options on average"
            if (model, dataset, label.setting, label.score) in results.uninformative:
                options = " but contain every option, so they are uninformative"
            parts.append(f"{words(label.score)} sets cover {rounded(row)} of questions ({band}){options}")
        if parts:
            yield f"{model}: {'; '.join(parts)}."


def _apart(alike: int, others: int) -> str:
    """Say how many of the others are statistically tied with the best."""
    if not alike:
        return f"it is significantly better than {'the other' if others == 1 else f'all {others} others'}"
    if alike == others:
        return f"{'the other is' if others == 1 else f'all {others} others are'} statistically tied"
    return f"{alike} of the {others} others {'is' if alike == 1 else 'are'} statistically tied"


READS = ("shortcuts",)
