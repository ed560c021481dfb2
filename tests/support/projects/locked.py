"""Entries of locks, as DVC would write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qualm.registry.system.dvc_files import find_dvc_file
from qualm.registry.system.dvc_objects import hash_path


def locked_dep(root: Path, path: str, md5: str | None = None) -> dict[str, Any]:
    """Return the lock's entry of a dependency as it is now, or with a given hash."""
    digest = md5 or hash_path(root, path) or (find_dvc_file(root, path) or ("", None))[1]
    place = root / path
    executable = {"isexec": True} if place.is_file() and place.stat().st_mode & 0o111 else {}
    return {"path": path, "hash": "md5", "md5": digest, **executable}
