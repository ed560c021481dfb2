"""A small random CLIP whose attention differs from patch to patch."""

from __future__ import annotations

from pathlib import Path

from tests.support.models.tiny_parts import bytes_tokenizer

SIDE, PATCH, GRID, WIDTH, HEADS = 32, 8, 4, 16, 2


def tiny_clip(place: Path) -> Path:
    import torch

    from qualm.runners.training.matching import build_clip, image_processor

    torch.manual_seed(3)
    tokenizer = bytes_tokenizer(["<pad>", "<eos>"], "<eos>", "<pad>")
    model = build_clip(tokenizer, pixels=SIDE, patch=PATCH, width=WIDTH, layers=3, heads=HEADS)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    model.save_pretrained(place)
    image_processor(SIDE).save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place
