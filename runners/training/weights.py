"""Find and save weights: modules by pattern, the vision tower, files beside the weights."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.runners.contracts.finetunes import FinetuneError

if TYPE_CHECKING:
    from qualm.runners.inference.hf.model import HfVlm

_BESIDE = ("*.json", "*.jinja", "*.model", "*.txt")
"""Files of tokenizer, processor and chat template."""
_NOT_BESIDE = {"config.json", "generation_config.json", "adapter_config.json", "model.safetensors.index.json"}


def vision_tower(network: Any) -> Any | None:
    """Return a network's vision encoder; None if transformers cannot tell which it is."""
    encoder = network.get_encoder(modality="image")
    return None if encoder is network or encoder is network.base_model else encoder


def matching_modules(network: Any, pattern: str, *, vision: bool, linear: bool) -> list[str]:
    """Return matching module names (`vision`: encoder's too; `linear`: Linear only), or raise.

    Args:
        pattern: regular expression of a whole name, or of its end after a dot: `[qv]_proj`, `.*language_model.*mlp.*`.

    Raises:
        FinetuneError: no module matches, or the pattern is not a regular expression.
    """
    import torch

    try:
        regex = re.compile(rf"(?:.*\.)?(?:{pattern})")
    except re.error as error:
        raise FinetuneError(f"pattern '{pattern}': expected a regular expression over names of modules: {error}") from error
    tower = None if vision else vision_tower(network)
    unseen = set() if tower is None else {id(m) for m in tower.modules()}
    candidates = {
        name: module
        for name, module in network.named_modules()
        if name and id(module) not in unseen and (not linear or isinstance(module, torch.nn.Linear))
    }
    names = [name for name in candidates if regex.fullmatch(name)]
    if not names:
        ends = sorted({name.rpartition(".")[2] for name in candidates} - {""})
        raise FinetuneError(f"pattern '{pattern}': no {'linear layer' if linear else 'module'} fits; their names end in {', '.join(ends)}")
    return names


def copy_processor(model: HfVlm, folder: Path) -> None:
    """Write a model's tokenizer, processor and chat template files into a folder."""
    if model.base.folder is None:
        model.processor.save_pretrained(folder)
        return
    for pattern in _BESIDE:
        for file in model.base.folder.glob(pattern):
            if file.name not in _NOT_BESIDE:
                shutil.copyfile(file, folder / file.name)
