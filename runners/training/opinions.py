"""Ask the base model about its training rows: which answers are right, and how uncertain they are.

Answers are kept in the answer store, so that a killed stage resumes, and shared with the `infer` stage.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from qualm.registry import CLEAN, LETTERS
from qualm.registry.plugins.registry import Chosen, get
from qualm.runners.contracts.finetunes import FinetuneContext, FinetuneError
from qualm.runners.contracts.judges import JudgeError
from qualm.runners.contracts.models import DRAWS
from qualm.runners.data.dataset import DatasetFolder, Variant
from qualm.runners.inference.run import answer_tables
from qualm.runners.runtime.stage import Stage
from qualm.runners.scoring.answer_text import normalise
from qualm.runners.scoring.apply_judge import Answered, judge, judge_ref, takes_choices
from qualm.runners.training.examples import Row
from qualm.runners.training.recipe import trainable_model


def greedy_answers(context: FinetuneContext, name: str, datasets: Mapping[str, DatasetFolder]) -> dict[tuple[str, str], str | None]:
    """Ask a model for its greedy answers; return {(dataset, sample id): answer or None}."""
    module = get("models", context.models[name]["plugin"]).module
    tables = answer_tables(
        trainable_model(context, name), module, list(datasets.values()), [Variant(CLEAN)], frozenset({"text"}), _stage(context)
    )
    return {
        (dataset, sample): text
        for dataset, table in zip(datasets, tables, strict=True)
        for sample, text in zip(table["sample_id"].to_pylist(), table["text"].to_pylist(), strict=True)
    }


def judge_answers(context: FinetuneContext, rows: Sequence[Row], answers: Sequence[str | None], judge_plugin: Chosen) -> list[bool | None]:
    """Return whether each answer is at least partly right; None if it is missing or undecided.

    A judge that reads no options leaves multiple-choice answers to `option_match`.

    Raises:
        FinetuneError: the judge fails; earlier judgements are kept.
    """
    chosen = judge_ref(judge_plugin)
    by_options = chosen if takes_choices(chosen) else judge_ref("option_match")
    answered = {k: _answer_for_judge(row, answer) for k, (row, answer) in enumerate(zip(rows, answers, strict=True)) if answer is not None}
    counters: Counter[str] = Counter()
    verdicts: list[bool | None] = [None] * len(rows)
    try:
        for has_options, ref in ((False, chosen), (True, by_options)):
            places = [k for k, answer in answered.items() if bool(answer.choices) == has_options]
            judgements = judge(ref, [answered[k] for k in places], context.settings, counters)
            for k, judgement in zip(places, judgements, strict=True):
                verdicts[k] = None if judgement.rating is None else judgement.rating > 0
    except JudgeError as error:
        raise FinetuneError(str(error)) from error
    finally:
        context.count(**counters)
    return verdicts


def _answer_for_judge(row: Row, answer: str) -> Answered:
    """Return a judge's input on a row's answer: its question, references and any options.

    An unanswerable question has no references. An answerable one whose target is no option's letter is judged as an open question.
    """
    if not row.answerable:
        return Answered(row.question, (), answer, choices=row.choices)
    letters = dict(zip(LETTERS, row.choices, strict=False))
    if row.target in letters:  # also where the prompt asks for the option in words
        return Answered(row.question, (letters[row.target], row.target), answer, choices=row.choices)
    return Answered(row.question, row.references, answer)


def answer_entropy(texts: Sequence[str]) -> float:
    """Return the entropy (nats) of answers, alike up to case, articles and punctuation.

    >>> answer_entropy(["Red.", "red", "the red"]), round(answer_entropy(["red", "blue"]), 4)
    (0.0, 0.6931)
    """
    counts = Counter(normalise(t) for t in texts).values()
    return max(0.0, -sum(n / len(texts) * math.log(n / len(texts)) for n in counts))


def sampled_answers(
    context: FinetuneContext, name: str, dataset: DatasetFolder, rows: Sequence[Row], draws: int, temperature: float
) -> list[list[str | None]]:
    """Return each row's `draws` sampled answers; None for a reply without an answer.

    Random numbers depend on seed, sample and draw only.
    """
    stage = _stage(context)
    module = get("models", context.models[name]["plugin"]).module
    stage = replace(stage, params={**stage.params, "draws": draws, "temperature": temperature})
    subset = dataset.only([row.row for row in rows])
    (table,) = answer_tables(trainable_model(context, name), module, [subset], [Variant(CLEAN)], frozenset({"text", DRAWS}), stage)
    texts: dict[str, list[str | None]] = {}
    for sample, draw, text in zip(*(table[c].to_pylist() for c in ("sample_id", "draw", "text")), strict=True):
        if draw:
            texts.setdefault(sample, []).append(text)
    return [texts[row.sample_id] for row in rows]


def _stage(context: FinetuneContext) -> Stage:
    if context.stage is None:
        raise FinetuneError("a recipe that asks its base model can only be made within a stage")
    return context.stage
