"""The syntax of all our modules, parsed once per process: a dozen tests look through it, and parsing takes seconds."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def syntax_nodes(*packages: str) -> dict[str, list[ast.AST]]:
    """Return the nodes of each module of some packages in the order of `ast.walk`, by the file's path from the root."""
    return {file: nodes for package in packages for file, nodes in _nodes(package).items()}


@cache
def _nodes(package: str) -> dict[str, list[ast.AST]]:
    files = sorted(file for file in (ROOT / package).rglob("*.py") if not file.is_symlink())
    # Garbage collections would look through the growing trees again and again: half of the time.
    gc.disable()
    try:
        return {file.relative_to(ROOT).as_posix(): [*ast.walk(ast.parse(file.read_text(encoding="utf-8")))] for file in files}
    finally:
        gc.freeze()
        gc.enable()


def fixed_texts(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.expr, str]]:
    """Yield the strings of a module with their texts, `...` for what is filled in; no docstrings, and no parts of longer texts."""
    hidden = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    hidden |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield node, "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden:
            yield node, node.value
