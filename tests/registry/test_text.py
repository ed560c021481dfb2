"""Texts of others: nothing in them steers a terminal, however they are shown, and what is plain stays as it is."""

import ast
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.registry.system.console import Console
from qualm.registry.system.guard import Guarded
from qualm.registry.text import complain, escape_hidden, format_size, is_hidden, masked, one_line, print_json, quoted, visible
from tests.support.checks.sources import syntax_nodes

ROOT = Path(__file__).resolve().parents[2]
STEERS = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"}
STEERS -= {"\n", "\t"}
FOREIGN = st.text(st.one_of(st.sampled_from(sorted(STEERS)), st.sampled_from("\x1b[]m;\né😀م"), st.characters()))


@given(FOREIGN)
def test_nothing_steers(text):
    for made in (one_line(text), escape_hidden(text), visible(text), guarded(text), in_colours(text)):
        assert not STEERS & set(made)
        made.encode()
    assert one_line(text).isprintable()
    assert escape_hidden(escape_hidden(text)) == escape_hidden(text) and len(escape_hidden(text).split("\n")) == len(text.split("\n"))


def guarded(text):
    stream = io.StringIO()
    print(text, file=Guarded(stream))
    return stream.getvalue()


def in_colours(text):
    stream = io.StringIO()
    Console(file=Guarded(stream), force_terminal=True, color_system=None).print(text, markup=False)
    return stream.getvalue().replace("\r", "")


@pytest.mark.parametrize("text", ["plain", "café 😀 مرحبا", "two\nlines\twith a tab", "a\u200db", "a\xa0b"])
def test_what_is_plain_stays(text):
    assert escape_hidden(text) == text and not any(map(is_hidden, text))


def test_colours_are_the_consoles_own():
    stream = io.StringIO()
    Console(file=Guarded(stream), force_terminal=True, color_system="standard").print("[red]\x1b[32m[/]")
    assert stream.getvalue() == "\x1b[31m\\x1b[32m\x1b[0m\n"


def test_consoles_and_characters_written_out_are_made_in_one_place():
    modules = syntax_nodes("registry", "runners", "compiler")
    assert {"registry/system/console.py", "registry/text.py"} < modules.keys()
    for place, nodes in modules.items():
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module == "rich.console" and place != "registry/system/console.py":
                assert "Console" not in [name.name for name in node.names], f"{place}: take qualm.registry.system.console.Console"
            if place != "registry/text.py" and isinstance(node, ast.Constant):
                assert node.value != "unicode_escape", f"{place}: take qualm.registry.text"


@pytest.mark.parametrize(
    ("size", "said"),
    [(None, "-"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (2**20 - 1, "1024.0 KiB"), (2**20, "1.0 MiB"),
     (5 * 2**30, "5.0 GiB"), (2**40, "1024.0 GiB")],
)  # fmt: skip
def test_sizes_as_people_read_them(size, said):
    assert format_size(size) == said


def test_what_hides_stands_on_a_page_by_its_number():
    assert visible("a\x1b\tb\u202e\nc") == "a⟨U+001B⟩ b⟨U+202E⟩\nc"
    assert visible("x" * 600) == "x" * 600 and visible("x" * 601) == "x" * 600 + "… (601 characters)"
    assert visible("abc", 2) == "ab… (3 characters)" and visible(12) == "12"
    hidden = [chr(code) for code in (0x1F, 0x7F, 0xAD, 0xE0000, 0xE007F, 0xE000, 0x061C)]
    assert [is_hidden(c) for c in hidden] == [True, True, False, True, True, True, True]
    assert not any(map(is_hidden, " ~é"))


def test_names_and_columns():
    assert quoted("a b") == "a b" and quoted("a\x1b") == "'a\\x1b'"
    assert masked("a\x1b\nb") == "a��b" and masked("a\tb", "?") == "a?b" and masked("é") == "é"


def test_what_is_printed_for_machines_and_what_is_complained_of(capsys):
    print_json({"a": "é", "b": [1]})
    complain("one", "two")
    said = capsys.readouterr()
    assert said.out == '{\n "a": "é",\n "b": [\n  1\n ]\n}\n' and said.err == "qualm: one\ntwo\n"
