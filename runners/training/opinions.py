"""The base model's answers to its training rows: how right they are, and how uncertain.

Answers come from the sample-level store or go there, so that a killed stage resumes, and what the `infer` stage has asked
already is not asked again.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from qualm.registry import CLEAN
from qualm.registry.plugins.rule import Chosen, get
from qualm.runners.contracts.finetunes import FinetuneContext, FinetuneError
from qualm.runners.contracts.judges import JudgeError
from qualm.runners.contracts.models import DRAWS
from qualm.runners.data.dataset import DatasetFolder, Variant
from qualm.runners.inference.run import answer_tables
from qualm.runners.runtime.stage import Stage
from qualm.runners.scoring.answer_text import normalise
from qualm.runners.scoring.apply_judge import Answered, judge, ref_of
from qualm.runners.training.examples import Row
from qualm.runners.training.recipe import trainable


def greedy(context: FinetuneContext, name: str, datasets: Mapping[str, DatasetFolder]) -> dict[tuple[str, str], str]:
    """The greedy answer of a model of the spec to every sample: (dataset, sample id) -> text."""
    module = get("models", context.models[name]["plugin"]).module
    tables = answer_tables(
        trainable(context, name), module, list(datasets.values()), [Variant(CLEAN)], frozenset({"text"}), _stage(context)
    )
    return {
        (dataset, sample): text
        for dataset, table in zip(datasets, tables, strict=True)
        for sample, text in zip(table["sample_id"].to_pylist(), table["text"].to_pylist(), strict=True)
    }


def right(context: FinetuneContext, rows: Sequence[Row], answers: Sequence[str], by: Chosen) -> list[bool | None]:
    """Return whether each answer is at least partly right; None where the judge cannot tell.

    Raises:
        FinetuneError: the judge fails; what it had judged is kept.
    """
    open_rows = [k for k, row in enumerate(rows) if not row.choices]
    counters: Counter[str] = Counter()
    items = [Answered(rows[k].question, tuple(rows[k].references) if rows[k].answerable else (), answers[k]) for k in open_rows]
    try:
        judged = judge(ref_of(by), items, context.settings, counters)
    except JudgeError as error:
        raise FinetuneError(str(error)) from error
    finally:
        context.count(**counters)
    verdicts: list[bool | None] = [answer.strip() == row.target for row, answer in zip(rows, answers, strict=True)]
    for k, judgement in zip(open_rows, judged, strict=True):
        verdicts[k] = None if judgement.rating is None else judgement.rating > 0
    return verdicts


def entropy(texts: Sequence[str]) -> float:
    """Entropy in nats of a list of answers, up to case, punctuation and articles: 0 if all are the same.

    >>> entropy(["Red.", "red", "the red"]), round(entropy(["red", "blue"]), 4)
    (0.0, 0.6931)
    """
    counts = Counter(normalise(t) for t in texts).values()
    return max(0.0, -sum(n / len(texts) * math.log(n / len(texts)) for n in counts))


def sampled(
    context: FinetuneContext, name: str, dataset: DatasetFolder, rows: Sequence[Row], draws: int, temperature: float
) -> list[list[str]]:
    """Several answers to each row, drawn at a temperature; chance comes from the seed, the sample and the draw alone.

    Args:
        rows: without options.
    """
    stage = _stage(context)
    module = get("models", context.models[name]["plugin"]).module
    stage = replace(stage, params={**stage.params, "draws": draws, "temperature": temperature})
    subset = dataset.only([row.row for row in rows])
    (table,) = answer_tables(trainable(context, name), module, [subset], [Variant(CLEAN)], frozenset({"text", DRAWS}), stage)
    texts: dict[str, list[str]] = {}
    for sample, draw, text in zip(*(table[c].to_pylist() for c in ("sample_id", "draw", "text")), strict=True):
        if draw:
            texts.setdefault(sample, []).append(text)
    return [texts[row.sample_id] for row in rows]


def _stage(context: FinetuneContext) -> Stage:
    if context.stage is None:
        raise FinetuneError("a recipe that asks its base model can only be made within a stage")
    return context.stage
