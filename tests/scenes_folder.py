"""A small data set of scenes on disk, as the `data` stage leaves it."""

from pathlib import Path

import runners.data as data
from runners.settings import Settings
from runners.stage import Stage

ARGS = {"level": "easy", "format": "open", "train": 0, "val": 0, "test": 60, "questions": 3, "kinds": None}


def scenes_folder(root: Path, **arguments) -> Path:
    """Made under `root`, which must be the current folder; returns the data set's folder."""
    params = {"dataset": "scenes", "card": "synthetic_scenes", "adapter": "synthetic_scenes", "args": {**ARGS, **arguments}, "limit": None}
    outputs = {"dataset": "results/s/data/scenes"}
    data.run(Stage("s/data-scenes", "s", "data-scenes", "data", params, {}, outputs, 7, Settings(workers=1, progress=False)))
    return root / outputs["dataset"]
