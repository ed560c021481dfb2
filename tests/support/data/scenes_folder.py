"""A small dataset of scenes on disk, as the `data` stage leaves it."""

from pathlib import Path

import pytest
import yaml

import qualm.runners.stages.data as data
from qualm.registry.adapters import synthetic_scenes
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage

ABOUT = {"title": "Scenes", "licence": "CC0-1.0", "citation": "@misc{scenes,\n  title={Scenes}\n}", "source": "generated"}
"""What a card of the registry says, as the `data` stage is told it."""

ARGS = {"level": "easy", "format": "open", "train": 0, "val": 0, "test": 60, "questions": 3, "kinds": None}


def scenes_folder(root: Path, seed: int = 7, **arguments) -> Path:
    """Made under `root`, which must be the current folder; returns the dataset's folder."""
    params = {"dataset": "scenes", "card": "synthetic_scenes", "adapter": "synthetic_scenes", "args": {**ARGS, **arguments}, "limit": None}
    params["about"] = ABOUT
    outputs = {"dataset": "results/s/data/scenes", "card": "results/s/data/scenes.md"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthetic_scenes, "CHUNK", 4)  # whole chunks are drawn
        data.run(Stage("s/data-scenes", "s", "data-scenes", "data", params, {}, outputs, seed, Settings(workers=1, progress=False)))
    return root / outputs["dataset"]


def write_card_of(place: Path) -> str:
    """The card of a dataset that a test made by hand; its path."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"---\n{yaml.safe_dump({'qualm': {'sources': [ABOUT]}})}---\n", encoding="utf-8")
    return str(place)
