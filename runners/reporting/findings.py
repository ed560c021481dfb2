"""Findings: one sentence each, with its interval and test."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import polars as pl

from qualm.registry import BLIND, baseline_model
from qualm.runners.data.statistics import ALL
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.chance import none_beats_chance
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.text import Label, aside, between, decimals, describe_coverage, display_name, number, rounded, signed, visible
from qualm.runners.results.gains import BlindComparison, compare_with_blind, turn_around
from qualm.runners.results.shortcuts import describe_shortcuts
from qualm.runners.scoring.families import ALPHA, describe_margin, verdict
from qualm.runners.scoring.rankings import ESTIMATORS, MIN_GROUPS, MODELS
from qualm.runners.scoring.scored_share import describe_bounds, describe_unequal_shares

MAX_FINDINGS = 7
MAX_NAMED = 3
"""Models with a sentence each; the tables have all."""
RANKS = {"auroc": say.WRONG_ANSWERS_OF, "auroc_uncertain": say.UNCERTAIN_QUESTIONS_OF}
"""Metric -> answers or questions that an estimator should rank highest."""


def findings(results: Report) -> list[str]:
    """Return the findings of a spec as sentences, the most important first."""
    by_dataset = {name: list(_dataset_findings(results, name)) for name in results.datasets}
    named = sum(map(bool, by_dataset.values())) > 1
    found = [(rank, f"{name}: {text}" if named else text) for name, of in by_dataset.items() for rank, text in of]
    found += [(0, text) for text in _one_model(results)]
    return [visible(text, 600) for _, text in sorted(found, key=lambda finding: finding[0])]


def _dataset_findings(results: Report, dataset: str) -> Iterator[tuple[int, str]]:
    """Yield (importance, sentence) of one dataset; 1 is the most important."""
    if label := results.quality(dataset):
        for rank, kind in enumerate((_answers, _against_baseline, _blind_baselines, _over_prompts), 1):
            yield from ((rank, text) for text in kind(results, dataset, label))
    yield from ((5, text) for text in _estimators(results, dataset))
    yield from ((6, text) for text in _sets(results, dataset))
    if label:
        yield from ((7, text) for text in _unused_shortcuts(results, dataset))


def _one_model(results: Report) -> Iterator[str]:
    """Yield one sentence with the only model's value on every dataset; none if several models."""
    if len(models := image_seeing_models(results)) != 1:
        return
    values: dict[str, list[str]] = {}
    for dataset in results.datasets:
        if (label := results.quality(dataset)) and results.value(models[0], dataset, label.text) is not None:
            value = _value_and_interval(results, dataset, models[0], label)
            values.setdefault(label.title, []).append(say.ON_DATASET.format(value=value, dataset=dataset))
    if values:
        yield say.ONLY_MODEL.format(model=models[0], values="; ".join(f"{title} {_and(of)}" for title, of in values.items()))


def _and(parts: Sequence[str]) -> str:
    return say.AND.join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def image_seeing_models(results: Report) -> list[str]:
    """Return the models that see the image: those that are not blind baselines."""
    return [model for model in results.models if not baseline_model(model)]


def _value_and_interval(results: Report, dataset: str, model: str, label: Label) -> str:
    """Return a model's value with its interval as text; "" without a value."""
    row = results.cells.get((model, dataset, label.text))
    if row is None:
        return ""
    none = ": ".join(filter(None, (say.NO_INTERVAL, row.get("why_no_interval"))))
    return f"{rounded(row)}{aside('; '.join(filter(None, (between(row) or none, describe_bounds(row)))))}"


def _answers(results: Report, dataset: str, label: Label) -> Iterator[str]:
    models = [m for m in image_seeing_models(results) if results.value(m, dataset, label.text) is not None]
    ranked = results.candidates(MODELS, dataset, label.text)
    if len(ranked) < 2:
        groups = max((results.cells[m, dataset, label.text]["n_groups"] or 0 for m in models), default=0)
        if len(models) > 1 and 0 < groups < MIN_GROUPS:
            values = ", ".join(f"{m} {_value_and_interval(results, dataset, m, label)}" for m in models)
            why = say.TOO_FEW_GROUPS_TO_RANK.format(needed=MIN_GROUPS, found=groups)
            yield say.MODELS_NOT_RANKED.format(metric=label.title, why=why, values=values)
        return
    if ranked[0]["not_comparable"]:
        shares = describe_unequal_shares({row["candidate"]: row["scored_share"] for row in ranked})
        values = ", ".join(f"{row['candidate']} {_value_and_interval(results, dataset, row['candidate'], label)}" for row in ranked)
        yield say.MODELS_NOT_RANKED.format(metric=label.title, why=shares, values=values)
        return
    of = _describe_candidates(ranked, models, describe_model_count(results, [row["candidate"] for row in ranked]))
    alike = [row["candidate"] for row in ranked if row["value"] == ranked[0]["value"]]
    if len(alike) == len(ranked):
        who = say.BOTH_MODELS if of == say.MODELS.format(n=2) else say.ALL_OF.format(among=of)
        yield say.ALL_MODELS_EQUAL.format(who=who, metric=label.title, value=rounded(ranked[0]))
    elif len(alike) > 1:
        yield say.MODELS_SHARE_BEST.format(models=_and(alike), metric=label.title, among=of, value=_best_value(ranked))
    else:
        yield say.BEST_MODEL.format(model=alike[0], metric=label.title, among=of, value=_best_value(ranked), others=_describe_ties(ranked))


def describe_model_count(results: Report, names: Sequence[str]) -> str:
    """Return a count of models in words, with the abstaining versions counted apart."""
    versions = sum(name in results.abstaining for name in names)
    counts = [(len(names) - versions, ""), (versions, say.MODELS_WITH_ABSTENTION)]
    return say.AND.join((say.ONE_MODEL if n == 1 else say.MODELS).format(n=n) + what for n, what in counts if n)


def _describe_candidates(
    ranked: Sequence[dict[str, Any]], scored: Sequence[str], candidates: str, format_name: Callable[[str], str] = str
) -> str:
    """Return the text `candidates`, then the names that could not be compared, if any."""
    left = [format_name(name) for name in scored if name not in {row["candidate"] for row in ranked}]
    return say.CANDIDATES_COMPARED.format(candidates=candidates, others=_name_or_count(left, say.OTHERS)) if left else candidates


def _blind_baselines(results: Report, dataset: str, label: Label) -> Iterator[str]:
    """Yield up to one sentence: the best blind baseline, and if the best model beats its own.

    Nothing without a blind baseline's value. The best model is left out where another one is the spec's baseline.
    """
    rows = [(v, m) for m in results.models if baseline_model(m) and (v := results.value(m, dataset, label.text)) is not None]
    if not rows:
        return
    _, name = (min if label.higher_is_better is False else max)(rows)
    reaches = f"{label.title}, {_value_and_interval(results, dataset, name, label)}"
    unseen = unseen_by([row for _, row in rows])
    sentence = (say.ONLY_BASELINE if len(rows) == 1 else say.BEST_BASELINE).format(n=len(rows), unseen=unseen, baseline=name, value=reaches)
    models = [(v, m) for m in image_seeing_models(results) if (v := results.value(m, dataset, label.text)) is not None]
    best = (min if label.higher_is_better is False else max)(models, default=(0.0, ""))[1]
    if best and (not results.baseline or best == results.baseline):
        beyond = _beyond(results, dataset, label, best)
        template = say.BEST_BEATS_BASELINES if beyond.beyond else say.BEST_DOES_NOT_BEAT_BASELINES
        sentence += template.format(best=best, baselines=_name_or_count(beyond.rows, say.OF_THEM), least=_least(beyond))
    yield f"{sentence}."


def unseen_by(baselines: Sequence[str]) -> str:
    """Return what a set of blind baselines does not see, as a phrase.

    >>> unseen_by(["base+blind_refuser", "base+swapped_picture"]), unseen_by(["base+blind_refuser", "base+picture_refuser"])
    ('the image', 'the image or the question')
    """
    of_images = sum(row.endswith(f"+{BLIND['picture_refuser']}") for row in baselines)
    if not of_images:
        return say.THE_IMAGE
    return say.THE_QUESTION if of_images == len(baselines) else say.IMAGE_OR_QUESTION


def _unused_shortcuts(results: Report, dataset: str) -> Iterator[str]:
    """Yield a sentence per overall shortcut no baseline uses; none below two image models."""
    missing = {"question": "refuser", "picture": "picture_refuser"}
    missing = {sees: way for sees, way in missing.items() if not any(m.endswith(f"+{BLIND[way]}") for m in results.models)}
    for row in results.source.shortcuts(dataset).collect().iter_rows(named=True):
        if row["category"] == ALL and row["sees"] in missing and len(image_seeing_models(results)) > 1:
            for line in describe_shortcuts([row]):
                way = missing[row["sees"]]
                yield say.SHORTCUT_UNUSED.format(shortcut=f"{line[0].upper()}{line[1:]}", baseline=way)


def _best_value(ranked: Sequence[dict[str, Any]]) -> str:
    """Return the best value with its selection-adjusted interval, as text."""
    ends = between(ranked[0])
    return rounded(ranked[0]) + aside(ends and say.SELECTION_ADJUSTED.format(interval=ends))


def _describe_ties(ranked: Sequence[dict[str, Any]]) -> str:
    """Return a phrase on how many other candidates are tied with the best."""
    return _ties_in_words(sum(row["p_adjusted"] is None or row["p_adjusted"] >= ALPHA for row in ranked[1:]), len(ranked) - 1)


def _over_prompts(results: Report, dataset: str, label: Label) -> Iterator[str]:
    """Yield a sentence per model on its spread over prompts, best tested against worst."""
    for origin, models in results.stage.params.get("prompts", {}).items():
        values = {m: value for m in models if (value := results.value(m, dataset, label.text)) is not None}
        if len(values) < 2:
            continue
        worst, best = min(values, key=lambda m: values[m]), max(values, key=lambda m: values[m])
        names = {m: m.rpartition("prompt=")[2] for m in values}
        printed = {m: rounded(results.cells[m, dataset, label.text]) for m in values}
        if values[worst] == values[best]:
            yield f"{say.EQUAL_OVER_PROMPTS.format(model=origin, n=len(values), metric=label.title, value=printed[best])}."
            continue
        spread = number(values[best] - values[worst], decimals(results.cells[best, dataset, label.text]))
        ends = {"worst": printed[worst], "worst_prompt": names[worst], "best": printed[best], "best_prompt": names[best]}
        sentence = say.OVER_PROMPTS.format(model=origin, n=len(values), metric=label.title, spread=spread, **ends)
        pair = pl.col("a").is_in([worst, best]) & pl.col("b").is_in([worst, best]) & (pl.col("a") != pl.col("b"))
        for test in results.comparisons.filter(pair, dataset=dataset, slice=ALL, metric=label.text).iter_rows(named=True):
            if test["p_adjusted"] is not None and test["low"] is not None:
                turned = test if test["b"] == best else turn_around(test)
                # In as many decimals as its own interval supports, and not those of its column.
                of_best = {name: turned[name] for name in ("difference", "low", "high")}
                differs = verdict(test["p_adjusted"], test["difference"], test["higher_is_better"])
                change, interval = rounded(of_best, "difference", signed), aside(between(of_best, form=signed))
                tied, p = say.PROMPTS_DIFFER if differs else say.PROMPTS_TIED, number(test["p_adjusted"], 4)
                sentence += say.PROMPT_DIFFERENCE.format(difference=change, interval=interval, verdict=tied, p=p)
        yield f"{sentence}."


def _against_baseline(results: Report, dataset: str, label: Label) -> Iterator[str]:
    tests = [
        test
        for model in image_seeing_models(results)
        if (test := results.tests.get((model, dataset, "all", label.text))) and test["p_adjusted"] is not None and model != results.baseline
    ]
    differing = [t for t in tests if verdict(t["p_adjusted"], t["difference"], t["higher_is_better"])]
    for test in sorted(differing, key=lambda t: -abs(t["difference"]))[:MAX_NAMED]:
        better = verdict(test["p_adjusted"], test["difference"], test["higher_is_better"])
        change = f"{rounded(test, 'difference', signed)}{aside(between(test, form=signed))}"
        sentence = say.AGAINST_BASELINE.format(
            model=test["b"], verdict=better, baseline=results.baseline, metric=label.title, change=change, p=number(test["p_adjusted"], 4)
        )
        shares = describe_unequal_shares({side: test[f"scored_share_{of}"] for of in "ab" for side in [test[of]]})
        looked = _against_blind(results, dataset, label, test["b"]) if better == "better" else ""
        yield f"{sentence}{looked}{say.SHARED_QUESTIONS_TESTED.format(shares=shares) if shares else ''}."
    equal = [t for t in tests if t not in differing and describe_margin(t)]
    for test in equal[:MAX_NAMED]:
        says = describe_margin(test)
        template, p = (say.EQUAL_TO, test["p_equivalent"]) if says.startswith("equal") else (say.NOT_WORSE_THAN, test["p_not_worse"])
        change = f"{rounded(test, 'difference', signed)}{aside(between(test, form=signed))}"
        yield template.format(model=test["b"], verdict=says, baseline=results.baseline, metric=label.title, change=change, p=number(p, 4))
    if tests and len(differing) + len(equal) < len(tests):
        left = len(tests) - len(differing) - len(equal)
        template = _by_count(left, len(tests), (say.ONE_TIED, say.ALL_TIED, say.ONE_OF_TIED, say.SOME_TIED))
        yield template.format(model=tests[0]["b"], n=left, of=len(tests), metric=label.title, baseline=results.baseline)


def _against_blind(results: Report, dataset: str, label: Label, model: str) -> str:
    """Return a clause on whether a better model beats blind baselines too; "" without any."""
    if not any(map(baseline_model, results.models)):
        return ""
    beyond = _beyond(results, dataset, label, model)
    if beyond.beyond:
        template = say.BEATS_BASELINES if len(beyond.rows) > 1 else say.BEATS_BASELINE
        return template.format(unseen=unseen_by(beyond.rows), baselines=_name_or_count(beyond.rows, say.BASELINES))
    return say.DOES_NOT_BEAT_BASELINES.format(unseen=unseen_by(beyond.rows), least=_least(beyond))


def _beyond(results: Report, dataset: str, label: Label, model: str) -> BlindComparison:
    rows = results.comparisons.filter(dataset=dataset, slice="all", metric=label.text).iter_rows(named=True)
    return next(tests for tests in compare_with_blind(rows, results.models, results.baseline) if tests.model == model)


def _least(beyond: BlindComparison) -> str:
    return say.SMALLEST_DIFFERENCE.format(baseline=beyond.hardest["a"]) if beyond.hardest else ""


def _name_or_count(names: Sequence[str], plural: str) -> str:
    """Return up to MAX_NAMED names in words, else their number and `plural`."""
    return f"{len(names)} {plural}" if len(names) > MAX_NAMED else _and(names)


def _estimators(results: Report, dataset: str) -> Iterator[str]:
    for model in image_seeing_models(results)[:MAX_NAMED]:
        for metric, ranks in RANKS.items():
            yield from _best_estimator(results, dataset, model, metric, ranks.format(model=model))


def _best_estimator(results: Report, dataset: str, model: str, metric: str, ranks: str) -> Iterator[str]:
    ranked = results.candidates(ESTIMATORS, dataset, metric, model=model)
    if len(ranked) < 2:
        return
    alike = [row for row in ranked if row["value"] == ranked[0]["value"]]
    scored = list(estimator_values(results, dataset, model, metric))
    of = _describe_candidates(ranked, scored, say.N_ESTIMATORS.format(n=len(ranked)), display_name)
    value = say.AUROC_AND_CHANCE.format(value=_best_value(ranked))
    if ranked[0]["not_comparable"]:
        shares = describe_unequal_shares({display_name(row["candidate"]): row["scored_share"] for row in ranked})
        yield say.ESTIMATORS_NOT_RANKED.format(target=ranks, why=shares)
        return
    best = display_name(ranked[0]["candidate"])
    if no_better := none_beats_chance(ranked[0]):
        highest = {"best": best, "value": _best_value(ranked)}
        yield say.NO_ESTIMATOR_BEATS_CHANCE.format(among=of, target=ranks, verdict=no_better, **highest)
    elif len(alike) > 1:
        yield say.ESTIMATORS_SHARE_BEST.format(n=len(alike), among=of, target=ranks, value=value)
    else:
        yield say.BEST_ESTIMATOR.format(among=of, estimator=best, target=ranks, value=value, others=_describe_ties(ranked))


def estimator_values(results: Report, dataset: str, model: str, metric: str) -> dict[str, float]:
    """Return estimator -> its value of `metric` for a model, whether ranked or not."""
    labels = [a for a in results.main_labels(dataset) if a.text == f"{metric}[{a.estimator}]"]
    return {a.estimator: value for a in labels if (value := results.value(model, dataset, a.text)) is not None}


def _sets(results: Report, dataset: str) -> Iterator[str]:
    """Yield a sentence per image-seeing model on its sets; one if all hold everything."""
    labels = [a for a in results.main_labels(dataset) if a.plugin == "coverage" and a.score not in ("", "mean")]
    if labels and all((m, dataset, a.setting, a.score) in results.uninformative for m in image_seeing_models(results) for a in labels):
        first = results.cells.get((image_seeing_models(results)[0], dataset, labels[0].text)) or {}
        yield say.SETS_UNINFORMATIVE.format(why=first.get("why_no_interval") or say.EVERY_SET_HAS_ALL)
        return
    for model in image_seeing_models(results)[:MAX_NAMED]:
        parts = []
        for label in labels:
            row = results.cells.get((model, dataset, label.text))
            if row is None or row["value"] is None or not (band := describe_coverage(row)):
                continue
            size = results.value(model, dataset, label.text.replace("coverage", "set_size", 1))
            options = "" if size is None else say.SET_SIZE.format(size=number(size, 1))
            if (model, dataset, label.setting, label.score) in results.uninformative:
                options = say.SETS_HAVE_EVERY_OPTION
            parts.append(say.SETS_COVER.format(score=display_name(label.score), share=rounded(row), band=band, size=options))
        if parts:
            yield f"{model}: {'; '.join(parts)}."


def _ties_in_words(n_tied: int, others: int) -> str:
    """Return a phrase on how many of `others` candidates are tied with the best."""
    if not n_tied:
        template = say.BETTER_THAN_OTHER if others == 1 else say.BETTER_THAN_ALL
    else:
        template = _by_count(n_tied, others, (say.OTHER_IS_TIED, say.ALL_OTHERS_TIED, say.ONE_OTHER_TIED, say.SOME_OTHERS_TIED))
    return template.format(n=n_tied, of=others)


def _by_count(n: int, total: int, templates: tuple[str, str, str, str]) -> str:
    """Return the template for `n` of `total`: the only one, all, one of several, or some."""
    only, every, one, some = templates
    return (only if total == 1 else every) if n == total else one if n == 1 else some


READS = ("shortcuts",)
