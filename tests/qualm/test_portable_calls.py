"""Product code uses no call that macOS or Windows lacks, but where it stands behind a check, and writes the same bytes everywhere."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache

from tests.support.checks.sources import syntax_nodes
from tests.support.other_system.absent import LINUX_ONLY, MODULES_NOT_ON_WINDOWS, NOT_ON_WINDOWS

GUARDED = {
    "registry/machine.py": "behind `hasattr`, LINUX, or after Windows has had its own way",
    "runners/runtime/die_with_parent.py": "behind LINUX, or after a descriptor that Windows does not give",
    "compiler/run/session.py": "behind `hasattr` and WINDOWS",
    "runners/inference/node.py": "behind `hasattr`",
    "runners/review/terminal.py": "after Windows has had its own way",
}
"""Files with such calls, and why these are never reached elsewhere."""


Calls = list[tuple[int, str, set[str]]]


@cache
def found() -> dict[str, tuple[list[str], Calls, list[int], list[int]]]:
    """Return by file what the tests below look for, found in one pass, as it takes seconds."""
    return {
        file: ([*absent(nodes)], [*text_calls(nodes)], [*paths_by_str(nodes)], [*doubles(nodes)])
        for file, nodes in syntax_nodes("compiler", "registry", "runners", "qualm").items()
    }


def absent(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield what a module uses that another system lacks."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module, name = node.value.id, node.attr
            if name in LINUX_ONLY.get(module, ()) or name in NOT_ON_WINDOWS.get(module, ()):
                yield f"{node.lineno}: {module}.{name}"
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        yield from (f"{node.lineno}: import {name}" for name in names if name.partition(".")[0] in MODULES_NOT_ON_WINDOWS)


def test_calls_that_a_system_lacks_stand_behind_a_check() -> None:
    uses_by_file = {name: uses for name, (uses, *_) in found().items() if uses}
    assert {name: uses for name, uses in uses_by_file.items() if name not in GUARDED} == {}
    assert uses_by_file.keys() == GUARDED.keys(), "what has no such call any more leaves the list"


def text_calls(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str, set[str]]]:
    """Yield calls that write a text or read what a program says: line, what is called, and the names of its arguments."""
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
        given = {keyword.arg or "" for keyword in node.keywords}
        modes = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if node.func.attr == "write_text" and owner != "atomic":
            yield node.lineno, "write_text", given
        elif node.func.attr == "open" and any(mode in ("w", "a", "x", "w+", "a+") for mode in modes[:1]):
            yield node.lineno, "open", given
        elif owner == "subprocess" and "text" in given:
            yield node.lineno, "subprocess", given


def test_texts_are_written_with_the_encoding_and_line_ends_of_linux() -> None:
    """Else Windows would write other bytes, and other hashes."""
    calls = [(f"{name}:{line}", what, given) for name, (_, calls, *_) in found().items() for line, what, given in calls]
    assert len(calls) > 30
    for where, what, given in calls:
        wanted = {"encoding"} if what == "subprocess" else {"encoding", "newline"}
        assert wanted <= given, f"{where}: {what} without {' and '.join(sorted(wanted - given))}"


def paths_by_str(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """Yield the lines of `str` of a relative path."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str":
            relative = [a for a in ast.walk(node) if isinstance(a, ast.Attribute) and a.attr == "relative_to"]
            yield from [node.lineno] if relative else []


def test_paths_become_texts_with_slashes() -> None:
    """`str` of a relative path has backslashes on Windows; `as_posix` has none."""
    assert len(found()) > 300
    assert [f"{name}:{line}: use `as_posix`" for name, (_, _, lines, _) in found().items() for line in lines] == []


def doubles(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """Yield the lines of calls of `double`."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "double":
            yield node.lineno


def test_the_engine_asks_for_float64_in_one_place() -> None:
    """MPS has no float64: `to_double` moves a tensor to the CPU there."""
    calls = [name for name, (*_, lines) in found().items() if name.startswith("runners/inference/") for _ in lines]
    assert calls == ["runners/inference/devices.py"]
