"""Supervised fine-tuning on the data's answers, abstentions among them: the first of CertainlyUncertain's three strategies (section 4).

The loss is taken on answer tokens alone, end of turn included; prompts equal those of inference token by token.
"""

from functools import partial
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Lt

from qualm.registry.plugins.registry import Chosen, DatasetName, Kind, ModelName
from qualm.runners.contracts.finetunes import FinetuneContext, TrainingRecipe

CITES = ["chandu2025certainlyuncertain"]
EXTRA = "train"
LOADS_WITH = "hf_vlm"


def sft(
    context: FinetuneContext,
    *,
    base: ModelName,
    train: list[DatasetName],
    weights: list[Annotated[float, Gt(0.0)]] | None = None,
    tune: Annotated[Chosen, Kind("tunings")] = "lora",
    verify: Annotated[float, Ge(0.0), Lt(1.0)] = 0.0,
    verified: Literal["pairs", "all"] = "pairs",
    label_smoothing: Annotated[float, Ge(0.0), Lt(1.0)] = 0.0,
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
    """Return a recipe that learns the answers of `train`: commonest reference or right letter.

    Loss = - mean over the batch's answer tokens of ln P(token | image, prompt, tokens before), in nats; lower is better.

    Args:
        base: model of this spec to start from.
        train: datasets of this spec; the reference of an unanswerable row is an abstention.
        weights: sampling ratios of `train`; null takes every row equally often.
        tune: which weights are trained: `lora` or `full`.
        verify: share of examples that ask "is that answer right?": yes after a row's own answer, no after its pair's other one.
        verified: rows of these examples: members of pairs; or `all`: for a plain row, "no" then follows the answer to another row
            with the same question. Plain rows keep the confidence in plain answers in line with their accuracy.
        label_smoothing: share of every target token that is spread over the vocabulary, against overconfidence.
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

    model = trainable_model(context, base)
    material = Material(context, train, weights)
    pools, shares = material.mixture(lambda rows: [row.example() for row in rows])
    if verify:
        pools, shares = material.with_share(pools, shares, "verify", verify, partial(verifications, plain=verified == "all"))
    course = Course(rate, schedule, warmup, decay, beta2, context.seed)
    amount = Amount(batch, epochs, steps, max_length, packed, together)
    return build_recipe(context, model, tune, material, pools, shares, amount, course, Tuner, label_smoothing=label_smoothing)
