"""R-tuning (Zhang et al., NAACL 2024): train a model to abstain, or to say that it is unsure, where it did not know the answer.

The second of CertainlyUncertain's three strategies (section 4), which uses the mode `unknown`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen

from qualm.registry.plugins.registry import Chosen, DatasetName, Kind, ModelName
from qualm.runners.contracts.finetunes import FinetuneContext, TrainingRecipe

if TYPE_CHECKING:
    from qualm.runners.training.examples import Row, TrainingExample
    from qualm.runners.training.recipe import Material

CITES = ["zhang2024rtuning", "chandu2025certainlyuncertain"]
EXTRA = "train"
LOADS_WITH = "hf_vlm"


def rtune(
    context: FinetuneContext,
    *,
    base: ModelName,
    train: list[DatasetName],
    weights: list[Annotated[float, Gt(0.0)]] | None = None,
    mode: Literal["unknown", "unsure", "uncertain"] = "unknown",
    judge: Annotated[Chosen, Kind("judges")] = "rules",
    refusals: Annotated[list[str], MinLen(1)] | None = None,
    certainty: str = "Are you sure of this answer, going by what you know and see?",
    sure: str = "I am sure.",
    unsure: str = "I am unsure.",
    draws: Annotated[int, Ge(2)] = 5,
    temperature: Annotated[float, Gt(0.0), Le(100)] = 0.7,
    verify: Annotated[float, Ge(0.0), Lt(1.0)] = 0.0,
    tune: Annotated[Chosen, Kind("tunings")] = "lora",
    rate: Annotated[float, Gt(0.0)] = 2e-4,
    schedule: Literal["cosine", "linear", "constant"] = "cosine",
    warmup: Annotated[float, Ge(0.0), Lt(1.0)] = 0.03,
    decay: Annotated[float, Ge(0.0)] = 0.0,
    beta2: Annotated[float, Gt(0.0), Lt(1.0)] = 0.999,
    batch: Annotated[int, Ge(1)] = 128,
    epochs: Annotated[float, Gt(0.0)] = 1.0,
    steps: Annotated[int, Ge(1)] | None = None,
    max_length: Annotated[int, Ge(1)] | None = None,
    packed: bool = False,
    together: Annotated[int, Ge(1)] = 1,
) -> TrainingRecipe:
    """Return a recipe of answers that admit what the base model did not know of `train`.

    - `unknown`: rows it got wrong (rating 0) get an abstention as their answer, the others keep theirs.
    - `unsure`: every row keeps its answer; the model also learns what to reply when it is asked whether it is sure of it: yes where it
      got the row right, no where it got it wrong.
    - `uncertain`: the same, but by the entropy of several sampled answers: the lower half of the rows is sure, the upper unsure.

    The loss is that of `sft`. Rows that the judge cannot rate are left out and counted, and so are those that follow on earlier turns
    (`meta.history`), since the base model is asked each question by itself.

    Args:
        base: model of this spec that is asked, and tuned.
        train: datasets of this spec.
        weights: sampling ratios of `train`; null takes every row equally often.
        mode: what is learned, see above.
        judge: rates the base model's answers; `option_match` rates multiple-choice answers if the judge reads no options.
        refusals: abstentions, one for each row by its id; null takes those of the data's unanswerable rows, or four of ours if
            there are none. An unanswerable row keeps its own.
        certainty: question about an answer in the modes `unsure` and `uncertain`.
        sure: the reply to it that means "yes".
        unsure: the reply that means "no".
        draws: answers sampled for each row in the mode `uncertain`.
        temperature: of their sampling.
        verify: share of examples that ask "is that answer right?" about both members of a pair, as for `sft`; pairs whose answerable
            member the base model got wrong are left out of them.
        tune: which weights are trained: `lora` or `full`.
        rate: highest learning rate of AdamW.
        schedule: how it falls after the warm-up.
        warmup: share of the steps in which it rises.
        decay: weight decay of matrices.
        beta2: of AdamW.
        batch: examples in a step, on all devices together.
        epochs: passes over as many examples as there are.
        steps: steps in all, instead of `epochs`.
        max_length: examples of more tokens than this are dropped and counted.
        packed: put several examples in a row, if that leaves the model's losses as they are.
        together: number of successive examples on one image; packed, they share the image's tokens.

    Raises:
        FinetuneError: nothing to train on, or a model that cannot be trained so.
    """
    from qualm.runners.training.examples import verifications
    from qualm.runners.training.recipe import Amount, Material, build_recipe, trainable_model
    from qualm.runners.training.tuner import Course, Tuner

    material = Material(context, train, weights)
    by_entropy = mode == "uncertain"
    knowledge = (
        _known_by_entropy(context, base, material, draws, temperature) if by_entropy else _known_by_judge(context, base, material, judge)
    )
    ways = refusals or sorted({str(r.target) for rows in material.rows.values() for r in rows if not r.answerable}) or REFUSALS

    def examples(rows: Sequence[Row]) -> list[TrainingExample]:
        verdicts = [(row, knowledge[row.dataset, row.sample_id]) for row in rows if (row.dataset, row.sample_id) in knowledge]
        if mode == "unknown":
            return [row.example(None if knows or not row.answerable else choose_abstention(row, ways)) for row, knows in verdicts]
        return [e for row, knows in verdicts for e in (row.example(), row.asked_back(certainty, sure if knows else unsure))]

    def judged(rows: Sequence[Row]) -> list[TrainingExample]:
        return verifications([row for row in rows if not row.answerable or knowledge.get((row.dataset, row.sample_id))])

    pools, shares = material.mixture(examples)
    if verify:
        pools, shares = material.with_share(pools, shares, "verify", verify, judged)
    course = Course(rate, schedule, warmup, decay, beta2, context.seed)
    amount = Amount(batch, epochs, steps, max_length, packed, together)
    model = trainable_model(context, base)
    return build_recipe(context, model, tune, material, pools, shares, amount, course, Tuner)


REFUSALS = [
    "I don't know.",
    "I cannot tell from this picture.",
    "That cannot be answered from what is shown.",
    "I am not sure; there is not enough to go by.",
]


def choose_abstention(row: Row, refusals: Sequence[str]) -> str:
    """Return the abstention that a row learns, chosen by the hash of its sample id."""
    return refusals[int.from_bytes(hashlib.sha256(row.sample_id.encode()).digest()[:4]) % len(refusals)]


def _first_turns(context: FinetuneContext, rows: Sequence[Row]) -> list[Row]:
    """Return the rows that follow no earlier turns; count the others as dropped."""
    first_turns = [row for row in rows if not row.history]
    if len(first_turns) < len(rows):
        context.count(**{"dropped (follows on earlier turns)": len(rows) - len(first_turns)})
    return first_turns


def _known_by_judge(context: FinetuneContext, base: str, material: Material, judge: Chosen) -> dict[tuple[str, str], bool]:
    from qualm.runners.training.opinions import greedy_answers, judge_answers

    answers = greedy_answers(context, base, material.datasets)
    knowledge: dict[tuple[str, str], bool] = {}
    for name, all_rows in material.rows.items():
        rows = _first_turns(context, all_rows)
        verdicts = judge_answers(context, rows, [answers[name, row.sample_id] for row in rows], judge)
        knowledge |= {(name, row.sample_id): v for row, v in zip(rows, verdicts, strict=True) if v is not None}
        context.count(known=verdicts.count(True), unknown=verdicts.count(False))
        if None in verdicts:
            context.count(**{"dropped (the judge cannot tell)": verdicts.count(None)})
    return knowledge


def _known_by_entropy(
    context: FinetuneContext, base: str, material: Material, n_draws: int, temperature: float
) -> dict[tuple[str, str], bool]:
    """Sample answers; return (dataset, id) -> true if their entropy is in the lower half.

    Rows with options, earlier turns or an unreadable answer are dropped and counted.
    """
    from qualm.runners.training.opinions import answer_entropy, sampled_answers

    ranked: list[tuple[float, str, str]] = []
    for name, all_rows in material.rows.items():
        rows = _first_turns(context, all_rows)
        open_rows = [row for row in rows if not row.choices]
        if len(open_rows) < len(rows):
            context.count(**{"dropped (has options)": len(rows) - len(open_rows)})
        drawn = sampled_answers(context, base, material.datasets[name], open_rows, n_draws, temperature)
        read = [(row, [t for t in texts if t is not None]) for row, texts in zip(open_rows, drawn, strict=True)]
        ranked += [(answer_entropy(texts), name, row.sample_id) for row, texts in read if len(texts) == n_draws]
        if unread := sum(len(texts) < n_draws for _, texts in read):
            context.count(**{"dropped (a sampled answer cannot be read)": unread})
    ranked.sort()
    half = len(ranked) // 2
    context.count(known=half, unknown=len(ranked) - half)
    return {(name, sample): place < half for place, (_, name, sample) in enumerate(ranked)}
