"""What a stage depends on: the files that implement its modules (`qualm.registry.plugins.imports`).

It depends on exactly these, so that editing one plugin re-executes the stages that use it and no other.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from qualm.registry.formats import textfiles
from qualm.registry.plugins import imports
from qualm.runners.runtime.code_digest import parted


def closure(modules: Iterable[str], root: Path) -> dict[str, Path]:
    """What implements these modules: the names and files of them and of all that they import.

    An empty file of a package says nothing and is left out. Files below the root go by their paths from there.

    Args:
        modules: dotted names, of ours or of other packages.
        root: the folder that holds our packages.
    """
    names = list(modules)
    roots = {first: place for name in names for first, place in imports.roots_of(name, root).items()}
    files = imports.closure(names, roots)
    telling = {name: path for name, path in files.items() if path.name != "__init__.py" or path.stat().st_size}
    return {path.relative_to(root).as_posix() if path.is_relative_to(root) else name: path for name, path in telling.items()}


def by_version(modules: Iterable[str], root: Path) -> tuple[dict[str, int], dict[str, Path]]:
    """The same of code of ours by its versions, where they are not the first, and of all other code by its files."""
    names = list(modules)
    roots = {first: place for name in names for first, place in imports.roots_of(name, root).items()}
    plugins, versions, rest = parted(imports.closure(names, roots))
    raised = {name: number for name, number in sorted({**plugins, **versions}.items()) if number != 1}
    return raised, {path.relative_to(root).as_posix() if path.is_relative_to(root) else name: path for name, path in rest.items()}


def content_digest(files: Mapping[str, Path]) -> str:
    """SHA-256 of files, names and bytes: what stands for them where they lie outside of the project that uses them."""
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(f"{name}\0{_file_digest(path)}\n".encode())
    return digest.hexdigest()


@cache
def _file_digest(path: Path) -> str:
    return hashlib.sha256(textfiles.read_bytes(path, 1 << 30)).hexdigest()
