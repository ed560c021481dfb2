"""Quantized weights: options for `from_pretrained`, and a check that they took effect.

Only weights of the language model's linear layers are quantised; activations, embedding, output layer and the vision part keep their dtype.
A method that quantises activations too (LLM.int8 of bitsandbytes looks for outliers over the whole batch) would make an answer depend on
the rest of its batch, and is not offered.
"""

from importlib.util import find_spec
from typing import Any

from qualm.registry.plugins.extras import install_line
from qualm.runners.contracts.models import ModelError

PACKAGES = {"int8": "torchao", "int4": "torchao", "nf4": "bitsandbytes"}
"""Form -> package that implements it."""

KEPT = [r".*(vision|visual|projector|connector|image_to_text)[^.]*", r".*lm_head", r".*embed_tokens"]
"""Patterns of modules that are not quantised."""


def quantization_arguments(owner: str, form: str, dtype: str) -> dict[str, Any]:
    """Return `from_pretrained` arguments of a quantisation, {} for `none`; else ModelError.

    Args:
        form: `none`, `int8` (8 bits, one scale a row), `int4` (4 bits, a scale for every 32 weights; on CUDA) or `nf4` (4 bits on the
            quantiles of a normal distribution, a scale for every 64 weights).

    Raises:
        ModelError: the package is not installed, or does not support this dtype.
    """
    if form == "none":
        return {}
    package = PACKAGES[form]
    if find_spec(package) is None:
        raise ModelError(f"{owner}: quantization {form} needs {package}; `{install_line('quantize')}`, or leave it out")
    import torch
    from transformers import BitsAndBytesConfig, TorchAoConfig

    if package == "bitsandbytes":
        options = {"llm_int8_skip_modules": KEPT, "bnb_4bit_compute_dtype": getattr(torch, dtype)}
        return {"quantization_config": BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", **options)}
    from torchao.quantization import Int4WeightOnlyConfig, Int8WeightOnlyConfig  # type: ignore[import-not-found]

    if form == "int4" and dtype != "bfloat16":
        raise ModelError(f"{owner}: quantization int4 computes in bfloat16, and dtype is {dtype}; write `dtype: bfloat16`")
    how = Int8WeightOnlyConfig() if form == "int8" else Int4WeightOnlyConfig(group_size=32)
    return {"quantization_config": TorchAoConfig(how, modules_to_not_convert=KEPT)}


def verify_quantization(owner: str, form: str, module: Any) -> None:
    """Raise ModelError unless exactly the LM's linear layers except its head are quantised.

    The head and the vision part (`KEPT`) must not be. `none` is not checked.
    """
    import re

    import torch

    if form == "none":
        return
    unquantized = re.compile("|".join(f"(?:{pattern})" for pattern in KEPT))
    wrong = []
    for name, layer in module.named_modules():
        if isinstance(layer, torch.nn.Linear):
            small = type(layer.weight) is not torch.nn.Parameter
            if small == bool(unquantized.match(name)):
                wrong.append(name)
    if wrong:
        raise ModelError(
            f"{owner}: quantization {form}: {len(wrong)} linear layers were not converted as asked, such as {wrong[0]}; "
            "this architecture cannot be quantised so; take `quantization: none`"
        )
