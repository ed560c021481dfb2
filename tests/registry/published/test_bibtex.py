"""BibTeX as people write it: every style of it is read, each entry as it stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.registry.published.bibtex import BibtexError, parse

LINE = "@article{key, title={A title}, year=2020}"
LINES = "@article{key,\n  title={A title},\n  year=2020\n}"
QUOTED = '@misc{a, title="{G{\\"o}del}, a = b # c", note={"quoted"}}'
BRACKETED = '@misc(a, title="bracketed :)", note={)})'


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        (LINE, {"key": LINE}),
        (LINES, {"key": LINES}),
        (LINES.replace("\n", "\r\n"), {"key": LINES}),
        (f"{LINE} @misc{{b, note={{x}}}}@misc{{c,}}", {"key": LINE, "b": "@misc{b, note={x}}", "c": "@misc{c,}"}),
        ("@misc{a, title={{V}ery {n{e}sted}}}", {"a": "@misc{a, title={{V}ery {n{e}sted}}}"}),
        (QUOTED, {"a": QUOTED}),
        (BRACKETED, {"a": BRACKETED}),
        ("@ misc { a , title={x} }", {"a": "@ misc { a , title={x} }"}),
        ("@misc{only}", {"only": "@misc{only}"}),
        ("@misc{doe:2020/a-b+c,\n title={x},\n  }\n", {"doe:2020/a-b+c": "@misc{doe:2020/a-b+c,\n title={x},\n  }"}),
        ("@comment{@misc{gone, title={x}}} @misc{b, x={1}}", {"b": "@misc{b, x={1}}"}),
        ("% @misc{gone, title={x}}\n  % @misc{this,\n@misc{b, x={1}}", {"b": "@misc{b, x={1}}"}),
        ('@preamble{"\\newcommand{\\x}{y}"}@misc{b, x={1}}', {"b": "@misc{b, x={1}}"}),
        ("@misc{a, x={1}}\n@misc{a, x={2}}", {"a": "@misc{a, x={1}}"}),
        ("Cite Doe (doe@example.org), 100% {sure}.", {}),
        ("", {}),
    ],
)
def test_styles(text: str, entries: dict[str, str]) -> None:
    assert parse(text) == entries


def test_abbreviations_are_written_out() -> None:
    text = """@string{jmlr = {Journal of ML}} @String(vol = "Volume " # jmlr)
@article{a, journal=jmlr, month = jan, note={jmlr = jmlr}, series="= jmlr" # JMLR # " x", volume = vol}"""
    assert parse(text) == {
        "a": "@article{a, journal={Journal of ML}, month = jan, note={jmlr = jmlr}, "
        'series="= jmlr" # {Journal of ML} # " x", volume = "Volume " # {Journal of ML}}'
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n@misc{cut, title={x}", "line 2: @misc{ does not end; expected a '}'"),
        ("@misc(cut, title={x}", r"line 1: @misc( does not end; expected a ')'"),
        ("@misc(cut}, title={x})", r"line 1: @misc( does not end"),
        ("@misc{title={x}}", "line 1: expected a key and a comma after @misc{"),
        ("@misc{, title={x}}", "line 1: expected a key and a comma after @misc{"),
        ("@string{jmlr}", "line 1: expected @string{name = {text}}"),
    ],
)
def test_what_is_no_entry_is_said(text: str, message: str) -> None:
    with pytest.raises(BibtexError) as raised:
        parse(text)
    assert str(raised.value).startswith(message)


@given(st.text('@{}()"=,#%\n\\ab misc string', max_size=60))
def test_whatever_stands_there_it_is_read_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except BibtexError:
        return
    assert all(entry.startswith("@") and key in entry for key, entry in found.items())
