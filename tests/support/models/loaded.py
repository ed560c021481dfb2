"""Models of a folder, loaded."""

from pathlib import Path
from typing import Any

from qualm.runners.contracts.models import ModelContext
from qualm.runners.inference.hf.model import HfVlm
from qualm.runners.plugins.models.hf_vlm import hf_vlm


def loaded_model(folder: Path, label: str = "m", **args: Any) -> HfVlm:
    """The model of a folder."""
    model = hf_vlm(ModelContext(label, folder), **args)
    model.load()
    return model
