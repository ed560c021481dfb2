"""A small VLM trained from scratch on synthetic scenes, without unanswerable questions.

The architecture is LLaVA's (Haotian Liu, Chunyuan Li, Qingyang Wu, Yong Jae Lee, "Visual Instruction Tuning", NeurIPS
2023): a CLIP vision tower, a projector, a causal language model, each from its transformers configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Gt

from qualm.runners.contracts.finetunes import FinetuneContext, TrainingRecipe

if TYPE_CHECKING:
    from qualm.registry.plugins.registry import DatasetName

EXTRA = "train"


def scratch_vlm(
    context: FinetuneContext,
    *,
    train: list[DatasetName],
    heldout: list[DatasetName] | None = None,
    looking: Annotated[int, Ge(0)] = 600,
    steps: Annotated[int, Ge(1)] = 3000,
    batch: Annotated[int, Ge(1)] = 32,
    questions: Annotated[int, Ge(1)] = 7,
    options: Annotated[int, Ge(0)] = 2,
    rate: Annotated[float, Gt(0.0)] = 0.0015,
    cell_weight: Annotated[float, Ge(0.0)] = 0.3,
    point_weight: Annotated[float, Ge(0.0)] = 0.3,
    width: Annotated[int, Ge(8)] = 128,
    layers: Annotated[int, Ge(1)] = 4,
    heads: Annotated[int, Ge(1)] = 8,
    vision_layers: Annotated[int, Ge(1)] = 2,
    patch: Annotated[int, Ge(2)] = 8,
) -> TrainingRecipe:
    """Return a recipe of a LLaVA-style model from scratch on `synthetic_scenes` datasets.

    Questions are drawn afresh from the scene graphs at every step; the datasets' own questions are not used.

    Args:
        train: datasets of one level whose scenes are trained on.
        heldout: datasets whose samples are answered every 500 steps, for the log's `heldout/...` columns.
        looking: steps in which the vision tower alone learns to label the image's cells.
        steps: steps in all, those included.
        batch: images in a step.
        questions: open-ended questions about each of them.
        options: multiple-choice questions about each of them, in the last 70% of the steps.
        rate: highest learning rate of AdamW.
        cell_weight: weight of the cell labels' loss once questions are asked.
        point_weight: weight of attending to the objects that a question means.
        width: of both towers.
        layers: of the language model.
        heads: of every attention.
        vision_layers: of the vision tower.
        patch: side of an image token in pixels.

    Raises:
        FinetuneError: a dataset has no scenes, or their levels differ.
    """
    import torch

    from qualm.runners.training.curriculum import Curriculum
    from qualm.runners.training.data import build_tokenizer, vocabulary
    from qualm.runners.training.evaluation import Evaluation
    from qualm.runners.training.learner import Learner
    from qualm.runners.training.network import build_model, build_processor
    from qualm.runners.training.pictures import read_pictures

    pictures = read_pictures([context.dataset(name) for name in train], patch)
    pixels = pictures.pixels.shape[1]
    tokenizer = build_tokenizer(vocabulary())
    torch.manual_seed(context.seed)
    model = build_model(tokenizer, pixels=pixels, patch=patch, width=width, layers=layers, heads=heads, vision_layers=vision_layers)
    learner = Learner(model, tokenizer, looking=looking, steps=steps, rate=rate, cell_weight=cell_weight, point_weight=point_weight)
    curriculum = Curriculum(pictures, tokenizer, context.seed, (pixels // patch) ** 2, looking, steps, batch, questions, options)
    evaluation = Evaluation(learner, curriculum, {name: context.dataset(name) for name in heldout or []})

    def save(folder: Path, state: Mapping[str, Any]) -> None:
        model.save_pretrained(folder)
        build_processor(tokenizer, pixels=pixels, patch=patch).save_pretrained(folder)

    def evaluate() -> Mapping[str, Any]:
        return evaluation()

    return TrainingRecipe(learner, curriculum, steps, save, evaluate)
