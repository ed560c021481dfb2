"""Direct preference optimisation (Rafailov et al., NeurIPS 2023): each pair member's own answer is preferred to its partner's.

The pairs are CertainlyUncertain's (section 4), the settings those of Silkie (Li et al., 2023), which CertainlyUncertain follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge, Gt, Lt

from qualm.registry.plugins.registry import Chosen, DatasetName, Kind, ModelName
from qualm.runners.contracts.finetunes import FinetuneContext, TrainingRecipe

if TYPE_CHECKING:
    from qualm.runners.training.examples import Row, TrainingExample

CITES = ["rafailov2023direct", "chandu2025certainlyuncertain"]
EXTRA = "train"
LOADS_WITH = "hf_vlm"


def dpo(
    context: FinetuneContext,
    *,
    base: ModelName,
    train: list[DatasetName],
    weights: list[Annotated[float, Gt(0.0)]] | None = None,
    tune: Annotated[Chosen, Kind("tunings")] = "lora",
    beta: Annotated[float, Gt(0.0)] = 0.1,
    label_smoothing: Annotated[float, Ge(0.0), Lt(0.5)] = 0.0,
    sft_weight: Annotated[float, Ge(0.0)] = 0.0,
    rate: Annotated[float, Gt(0.0)] = 1e-5,
    schedule: Literal["cosine", "linear", "constant"] = "cosine",
    warmup: Annotated[float, Ge(0.0), Lt(1.0)] = 0.1,
    decay: Annotated[float, Ge(0.0)] = 0.05,
    beta2: Annotated[float, Gt(0.0), Lt(1.0)] = 0.98,
    batch: Annotated[int, Ge(1)] = 256,
    epochs: Annotated[float, Gt(0.0)] = 3.0,
    steps: Annotated[int, Ge(1)] | None = None,
    max_length: Annotated[int, Ge(1)] | None = 2048,
    packed: bool = False,
    together: Annotated[int, Ge(1)] = 1,
) -> TrainingRecipe:
    """Return a recipe that prefers a pair member's own answer to its partner's (DPO).

    Loss = - ln sigmoid(beta [(ln pi(own) - ln ref(own)) - (ln pi(other) - ln ref(other))]), mean over the batch; ln pi is summed over
    the answer's tokens, end of turn included; the reference is the base model (adapter off, or a frozen copy). Lower is better.
    If a row has a worse answer of its own (`meta.rejected`, from rated preferences), its answer is preferred to that one. Rows without
    either and pairs with equal answers are left out and counted.

    Args:
        base: model of this spec to start from, and to compare with.
        train: datasets with contrastive pairs, or with rated preferences, of split `train`.
        weights: sampling ratios of `train`; null takes every row equally often.
        tune: which weights are trained: `lora` or `full`.
        beta: how strongly the model is held to the reference.
        label_smoothing: assumed probability that a preference is the wrong way round.
        sft_weight: weight of the chosen answers' mean loss per token, added.
        rate: highest learning rate of AdamW.
        schedule: how it falls after the warm-up.
        warmup: share of the steps in which it rises.
        decay: weight decay of matrices.
        beta2: of AdamW.
        batch: preferences in a step, on all devices together.
        epochs: passes over as many preferences as there are.
        steps: steps in all, instead of `epochs`.
        max_length: preferences with an answer that ends beyond this many tokens are dropped and counted.
        packed: put several answers in a row, if that leaves the model's losses as they are.
        together: number of successive examples on one image; packed, they share the image's tokens.

    Raises:
        FinetuneError: no pairs to train on, or a model that cannot be trained so.
    """
    from qualm.runners.training import examples
    from qualm.runners.training.recipe import Amount, Material, build_recipe, trainable_model
    from qualm.runners.training.tuner import Course, Preferer

    model = trainable_model(context, base)
    material = Material(context, train, weights)

    def preferences(rows: Sequence[Row]) -> list[TrainingExample]:
        pairs = examples.preferences(rows)
        if len(pairs) < len(rows):
            context.count(**{"dropped (no partner with another answer)": len(rows) - len(pairs)})
        return pairs

    pools, shares = material.mixture(preferences)
    course = Course(rate, schedule, warmup, decay, beta2, context.seed)
    amount = Amount(batch, epochs, steps, max_length, packed, together)
    options = {"beta": beta, "smoothing": label_smoothing, "sft_weight": sft_weight}
    return build_recipe(context, model, tune, material, pools, shares, amount, course, Preferer, **options)
