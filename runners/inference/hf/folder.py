"""A transformers model as files in one folder: whether it is complete, and its digest."""

import hashlib
from pathlib import Path


def folder_fault(folder: Path) -> str:
    """What keeps a folder from being a model; empty if nothing does."""
    if not (folder / "config.json").is_file():
        return f"{folder}: expected config.json of a transformers model; `dvc pull {folder}.dvc` may bring it"
    if not any(folder.glob("*.safetensors")):
        return f"{folder}: expected weights as *.safetensors; pickled weights are not read, convert them"
    return ""


def folder_digest(folder: Path) -> str:
    """SHA-256 over names and content of every file of the model but its prose."""
    total = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        if name.startswith(".") or path.suffix == ".md":
            continue
        with path.open("rb") as handle:
            total.update(f"{name}\0{hashlib.file_digest(handle, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()
