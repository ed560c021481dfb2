"""Product code uses the documented interface of other libraries: no name of theirs that begins with an underscore."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.checks.sources import syntax_nodes

FOLDERS = ("compiler", "registry", "runners", "qualm")
ALLOWED = {
    "_exit": "os._exit is documented: a forked child ends without the parent's cleanup",
    "_Unpickler": "Python's own unpickler: the C one allocates whatever sizes a hostile file names before find_class is asked",
}
"""At most five, each with its reason."""
DYNAMIC = frozenset({"getattr", "setattr", "hasattr", "delattr"})


def is_private(name: str) -> bool:
    return name.startswith("_") and not re.fullmatch(r"__\w+__|_+", name)


def own_names(nodes: list[ast.AST]) -> set[str]:
    """Return every name that a module defines: functions, classes, variables, parameters and attributes of `self`."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names |= {node.attr} if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls") else set()
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return names


def private_imports(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield line and name of every private name that is imported from another package."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] not in ("qualm", "tests"):
            private = [part for part in node.module.split(".") if is_private(part)]
            yield from ((node.lineno, name) for name in (*private, *(a.name for a in node.names if is_private(a.name))))
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, part) for a in node.names for part in a.name.split(".") if is_private(part))


def private_attributes(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield line and name of every private name that is read off, or written to, any object."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            function = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            text = node.args[1].value
            if function in (*DYNAMIC, "object") and isinstance(text, str) and is_private(text):
                yield node.lineno, text


def foreign(modules: dict[str, list[ast.AST]]) -> list[str]:
    """Return `file:line: name` for private names that no module of ours defines, or that come from another package."""
    ours = set().union(*map(own_names, modules.values()))
    found = []
    for file, nodes in modules.items():
        uses = [*private_imports(nodes), *((line, name) for line, name in private_attributes(nodes) if name not in ours)]
        found += [f"{file}:{line}: {name}" for line, name in uses if name not in ALLOWED]
    return sorted(found)


def test_no_private_name_of_another_library_is_used():
    modules = syntax_nodes(*FOLDERS)
    assert len(modules) > 300
    assert foreign(modules) == []
    assert len(ALLOWED) <= 5


@pytest.mark.parametrize(
    "code",
    [
        "from transformers.utils import _hidden",
        "import torch._C",
        "model.config._attn_implementation",
        "torch.ops.mkldnn._linear_pointwise(x)",
        "getattr(model, '_is_stateful', False)",
        "patch.object(model, '_update', f)",
        "module._update = f",
    ],
)
def test_a_private_name_is_found(code):
    assert len(foreign({"a.py": [*ast.walk(ast.parse(code))]})) == 1


def test_names_of_ours_are_not_reported():
    code = "class A:\n    def __init__(self, other):\n        self._x = 1\n        other._x, self._y()\n    def _y(self): ...\n"
    assert foreign({"a.py": [*ast.walk(ast.parse(code))]}) == []
