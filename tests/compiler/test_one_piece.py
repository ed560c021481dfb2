"""One piece does each of these jobs, for the whole project: no other module does it by a call of its own."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import pytest

from tests.support.checks.sources import syntax_nodes


class Piece(NamedTuple):
    module: str
    """Where the job is done."""
    does: Callable[[ast.AST], bool]
    """Whether a node does it."""
    others: Mapping[str, str] = MappingProxyType({})
    """Modules that may hold such a node, with the reason."""


def called(node: ast.AST) -> tuple[str, list[ast.expr]]:
    """The last name of what a call calls, with its positional arguments."""
    if not isinstance(node, ast.Call):
        return "", []
    name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
    return name, node.args


def is_name(node: ast.AST, *names: str) -> bool:
    """Return whether a node is one of these dotted names."""
    return isinstance(node, ast.Attribute) and any(name.endswith(f".{node.attr}") for name in names) and ast.unparse(node) in names


def opens_a_picture(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Attribute) and node.attr in ("open", "imread", "imdecode")):
        return False
    owner = ast.unparse(node.value)
    return owner.endswith("Image") or node.attr != "open"


def reads_imports(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("Import", "ImportFrom", "ModuleFinder")


def judges_characters(node: ast.AST) -> bool:
    if isinstance(node, ast.comprehension | ast.GeneratorExp | ast.ListComp):
        return any(called(inner)[0] == "isprintable" for inner in ast.walk(node))
    return is_name(node, "unicodedata.category", "unicodedata.bidirectional")


def renames(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return ".partial" in node.value
    name, arguments = called(node)
    if isinstance(node, ast.Call) and is_name(node.func, "os.replace", "os.rename", "os.renames", "shutil.move"):
        return True
    return name in ("replace", "rename") and len(arguments) == 1 and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) \
        and not node.keywords and not isinstance(node.args[0], ast.Dict)  # fmt: skip


def appends(node: ast.AST) -> bool:
    if is_name(node, "os.O_APPEND"):
        return True
    name, arguments = called(node)
    modes = [a.value for a in arguments if isinstance(a, ast.Constant)]
    modes += [k.value.value for k in getattr(node, "keywords", []) if k.arg == "mode" and isinstance(k.value, ast.Constant)]
    return name == "open" and any(isinstance(mode, str) and mode in ("a", "ab", "a+", "a+b", "ab+", "at") for mode in modes)


def asks_git(node: ast.AST) -> bool:
    return isinstance(node, ast.List) and bool(node.elts) and isinstance(node.elts[0], ast.Constant) and node.elts[0].value == "git"


PIECES = {
    "git is asked": Piece(
        "qualm.registry.system.git",
        asks_git,
        {"qualm.compiler.project.new_project": "runs git and DVC alike"},
    ),
    "pictures are opened": Piece("qualm.registry.formats.pictures", opens_a_picture),
    "imports are followed": Piece("qualm.registry.plugins.imports", reads_imports),
    "text is made safe to print": Piece(
        "qualm.registry.text",
        judges_characters,
        {"qualm.runners.scoring.answer_text": "it tells digits, punctuation and emoji apart to compare answers, and prints nothing"},
    ),
    "files are replaced": Piece(
        "qualm.registry.system.atomic",
        renames,
        {
            "qualm.runners.data.segments": "a segment's name says which state it is in",
            "qualm.runners.inference.node": "it runs on a worker that has no code of ours yet",
        },
    ),
    "files are appended to": Piece(
        "qualm.runners.runtime.journal",
        appends,
        {
            "qualm.registry.entries.download": "a download goes on where it broke off",
        },
    ),
}  # fmt: skip


READ = (ast.Attribute, ast.Call, ast.Constant, ast.List, ast.ListComp, ast.GeneratorExp, ast.comprehension)
"""Nodes that do any of it, a fifth of all."""


@pytest.fixture(scope="module")
def nodes() -> dict[str, list[ast.AST]]:
    by_file = {
        f"qualm.{file.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}": nodes
        for file, nodes in syntax_nodes("registry", "runners", "compiler").items()
    }
    return {module: [node for node in nodes if isinstance(node, READ)] for module, nodes in by_file.items()}


@pytest.mark.parametrize("job", PIECES)
def test_in_one_place_only(job: str, nodes: dict[str, list[ast.AST]]) -> None:
    piece = PIECES[job]
    lines = {name: [getattr(n, "lineno", 0) for n in found if piece.does(n)] for name, found in nodes.items()}
    places = {name: where for name, where in lines.items() if where}
    assert places.pop(piece.module), f"{piece.module} no longer does it: {job} where?"
    for name in piece.others:
        assert places.pop(name), f"{name} needs no exception any more: {job} elsewhere"
    assert not places, f"{job} in {piece.module} and nowhere else; call that: {places}"


SAMPLES = {
    "git is asked": ['subprocess.run(["git", "status"])', '["git", *arguments]'],
    "pictures are opened": ["PIL.Image.open(x)", "Image.open(io.BytesIO(x))", "cv2.imread(x)", "cv2.imdecode(x, 1)"],
    "imports are followed": [
        "isinstance(node, ast.Import)",
        "isinstance(node, (syntax.ImportFrom, ast.Name))",
        "modulefinder.ModuleFinder()",
    ],
    "text is made safe to print": ["''.join(c for c in x if c.isprintable())", "unicodedata.category(c) in 'Cc'"],
    "files are replaced": [
        "p.replace(q)",
        "os.replace(p, q)",
        "p.rename(q)",
        "shutil.move(p, q)",
        "p.with_suffix('.partial')",
        "f'.{p}.partial'",
    ],
    "files are appended to": ["open(p, 'ab')", "p.open('a')", "p.open(mode='a+')", "os.open(p, os.O_WRONLY | os.O_APPEND)"],
}
HARMLESS = (
    "t.replace('a', 'b')\nframe.rename({'a': 'b'})\nreplace(row, x=1)\nwhen.replace(hour=1)\n"
    "p.open('rb')\nname.isprintable()\nzipfile.open(x)\nImageOps.fit(x)"
)


@pytest.mark.parametrize("job", PIECES)
def test_the_rule_sees_what_it_forbids(job: str) -> None:
    for code in SAMPLES[job]:
        assert any(PIECES[job].does(node) for node in ast.walk(ast.parse(code)) if isinstance(node, READ)), code
    assert not any(map(PIECES[job].does, ast.walk(ast.parse(HARMLESS))))
