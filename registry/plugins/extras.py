"""Extras of the installation: the libraries that only some plugins need, which a light installation leaves out.

A plugin declares by `EXTRA = "models"` that it runs only with these; whether they are there is found without importing any.
"""

from importlib.util import find_spec

EXTRAS: dict[str, tuple[str, ...]] = {
    "models": ("torch", "transformers", "lightning"),
    "train": ("torch", "transformers", "lightning", "peft", "tensorboard"),
    "pictures": ("cv2",),
    "quantize": ("torchao", "bitsandbytes"),
    "pages": ("gradio",),
    "tables": ("openpyxl",),
    "video": ("av",),
    "vllm": ("vllm",),
    "cluster": ("ray",),
    "hub": ("huggingface_hub",),
}
"""Extra -> what is imported with it. pyproject.toml says by which distributions it is installed."""


def is_installed(extra: str) -> bool:
    """Whether everything of an extra can be imported."""
    return all(_is_there(module) for module in EXTRAS[extra])


def extra_of(module: str) -> str | None:
    """The first extra that brings a module, for errors; None where none does."""
    return next((extra for extra, modules in EXTRAS.items() if module.partition(".")[0] in modules), None)


def install_line(*extras: str) -> str:
    """The command that installs extras.

    >>> install_line("train", "models")
    "pip install 'qualm-bench[models,train]'"
    """
    return f"pip install 'qualm-bench[{','.join(sorted(set(extras)))}]'"


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:
        return False
