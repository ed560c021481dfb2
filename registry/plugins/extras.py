"""Extras of the installation: libraries that only some plugins need.

A plugin declares by `EXTRA = "models"` that it needs one. Whether an extra is installed is found without importing it.
"""

from importlib.util import find_spec

EXTRAS: dict[str, tuple[str, ...]] = {
    "models": ("torch", "transformers", "lightning"),
    "train": ("torch", "transformers", "lightning", "peft", "tensorboard"),
    "pictures": ("cv2",),
    "quantize": ("torchao", "bitsandbytes"),
    "pages": ("gradio",),
    "tables": ("openpyxl",),
    "math": ("math_verify",),
    "video": ("av",),
    "photographs": ("skimage",),
    "vllm": ("vllm",),
    "cluster": ("ray",),
    "hub": ("huggingface_hub",),
}
"""Extra -> modules that it provides. pyproject.toml lists the distributions."""


def is_installed(extra: str) -> bool:
    """Return whether all modules of an extra can be found, without importing them."""
    return all(_is_there(module) for module in EXTRAS[extra])


def extra_of(module: str) -> str | None:
    """Return the first extra that provides a module's top package; None if none does."""
    return next((extra for extra, modules in EXTRAS.items() if module.partition(".")[0] in modules), None)


def install_line(*extras: str) -> str:
    """Return the command that installs these extras of Qualm, as one line.

    >>> install_line("train", "models")
    "pip install 'qualm-bench[models,train]'"
    """
    return f"pip install 'qualm-bench[{','.join(sorted(set(extras)))}]'"


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:
        return False
