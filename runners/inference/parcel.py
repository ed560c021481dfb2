"""Files that a worker needs for a stage, by content: our package, the project's plugins and prompts, the stage's inputs."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import qualm
from qualm.registry.places import is_checkout, project_root
from qualm.registry.plugins.registry import KINDS, PROMPTS
from qualm.runners.inference.node import BUNDLE, CODE
from qualm.runners.runtime.intact import input_paths
from qualm.runners.runtime.stage import Stage

PIECE = 64 << 20
"""Bytes per object: a worker holds one at a time in memory."""
PACKAGES = ("project", "registry", "runners")
"""Our packages that a stage may import."""
LEFT_OUT = frozenset({"__pycache__", "data", "store"})
"""Folders of `registry` that hold data."""


class Parcel:
    """Files of a stage."""

    def __init__(self, stage: Stage) -> None:
        self._places = dict(_inputs(stage))
        self._bundle = _bundle()

    @cached_property
    def files(self) -> dict[str, str]:
        """Map each path in a worker's tree to its SHA-256."""
        return {BUNDLE: hashlib.sha256(self._bundle).hexdigest(), **{path: _digest(place) for path, place in self._places.items()}}

    def pieces(self, digest: str) -> Iterator[bytes]:
        """Yield a content piece by piece."""
        path = next(path for path, other in self.files.items() if other == digest)
        if path == BUNDLE:
            yield self._bundle
            return
        with self._places[path].open("rb") as file:
            # At least one piece, also of an empty file.
            yield file.read(PIECE)
            while piece := file.read(PIECE):
                yield piece


def _digest(place: Path) -> str:
    with place.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _inputs(stage: Stage) -> Iterator[tuple[str, Path]]:
    for path in input_paths(stage.inputs):
        files = [Path(path)] if Path(path).is_file() else [f for f in sorted(Path(path).rglob("*")) if f.is_file()]
        yield from ((file.as_posix(), file) for file in files)


def _bundle() -> bytes:
    """Zip all code, the same bytes for the same content."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as bundle:
        for path, place in sorted(dict(_sources()).items()):
            # ZipInfo without a date, so that equal code gives an equal bundle, which workers have already.
            bundle.writestr(zipfile.ZipInfo(path), place.read_bytes(), zipfile.ZIP_DEFLATED)
    return whole.getvalue()


def _sources() -> Iterator[tuple[str, Path]]:
    package = Path(qualm.__file__).parent
    yield from ((f"{CODE}/qualm/{file.name}", file) for file in package.glob("*.py"))
    for name in PACKAGES:
        yield from ((f"{CODE}/qualm/{path}", package / path) for path in _code(package, name))
    yield from ((f"{CODE}/qualm/{PROMPTS}/{file.name}", file) for file in (package / PROMPTS).glob("*.md"))
    root = project_root()
    if root is not None:
        yield "params.yaml", root / "params.yaml"  # by which, and a folder `specs`, a project is known
        yield "specs/README", package / "__init__.py"
        yield from ((f"{PROMPTS}/{file.name}", file) for file in (root / PROMPTS).glob("*.md"))
        if not is_checkout(root):
            for folder in sorted(set(KINDS.values())):
                yield from ((path, root / path) for path in _code(root, folder))


def _code(root: Path, name: str) -> Iterator[str]:
    for folder, folders, files in os.walk(root / name, followlinks=True):
        folders[:] = sorted(set(folders) - LEFT_OUT if Path(folder).name == "registry" else set(folders) - {"__pycache__"})
        yield from ((Path(folder) / file).relative_to(root).as_posix() for file in sorted(files) if not file.endswith(".pyc"))


def packed(stage: Stage) -> tuple[str, dict[str, Any]]:
    """Return a stage's key and content, to be sent to a worker."""
    raw = {name: getattr(stage, name) for name in ("kind", "params", "inputs", "outputs", "seed")}
    return stage.key, raw
