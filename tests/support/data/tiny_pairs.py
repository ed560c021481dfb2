"""Pairs as a recipe leaves them: some pictures new, some only in the source dataset."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import PIL.Image
import PIL.ImageDraw

from qualm.registry.sample import IMAGES, SAMPLES
from qualm.runners.runtime.records import write_table


def png(colour: str, mark: str = "") -> bytes:
    data = io.BytesIO()
    picture = PIL.Image.new("RGB", (96, 64), colour)
    if mark:
        PIL.ImageDraw.Draw(picture).ellipse((30, 14, 66, 50), fill=mark)
    picture.save(data, "PNG")
    return data.getvalue()


def write_pairs(root: Path, n: int = 3, question: str = "What color is the ball?") -> tuple[Path, Path]:
    """n pairs each of two categories, in `test` and again in `train`; gives the recipe's folder and the source's."""
    recipe, source = root / "results" / "s" / "pairs" / "ours" / "inpainted", root / "results" / "s" / "data" / "scenes"
    rows: list[dict[str, Any]] = []
    for split in ("test", "train"):
        for i in range(n):
            for category in ("epistemic/extraneous", "aleatoric/temporal"):
                pair = f"{category[-4:]}{split}{i}"
                for member in "au":
                    new = member == "u" and category.startswith("ep")
                    answer = "red" if member == "a" else "There is no ball."
                    rows.append(
                        {"sample_id": f"{pair}-{member}", "pair_id": pair, "image_id": f"{'gone' if new else 'clean'}{i}", "split": split,
                         "question": question, "references": [answer], "choices": [], "category": category, "answerable": member == "a",
                         "source": "inpainted", "group": f"g{i}", "meta": {"proof": f"the ball of {pair} was taken out"}}
                    )  # fmt: skip
    write_table(recipe / "samples.parquet", rows, SAMPLES)
    new = [{"image_id": f"gone{i}", "image": {"bytes": png("#ddd8cc"), "path": ""}} for i in range(n)]
    old = [{"image_id": f"clean{i}", "image": {"bytes": png("#ddd8cc", "#c4472f"), "path": ""}} for i in range(n)]
    write_table(recipe / "images" / "00000.parquet", new, IMAGES)
    write_table(source / "images" / "00000.parquet", old, IMAGES)
    return recipe, source
