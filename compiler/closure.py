"""Which files of this repository implement a stage: the import closure of its modules, read from their source.

A stage depends on exactly these files, so that editing one plugin re-executes the stages that use it and no other.
"""

from __future__ import annotations

import ast
import hashlib
import posixpath
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

PACKAGES = ("registry", "runners")

EXECUTION = frozenset(f"runners/{name}.py" for name in ("__main__", "limits", "openai_client", "servers", "settings"))
"""What starts a stage and what changes speed only: no content, so no dependency."""


def closure(files: Iterable[str], root: Path) -> tuple[str, ...]:
    """The given files and all repo modules they import, at any depth and also inside functions; sorted, root-relative."""
    found: set[str] = set()
    todo = list(files)
    while todo:
        file = todo.pop()
        if file in found or file in EXECUTION or _empty_package(root / file):
            continue
        found.add(file)
        todo.extend(_imports(root, file))
    return tuple(sorted(found))


def content_digest(files: Iterable[str], root: Path) -> str:
    """SHA-256 of these files, names and bytes: what stands for them where they lie outside of the project that uses them."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file}\0{_file_digest(root / file)}\n".encode())
    return digest.hexdigest()


@cache
def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _empty_package(path: Path) -> bool:
    return path.name == "__init__.py" and path.stat().st_size == 0


@cache
def _imports(root: Path, file: str) -> tuple[str, ...]:
    if not file.endswith(".py"):
        return ()
    path = root / file
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    here = Path(file).parent.as_posix().replace("/", ".")
    found = list(_packages(root, file))
    for node in _statements(tree.body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found += _module(root, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, here)
            found += _module(root, base)
            for alias in node.names:
                found += _module(root, f"{base}.{alias.name}")
        elif isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "ASSETS" for t in node.targets):
            found += [posixpath.normpath(f"{Path(file).parent.as_posix()}/{asset}") for asset in ast.literal_eval(node.value)]
    return tuple(dict.fromkeys(found))


def _statements(block: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Those in a block and in the blocks within it, but none that only a type checker reads; their expressions are not looked at."""
    for node in block:
        if not _type_checking(node):
            yield node
            for inner in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from _statements(getattr(node, inner, ()))


def _type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _base(node: ast.ImportFrom, here: str) -> str:
    if node.level == 0:
        return node.module or ""
    parts = here.split(".")
    parts = parts[: len(parts) - (node.level - 1)]
    return ".".join([*parts, *(node.module or "").split(".")]).strip(".")


def _module(root: Path, name: str) -> list[str]:
    """The file of a module of ours and of the packages above it; nothing for other packages."""
    if name.split(".")[0] not in PACKAGES:
        return []
    base = name.replace(".", "/")
    for file in (f"{base}.py", f"{base}/__init__.py"):
        if (root / file).is_file():
            return [file, *_packages(root, file)]
    return []


def _packages(root: Path, file: str) -> list[str]:
    parents = [f"{parent.as_posix()}/__init__.py" for parent in Path(file).parents if parent != Path()]
    return [p for p in parents if p != file and (root / p).is_file()]
