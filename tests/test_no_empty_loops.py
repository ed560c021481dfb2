"""No test asserts only within a loop over what a condition picked, unless it asserts that something was picked."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
MAY_PICK = re.compile(r"^ +for .*(\bif\b|\bfilter\b| in \w+:|[^:\n]$)", re.MULTILINE)
"""Loops over what may be picked, and more than these: parsing every file takes seconds."""
CODE = """
def test_loop():
    for x in (y for y in of() if y):
        assert x

def test_name():
    found = [y for y in of() if y]
    for x in found:
        assert x

def test_asserted():
    found = [y for y in of() if y]
    assert found
    for x in found:
        assert x

def test_otherwise():
    for x in (y for y in of() if y):
        assert x
    assert of()
"""


def picks(node: ast.AST) -> bool:
    """Return whether an expression is a comprehension with a condition, or a list, set or sorted list of one."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        return node.func.id == "filter" or (node.func.id in ("list", "set", "sorted", "tuple", "enumerate") and picks(node.args[0]))
    if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        return any(generator.ifs for generator in node.generators)
    return False


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements within a node. Expressions, the greater part of a tree, are not read."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield node
            yield from statements(node)


def empty_loops(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of loops whose assertions are all that a function asserts, over what may be nothing."""
    for function in (node for node in statements(tree) if isinstance(node, ast.FunctionDef)):
        if not any(isinstance(node, ast.For) for node in statements(function)):
            continue
        nodes = [*ast.walk(function)]
        picked = {
            target.id
            for node in nodes
            if isinstance(node, ast.Assign) and picks(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for loop in (node for node in nodes if isinstance(node, ast.For)):
            name = loop.iter.id if isinstance(loop.iter, ast.Name) else None
            if picks(loop.iter) or name in picked:
                within = {node for node in ast.walk(loop) if isinstance(node, ast.Assert)}
                outside = [node for node in nodes if isinstance(node, ast.Assert) and node not in within]
                names = {node.id for part in outside for node in ast.walk(part) if isinstance(node, ast.Name)}
                if within and (name not in names if name else not outside):
                    yield loop.lineno


def test_loops_over_what_was_picked_have_something_to_assert() -> None:
    texts = {file: file.read_text(encoding="utf-8") for file in sorted(TESTS.rglob("*.py"))}
    looping = {file: text for file, text in texts.items() if MAY_PICK.search(text)}
    places = [f"{file.relative_to(TESTS)}:{line}" for file, text in looping.items() for line in empty_loops(ast.parse(text))]
    assert looping and places == [], "assert that there is something to loop over"


def test_such_loops_are_seen() -> None:
    assert [*empty_loops(ast.parse(CODE))] == [3, 8]
    loops = [part for part in CODE.split("def ") if "for x" in part]
    assert len(loops) == 4 and all(map(MAY_PICK.search, loops))
