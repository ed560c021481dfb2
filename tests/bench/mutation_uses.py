"""Lines that are executed with a changed place: its statement in a function; for what runs at import, the functions that use its names."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.bench.mutation_sites import Mutant

PACKAGES = ("compiler", "registry", "runners")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def executed(mutant: Mutant, root: Path) -> Iterator[dict[str, set[int]]]:
    """Modules with lines, the best guess first."""
    tree = parsed(root / mutant.path)
    function = _function(tree, mutant.line)
    if function:
        yield {mutant.path: _statement(function, mutant.line)}
        yield {mutant.path: _body(function)}
    names = mutant.touched | _field(tree, mutant.line)
    places = {mutant.path: _using(tree, names)} | {
        path: _using(parsed(root / path), names) for path in sorted(importers(root).get(mutant.path, ())) if path != mutant.path
    }
    yield {path: lines for path, lines in places.items() if lines}
    yield {mutant.path: set[int]().union(*(_body(one) for one in _functions(tree)))}


def inside_function(mutant: Mutant, root: Path) -> bool:
    return _function(parsed(root / mutant.path), mutant.line) is not None


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_bytes())


@cache
def importers(root: Path) -> dict[str, set[str]]:
    """Modules -> those that import them."""
    table = defaultdict[str, set[str]](set)
    for file in (file for package in PACKAGES for file in (root / package).rglob("*.py")):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                module = name.removeprefix("qualm.").replace(".", "/")
                for path in (f"{module}.py", f"{module}/__init__.py"):
                    table[path].add(file.relative_to(root).as_posix())
    return table


def _functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def _body(function: Function) -> set[int]:
    return set(range(function.body[0].lineno, (function.end_lineno or 0) + 1))


def _function(tree: ast.AST, line: int) -> Function | None:
    """The innermost whose body has a line; signatures and decorators run with what is around them."""
    around = [function for function in _functions(tree) if line in _body(function)]
    return max(around, key=lambda function: function.lineno, default=None)


def _statement(function: Function, line: int) -> set[int]:
    """All lines of the innermost statement at a line; of one that holds others, its head."""
    around = [node for node in ast.walk(function) if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)]
    statement = max(around, key=lambda node: node.lineno)
    if statement is function:  # decorators of a function inside
        return _body(function)
    body = getattr(statement, "body", None)
    return set(range(statement.lineno, body[0].lineno if body else (statement.end_lineno or 0) + 1)) | {statement.lineno, line}


def _field(tree: ast.AST, line: int) -> set[str]:
    """The name that a class gives to what is declared at a line."""
    return {
        part.target.id
        for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
        for part in node.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and part.lineno <= line <= (part.end_lineno or 0)
    }  # fmt: skip


def _using(tree: ast.AST, names: set[str] | frozenset[str]) -> set[int]:
    """Lines of functions that are named so, or name something so."""
    lines = set[int]()
    for function in _functions(tree):
        used = {getattr(node, "id", getattr(node, "attr", None)) for node in ast.walk(function)}
        if function.name in names or names & used:
            lines |= _body(function)
    return lines
