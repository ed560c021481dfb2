"""A small CLIP that learns to match images of scenes with lists of their objects."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import lightning
import numpy as np

from qualm.registry.scenes.questions import noun_phrase
from qualm.registry.scenes.world import LEVELS, Scene
from qualm.runners.training.pictures import MEAN, STD, ScenePictures, normalise


def listing(scene: Scene) -> str:
    """Return a scene's objects from left to right: "large red cube, small blue sphere"."""
    attributes = LEVELS[scene["level"]].attributes
    order = sorted(scene["objects"], key=lambda thing: thing["pixel_coords"][0])
    return ", ".join(noun_phrase({a: thing[a] for a in attributes}) for thing in order)


def build_clip(tokenizer: Any, *, pixels: int, patch: int, width: int, layers: int, heads: int) -> Any:
    """Create an untrained CLIP of hidden size `width`; weights follow from torch's seed."""
    from transformers import CLIPConfig, CLIPModel

    shared = {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers, "num_attention_heads": heads}
    ends = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    text = {**shared, **ends, "vocab_size": len(tokenizer), "max_position_embeddings": 128, "projection_dim": width}
    vision = {**shared, "image_size": pixels, "patch_size": patch, "projection_dim": width}
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=width))


def image_processor(pixels: int) -> Any:
    """Create a CLIP image processor that scales images to `pixels`; needs only Pillow."""
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    size = {"height": pixels, "width": pixels}
    return CLIPImageProcessorPil(size=size, crop_size=size, do_center_crop=False, resample=3, image_mean=[MEAN] * 3, image_std=[STD] * 3)


class Matcher(lightning.LightningModule):  # type: ignore[misc]
    """Lightning module that trains a CLIP to match images and texts.

    Radford et al., ICML 2021, arXiv:2103.00020.
    """

    def __init__(self, model: Any, steps: int, rate: float) -> None:
        super().__init__()
        self.model, self.steps, self.rate = model, steps, rate

    def training_step(self, batch: Mapping[str, Any], batch_idx: int) -> Any:
        loss = self.model(**batch, return_loss=True).loss
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        import torch

        optimizer = torch.optim.AdamW(self.parameters(), self.rate, weight_decay=0.05)
        rise = max(1, self.steps // 20)

        def scale(step: int) -> float:
            return min(1.0, (step + 1) / rise) * 0.5 * (1 + math.cos(math.pi * min(1.0, step / self.steps)))

        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": torch.optim.lr_scheduler.LambdaLR(optimizer, scale), "interval": "step"},
        }


class Matches:
    """Function that returns a step's batch of images with their object lists, all different."""

    def __init__(self, pictures: ScenePictures, tokenizer: Any, seed: int, batch: int) -> None:
        self.pictures, self.tokenizer, self.seed, self.batch = pictures, tokenizer, seed, batch
        self.listings = [listing(scene) for scene in pictures.scenes]

    def __call__(self, step: int) -> dict[str, Any]:
        order = np.random.default_rng([self.seed, step]).permutation(len(self.listings))
        first: dict[str, int] = {}
        for row in order:
            first.setdefault(self.listings[row], int(row))
            if len(first) == self.batch:
                break
        return self.tensors(list(first.values()))

    def tensors(self, rows: Sequence[int]) -> dict[str, Any]:
        import torch

        end = self.tokenizer.eos_token
        text = self.tokenizer([self.listings[row] + end for row in rows], padding=True, padding_side="right", return_tensors="pt")
        pixels = torch.from_numpy(normalise(self.pictures.pixels[list(rows)]))
        return {"input_ids": text["input_ids"], "attention_mask": text["attention_mask"], "pixel_values": pixels}
