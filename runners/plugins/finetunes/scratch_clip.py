"""A small CLIP trained from scratch on synthetic scenes, for `clip_mask` without a published CLIP.

Alec Radford et al., "Learning Transferable Visual Models From Natural Language Supervision", ICML 2021.
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


def scratch_clip(
    context: FinetuneContext,
    *,
    train: list[DatasetName],
    heldout: DatasetName | None = None,
    steps: Annotated[int, Ge(1)] = 600,
    batch: Annotated[int, Ge(2)] = 96,
    rate: Annotated[float, Gt(0.0)] = 0.001,
    width: Annotated[int, Ge(8)] = 96,
    layers: Annotated[int, Ge(1)] = 3,
    heads: Annotated[int, Ge(1)] = 4,
    patch: Annotated[int, Ge(2)] = 8,
) -> TrainingRecipe:
    """Return a recipe of a `CLIPModel` that matches synthetic scenes with lists of objects.

    The folder loads with transformers' CLIPModel, its image processor and tokenizer. It is not a model that answers questions, so the
    spec that makes it evaluates nothing; others name it as `SPEC:MODEL`.

    Args:
        train: datasets of one level whose scenes are trained on.
        heldout: a dataset whose images are matched with their lists at times, for the log's `heldout/matched`.
        steps: steps in all.
        batch: images in a step, each contrasted with all others.
        rate: highest learning rate of AdamW.
        width: of both towers.
        layers: of both towers.
        heads: of every attention.
        patch: side of an image token in pixels.

    Raises:
        FinetuneError: a dataset has no scenes, or their levels differ.
    """
    import torch

    from qualm.runners.training.data import build_tokenizer
    from qualm.runners.training.matching import Matcher, Matches, build_clip, image_processor, listing
    from qualm.runners.training.pictures import read_pictures

    pictures = read_pictures([context.dataset(name) for name in train], patch)
    pixels = pictures.pixels.shape[1]
    tokenizer = build_tokenizer([listing(scene) for scene in pictures.scenes])
    torch.manual_seed(context.seed)
    model = build_clip(tokenizer, pixels=pixels, patch=patch, width=width, layers=layers, heads=heads)
    matches = Matches(pictures, tokenizer, context.seed, batch)
    others = Matches(read_pictures([context.dataset(heldout)], patch), tokenizer, context.seed, 100) if heldout else None

    def save(folder: Path, state: Mapping[str, Any]) -> None:
        model.save_pretrained(folder)
        image_processor(pixels).save_pretrained(folder)
        tokenizer.save_pretrained(folder)

    def evaluate() -> Mapping[str, float]:
        if others is None:
            return {}
        inputs = others(0)
        with torch.no_grad():
            likeness = model.eval()(**{name: value.to(model.device) for name, value in inputs.items()}).logits_per_image
        model.train()
        right = likeness.argmax(dim=1) == torch.arange(len(likeness), device=likeness.device)
        return {"heldout/matched": float(right.float().mean())}

    return TrainingRecipe(Matcher(model, steps, rate), matches, steps, save, evaluate)
