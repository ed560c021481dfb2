"""Somebody else's text within Markdown: one line, one cell, no markup."""

import doctest

import pytest

from qualm.registry.formats import markdown, text_tables
from qualm.registry.formats.markdown import code, fenced, inline


def test_the_examples_hold() -> None:
    for module in (markdown, text_tables):
        assert doctest.testmod(module).failed == 0 and doctest.testmod(module).attempted


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain words, my_name 3-4", "plain words, my_name 3-4"),
        ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
        ("R&D &lt;", "R&amp;D &amp;lt;"),
        ("a\n\n# b", "a # b"),
        ("- item", "\\- item"),
        ("1) one", "1\\) one"),
        ("***", "\\*\\*\\*"),
        ("_x_ ~~y~~", "\\_x\\_ \\~\\~y\\~\\~"),
        ("[a]: http://e.org", "[a\\]: http://e.org"),
        ("![a][b]", "![a\\][b]"),
        ("a\\|b", "a\\\\\\|b"),
        ("\x1b[31m\u202e", "⟨U+001B⟩[31m⟨U+202E⟩"),
        ("", ""),
    ],
)
def test_a_line(text: str, written: str) -> None:
    assert inline(text) == written


def test_code_keeps_what_it_holds() -> None:
    assert (code("a"), code("a`b"), code("`a``")) == ("`a`", "``a`b``", "``` `a`` ```")
    assert fenced("a\n```\nb\n", "yaml") == ["````yaml", "a\n```\nb", "````"]
