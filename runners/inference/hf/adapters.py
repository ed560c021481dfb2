"""peft adapters: a folder with adapter_config.json, merged into the model that it was trained from.

The folder can be loaded by plain peft. A model tuned twice is a chain of such folders.
"""

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qualm.registry.entries.model_folders import revision_fault
from qualm.registry.plugins.commits import COMMIT
from qualm.runners.contracts.models import ModelContext, ModelError

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


@dataclass(frozen=True)
class Base:
    """Location of a full model, and the adapters to merge into it, in order."""

    folder: Path | None
    hub: str | None
    revision: str | None
    adapters: tuple[Path, ...] = ()


def base_of(context: ModelContext, artifact: str | None, hub: str | None, revision: str | None, trust_remote_code: bool) -> Base:
    """Return where the model is: folder or hub name with commit; ModelError if they conflict.

    Raises:
        ModelError: they name none or two, a revision that is no commit, or remote code of a folder.
    """
    who = f"model '{context.label}'"
    folder = Path(artifact) if artifact else context.folder if hub is None else None
    if (folder is None) == (hub is None):
        raise ModelError(f"{who}: name exactly one of artifact and hub, got artifact={artifact!r}, hub={hub!r}")
    if hub is not None and (fault := revision_fault(hub, revision)):
        raise ModelError(f"{who}: {fault}")
    if trust_remote_code and hub is None:
        raise ModelError(f"{who}: trust_remote_code is for a hub model with a revision, not for the folder {folder}")
    return Base(folder, hub, revision)


def resolve_adapters(label: str, base: Base) -> Base:
    """Return the full model and the adapters of a chain of adapter folders, or ModelError.

    A full model is returned as it is.

    Raises:
        ModelError: its config does not name an available base model, or the chain is circular.
    """
    while base.folder is not None and (base.folder / CONFIG).is_file():
        folder, config = base.folder, read_config(label, base.folder)
        if folder in base.adapters:
            raise ModelError(
                f"model '{label}': {folder} is an adapter of itself; in its {CONFIG}, expected the base model as `base_model_name_or_path`"
            )
        name, revision = str(config.get("base_model_name_or_path") or ""), str(config.get("revision") or "")
        adapters = (folder, *base.adapters)
        if Path(name).is_dir():
            base = Base(Path(name), None, None, adapters)
        elif COMMIT.fullmatch(revision):
            base = Base(None, name, revision, adapters)
        else:
            raise ModelError(
                f"model '{label}': {folder / CONFIG} names the base model '{name}', which is neither a folder here nor a hub model with "
                "a commit as its revision; name the base yourself: `artifact: BASE, adapter: THIS`"
            )
    return base


def read_config(label: str, folder: Path) -> dict[str, Any]:
    """Return a folder's adapter_config.json; ModelError if invalid or no weights file exists."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"model '{label}': {folder / CONFIG}: expected the configuration of a peft adapter: {error}") from error
    if not (folder / WEIGHTS).is_file():
        raise ModelError(f"model '{label}': {folder}: expected {WEIGHTS}; pickled adapters are not read, convert them")
    if not isinstance(config, dict):
        raise ModelError(f"model '{label}': {folder / CONFIG}: expected a JSON object, got {type(config).__name__}")
    return config


def merge_adapter(label: str, module: Any, adapter: Path) -> Any:
    """Return a module with an adapter merged into its weights; ModelError if it does not fit."""
    from peft import PeftModel, get_peft_model_state_dict
    from safetensors import SafetensorError, safe_open

    read_config(label, adapter)
    try:
        with safe_open(adapter / WEIGHTS, framework="pt") as file:
            there = set(file.keys())
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated")  # between peft and transformers
            tuned = PeftModel.from_pretrained(module, str(adapter))
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, SafetensorError) as error:
        raise ModelError(
            f"model '{label}': the adapter {adapter} cannot be put on {type(module).__name__}: {error}; name the model it was trained on"
        ) from error
    expected = set(get_peft_model_state_dict(tuned))
    if there != expected:
        odd = ", ".join(sorted(there ^ expected)[:3])
        raise ModelError(
            f"model '{label}': the adapter {adapter} is of another model, with weights on one side only, such as {odd}; name the model it "
            "was trained on"
        )
    return tuned.merge_and_unload()
