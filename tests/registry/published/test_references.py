"""References: every key that is named is on record, everything on record is named, and plugins may bring their own."""

import re

import pytest

from qualm.registry.entries.card import card_names, load_card
from qualm.registry.plugins import rule
from qualm.registry.published.models import published
from qualm.registry.published.references import FILE, CitationError, cited, entries_of, keys_of_entries, references

OURS = [rule.get(kind, name) for kind in rule.KINDS for name in rule.names(kind)]


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
        for key, entry in entries_of(load_card(name).citation, name).items():
            if key in references():
                assert entry.replace(" ", "") == references()[key].replace(" ", ""), f"{name}: {key}"


def test_a_plugin_of_another_package_brings_its_own() -> None:
    for own in ("@misc{mine2026,\n  title={Mine}\n}", "@misc{mine2026, title={Mine}}"):
        assert cited([own, "telea2004image"], "x.py") == {"mine2026": own, "telea2004image": references()["telea2004image"]}


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
        cited([key], "x.py")
