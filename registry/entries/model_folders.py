"""Folders of transformers models: completeness and digest."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qualm.registry.plugins.commits import COMMIT
from qualm.registry.system import textfiles
from qualm.registry.system.textfiles import TextFileError

PROCESSORS = ("processor_config.json", "preprocessor_config.json")
"""Image processor of newer and older versions of transformers."""
TOKENIZERS = ("tokenizer*", "vocab.*", "merges.txt", "*.model", "*.tiktoken", "tekken.json")
"""Files of which any one can be read as a tokenizer or part of one."""


def folder_fault(folder: Path) -> str:
    """Return why a folder lacks a model's config or weights; "" if it has both."""
    if not (folder / "config.json").is_file():
        return f"{folder}: expected config.json of a transformers model; `dvc pull {folder}.dvc` may bring it"
    if not any(folder.glob("*.safetensors")):
        return f"{folder}: expected weights as *.safetensors; pickled weights are not read, convert them"
    return ""


class FolderError(Exception):
    """A model's folder cannot be determined, or is not on this disk; the message says why."""


def model_folder(artifact: str | None, hub: str | None, revision: str | None) -> Path:
    """Return a model's local folder, its `artifact` or the fetched hub model; or FolderError.

    Raises:
        FolderError: nothing or both name it, the hub model has no commit, or it is not on this disk.
    """
    if (artifact is None) == (hub is None):
        raise FolderError(f"name exactly one of artifact and hub, got artifact={artifact!r}, hub={hub!r}")
    if hub is None:
        return Path(artifact or "")
    if fault := revision_fault(hub, revision):
        raise FolderError(fault)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(hub, revision=revision, local_files_only=True))
    except LocalEntryNotFoundError:
        raise FolderError(f"{hub} at {revision} is not on this disk; `qualm fetch SPEC` brings it") from None


def complete_folder(artifact: str | None, hub: str | None, revision: str | None) -> Path:
    """Return the local folder of a model; FolderError if it lacks config or weights.

    Raises:
        FolderError: as for `model_folder`, or the folder is incomplete.
    """
    folder = model_folder(artifact, hub, revision)
    if fault := folder_fault(folder):
        raise FolderError(fault)
    return folder


def revision_fault(hub: str, revision: str | None) -> str:
    """Return why a hub model's revision is not usable; "" if it is a commit."""
    if COMMIT.fullmatch(revision or ""):
        return ""
    return f"{hub}: its revision {revision or 'main'!r} has no commit in registry/fetch.lock; `qualm fetch SPEC` looks it up and pins it"


def is_adapter(folder: Path) -> bool:
    """Return whether a folder holds a peft adapter instead of a full model."""
    return (folder / "adapter_config.json").is_file()


def is_text_only(config: Mapping[str, Any]) -> bool:
    """Return whether a config.json has no part that reads images."""
    return not any(name in config for name in ("vision_config", "visual", "image_token_id", "image_token_index", "mm_vision_tower"))


def is_text_only_folder(folder: Path) -> bool:
    """Return whether a folder holds a text-only model; False if its config is unreadable."""
    try:
        config = json.loads(textfiles.read_text(folder / "config.json"))
    except (TextFileError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and is_text_only(config)


def model_fault(folder: Path) -> str:
    """Return why a folder holds neither a complete model nor an adapter; "" if it does.

    A model needs weights, a tokenizer and, unless it is text-only, an image processor.
    """
    if is_adapter(folder):
        return ""
    if fault := folder_fault(folder):
        return fault
    advice = "`processor.save_pretrained(FOLDER)` writes it beside the weights, then `qualm data add` the folder again"
    if not is_text_only_folder(folder) and not any((folder / name).is_file() for name in PROCESSORS):
        return f"{folder}: expected a processor ({' or '.join(PROCESSORS)}), which says how images are prepared; {advice}"
    if not any(next(folder.glob(pattern), None) for pattern in TOKENIZERS):
        return f"{folder}: expected a tokenizer (tokenizer.json, tokenizer.model, vocab.json...); {advice}"
    return ""


def default_template(template: object) -> str:
    """Return a dict's "default" chat template or ""; any other template as text."""
    return str(template.get("default", "") if isinstance(template, dict) else template)


def folder_digest(folder: Path) -> str:
    """Return the SHA-256 of a folder's file names and contents, without hidden and .md files."""
    total = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        if any(part.startswith(".") for part in name.split("/")) or path.suffix == ".md":
            continue
        with path.open("rb") as handle:
            total.update(f"{name}\0{hashlib.file_digest(handle, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()
