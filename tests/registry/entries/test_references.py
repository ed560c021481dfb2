"""References: every key that is named is on record, everything on record is named, and plugins may bring their own."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.registry.entries.card import card_names, load_card
from qualm.registry.entries.published_models import published
from qualm.registry.entries.references import (
    FILE,
    BibtexError,
    CitationError,
    cited_entries,
    keys_of_entries,
    parse,
    parse_bibtex,
    references,
)
from qualm.registry.plugins import registry

OURS = [registry.get(kind, name) for kind in registry.KINDS for name in registry.names(kind)]


def named() -> set[str]:
    found = {key for plugin in OURS for key in plugin.declares.get("CITES", ()) if not key.startswith("@")}
    return found | {key for model in published().values() for key in model.cites} | {k for keys in keys_of_entries().values() for k in keys}


def test_every_key_is_on_record_and_everything_on_record_is_named() -> None:
    assert named() == set(references())


def test_the_file_is_whole_and_sorted() -> None:
    text = FILE.read_text(encoding="utf-8")
    keys = re.findall(r"^@\w+\{([^,]+),$", text, re.MULTILINE)
    assert keys == sorted(set(keys)) == list(references())
    for key, entry in references().items():
        assert entry.count("{") == entry.count("}"), key
        assert {"title", "author"} <= set(re.findall(r"^  (\w+)=", entry, re.MULTILINE)), key
        assert all(line.endswith((",", "}")) for line in entry.splitlines()), key


def test_a_card_and_a_plugin_with_the_same_key_mean_the_same_paper() -> None:
    for name in card_names():
        for key, entry in parse_bibtex(load_card(name).citation, name).items():
            if key in references():
                assert entry.replace(" ", "") == references()[key].replace(" ", ""), f"{name}: {key}"


def test_a_plugin_of_another_package_brings_its_own() -> None:
    for own in ("@misc{mine2026,\n  title={Mine}\n}", "@misc{mine2026, title={Mine}}"):
        assert cited_entries([own, "telea2004image"], "x.py") == {"mine2026": own, "telea2004image": references()["telea2004image"]}


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("nobody1999", "x.py: CITES names 'nobody1999', which is not in references.bib"),
        ("@misc{cut,", "x.py: CITES: BibTeX: line 1: @misc{ does not end"),
        ("@misc", "expected BibTeX such as @misc{key"),
    ],
)
def test_what_cannot_be_cited_is_said(key: str, said: str) -> None:
    with pytest.raises(CitationError, match=re.escape(said)):
        cited_entries([key], "x.py")


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


def test_abbreviations_without_a_space_around_them() -> None:
    assert parse('@string{j={ML}}@misc{a,x={y}#j,z=j#"y"#j}') == {"a": '@misc{a,x={y}#{ML},z={ML}#"y"#{ML}}'}


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
