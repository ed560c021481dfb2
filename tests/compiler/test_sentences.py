"""The sentences that commands print: all in one module, each used, and filled in with exactly its fields."""

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from qualm.compiler.spec import sentences
from qualm.registry.entries import sentences as data_sentences

COMPILER = Path(sentences.__file__).parents[1]
MODULES = [path for path in sorted(COMPILER.rglob("*.py")) if path.name != "sentences.py"]
USERS = [path for path in MODULES if "from qualm.compiler.spec import sentences as say" in path.read_text(encoding="utf-8")]
DATA_COMMANDS = [Path(data_sentences.__file__).with_name(name) for name in ("cli.py", "printing.py")]
SENTENCES = {sentences: USERS, data_sentences: DATA_COMMANDS}
"""Modules of sentences, and the modules that print them."""
ROOMS = ("commands", "project", "results", "run", "viewing")
DECLARATIONS = ("typer.Option", "typer.Argument", "typer.Typer", "re.compile", "re.split", "re.match", "re.fullmatch")
"""Calls whose texts are help or patterns, besides those of errors."""
MARKUP = ("<", "  node [", "{Qualm}: ", "| model |")
"""Beginnings of HTML and SVG, DOT, BibTeX, and a table in Markdown."""
COMMAND_LINES = ("qualm ", "git ")


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize(("module", "users"), SENTENCES.items())
def test_every_sentence_is_filled_in_with_its_fields(module: ModuleType, users: list[Path]) -> None:
    """The keywords of each `say.SENTENCE.format(...)` are the fields of the sentence."""
    formatted = {
        f"{path.name}:{node.lineno}": (ast.unparse(node.func).split(".")[1], {str(keyword.arg) for keyword in node.keywords})
        for path in users
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and re.fullmatch(r"say\.[A-Z_0-9]+\.format", ast.unparse(node.func))
    }
    assert len(formatted) > 15
    wrong = {place: (name, given) for place, (name, given) in formatted.items() if given != fields(getattr(module, name))}
    assert not wrong, wrong


@pytest.mark.parametrize(("module", "users"), SENTENCES.items())
def test_every_sentence_is_used(module: ModuleType, users: list[Path]) -> None:
    names = {name for name in vars(module) if name.isupper()}
    used = {name for path in users for name in re.findall(r"\bsay\.([A-Z_0-9]+)\b", path.read_text(encoding="utf-8"))}
    assert len(names) > 20 and used == names


def texts_outside_errors(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of strings of four words or more, without docstrings, errors, help and patterns."""
    exempt = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        names_expected = isinstance(node, ast.Assign) and "expected" in ast.unparse(node.targets[0])  # part of an error
        if isinstance(node, ast.Raise) or names_expected or called in DECLARATIONS or called.endswith(("Error", "_errors", "Problem")):
            exempt |= {id(inner) for inner in ast.walk(node)}
        elif isinstance(node, ast.JoinedStr):
            exempt |= {id(part) for part in node.values}
        elif isinstance(node, ast.Subscript):
            exempt.add(id(node.slice))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if id(node) not in exempt and len(re.findall(r"[A-Za-z]{2,}", text)) >= 4 and " " in text:
            yield node.lineno, text


@pytest.mark.parametrize("room", [*ROOMS, "data"])
def test_no_printed_sentence_stands_elsewhere(room: str) -> None:
    modules = DATA_COMMANDS if room == "data" else [path for path in MODULES if path.is_relative_to(COMPILER / room)]
    texts = [(path, line, text) for path in modules for line, text in texts_outside_errors(ast.parse(path.read_text(encoding="utf-8")))]
    assert modules
    elsewhere = {f"{path.name}:{line}": text for path, line, text in texts if not is_markup(text)}
    assert not elsewhere, elsewhere


def is_markup(text: str) -> bool:
    """Return True for the content of files, markup, media types, patterns, commands, and the one message of DVC that is looked for."""
    return text.startswith((*MARKUP, *COMMAND_LINES, "Unable to pull data")) or text.endswith("\n") or "; charset=" in text or "\\." in text
