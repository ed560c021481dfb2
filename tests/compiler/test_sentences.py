"""The sentences that commands and the report print: all in one module each, all used, and filled in with exactly their fields."""

import ast
import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from qualm.compiler.spec import sentences
from qualm.registry.entries import sentences as data_sentences
from qualm.runners.reporting import sentences as report_sentences
from tests.support.checks.sources import ROOT, fixed_texts, syntax_nodes

REPORT = ("runners/reporting/", "runners/stages/report.py")
ROOMS = {
    **{room: (f"compiler/{room}/",) for room in ("commands", "project", "results", "run", "viewing")},
    "data": tuple(f"registry/entries/{name}.py" for name in ("cli", "errors", "new_card_dialogue", "printing")),
}
"""Name -> modules that hold no sentences, by the start of their paths."""
DECLARATIONS = ("typer.Option", "typer.Argument", "typer.Typer", "re.compile", "re.split", "re.match", "re.fullmatch")
"""Calls whose texts are help or patterns, besides those of errors."""
MARKUP = ("<", "  node [", "{Qualm}: ", "| model |")
"""Beginnings of HTML and SVG, DOT, BibTeX, and a table in Markdown."""
COMMAND_LINES = ("qualm ", "git ")
MESSAGE_OF_DVC = "Unable to pull data"
"""It is looked for, not printed."""


def nodes_below(*starts: str) -> dict[str, list[ast.AST]]:
    """Return the nodes of modules whose paths begin so, without those that hold the sentences."""
    modules = syntax_nodes("compiler", "registry", "runners")
    return {file: nodes for file, nodes in modules.items() if file.startswith(starts) and not file.endswith("/sentences.py")}


@dataclass(frozen=True)
class Sentences:
    """A module of sentences, and where they are printed, by the start of paths."""

    module: ModuleType
    printed_in: tuple[str, ...]

    @property
    def names(self) -> set[str]:
        return {name for name in vars(self.module) if name.isupper()}


SENTENCES = [
    pytest.param(Sentences(sentences, ("compiler/",)), id="compiler"),
    pytest.param(Sentences(data_sentences, ("registry/entries/",)), id="data"),
    pytest.param(Sentences(report_sentences, REPORT), id="report"),
]


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("of", SENTENCES)
def test_every_sentence_is_filled_in_with_its_fields(of: Sentences) -> None:
    """The keywords of each `say.SENTENCE.format(...)` are the fields of the sentence."""
    formatted = {
        f"{file}:{node.lineno}": (ast.unparse(node.func).split(".")[1], {keyword.arg for keyword in node.keywords})
        for file, nodes in nodes_below(*of.printed_in).items()
        for node in nodes
        if isinstance(node, ast.Call) and re.fullmatch(r"say\.[A-Z_0-9]+\.format", ast.unparse(node.func))
    }
    checked = {place: (name, given) for place, (name, given) in formatted.items() if None not in given}  # `None`: of `**fields`
    assert len(checked) > 15
    wrong = {place: (name, given) for place, (name, given) in checked.items() if given != fields(getattr(of.module, name))}
    assert not wrong, wrong


@pytest.mark.parametrize("of", SENTENCES)
def test_every_sentence_is_used(of: Sentences) -> None:
    templates = Path(report_sentences.__file__).parent.rglob("*.html") if of.module is report_sentences else ()
    users = [*(ROOT / file for file in nodes_below(*of.printed_in)), *templates]
    used = {name for path in users for name in re.findall(r"\bsay\.([A-Z_0-9]+)\b", path.read_text(encoding="utf-8"))}
    assert len(of.names) > 20 and used == of.names


def printed_texts(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield line and text of strings of four words or more, without errors, help, patterns, markup and commands."""
    exempt: set[int] = set()
    for node in nodes:
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        names_expected = isinstance(node, ast.Assign) and "expected" in ast.unparse(node.targets[0])  # part of an error
        if isinstance(node, ast.Raise) or names_expected or called in DECLARATIONS or called.endswith(("Error", "_errors", "Problem")):
            exempt |= {id(inner) for inner in ast.walk(node)}
        elif isinstance(node, ast.Subscript):
            exempt.add(id(node.slice))
    for node, text in fixed_texts(nodes):
        if id(node) not in exempt and len(re.findall(r"[A-Za-z]{2,}", text)) >= 4 and " " in text and not is_markup(text):
            yield node.lineno, text


def is_markup(text: str) -> bool:
    """Return True for the content of files, markup, media types, patterns, commands, and a message of DVC."""
    return text.startswith((*MARKUP, *COMMAND_LINES, MESSAGE_OF_DVC)) or text.endswith("\n") or "; charset=" in text or "\\." in text


@pytest.mark.parametrize("room", ROOMS)
def test_no_printed_sentence_stands_elsewhere(room: str) -> None:
    modules = nodes_below(*ROOMS[room])
    assert modules
    elsewhere = {f"{file}:{line}": text for file, nodes in modules.items() for line, text in printed_texts(nodes)}
    assert not elsewhere, elsewhere
