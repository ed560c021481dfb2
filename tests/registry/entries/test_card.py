from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from qualm.registry.entries.card import Address, Card, CardError, card_names, load_card
from qualm.registry.plugins.registry import get

GOOD = {
    "name": "x",
    "kind": "dataset",
    "title": "X",
    "description": "d",
    "adapter": "x",
    "source": "https://example.org",
    "licence": "MIT",
    "citation": "",
    "layout": [{"files": "a/*.json", "count": 2}],
    "splits": {"test": {"files": "a/*.json", "records": 3}},
}


def write(folder: Path, **changes: object) -> Path:
    (folder / "x.yaml").write_text(yaml.safe_dump({**GOOD, **changes}))
    return folder


@pytest.mark.parametrize("name", card_names())
def test_every_card_of_ours_is_whole(name: str) -> None:
    card = load_card(name)
    assert card.name == name and card.description and card.licence
    assert Card.model_validate(card.model_dump()) == card  # what is written out reads back
    if card.citation:
        assert card.citation.startswith("@") and card.citation.count("{") == card.citation.count("}")
    if card.adapter:
        known = {p.name for p in get("datasets", card.adapter).parameters}
        assert set(card.args) <= known


def test_ours() -> None:
    assert {"synthetic_scenes", "vlm_uncertainty_bench", "scene-vlm-base"} <= set(card_names())


def test_a_good_card(tmp_path: Path) -> None:
    card = load_card("x", write(tmp_path))
    assert card.layout[0].count == 2 and card.splits["test"].records == 3 and card.verified is False


def test_a_file_at_an_address_may_be_empty_and_no_smaller(tmp_path: Path) -> None:
    address = {"url": "https://example.org/a", "bytes": 0}
    assert Address.model_validate(address).bytes == 0
    with pytest.raises(ValueError, match="bytes\n  Input should be greater than or equal to 0"):
        Address.model_validate({**address, "bytes": -1})


def test_responsible_ai_has_croissants_names(tmp_path: Path) -> None:
    assert load_card("x", write(tmp_path, rai={"dataBiases": "Few shapes."})).rai == {"dataBiases": "Few shapes."}
    (tmp_path / "other").mkdir()
    with pytest.raises(CardError, match=r"rai.*dataBias"):
        load_card("x", write(tmp_path / "other", rai={"dataBias": "Few shapes."}))


def test_unknown_card_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(CardError, match="no card named 'synthetic_scene'; did you mean 'synthetic_scenes'"):
        load_card("synthetic_scene")
    with pytest.raises(CardError, match="no card named 'zzz'; there are: x"):
        load_card("zzz", write(tmp_path))
    with pytest.raises(
        CardError, match="no card named 'zzz'; `qualm data ls` lists those there are; `qualm data new zzz --from FOLDER` writes"
    ):
        load_card("zzz")
    with pytest.raises(CardError, match="there are: x"):
        load_card("../x", tmp_path)


def test_as_many_names_and_mistakes_as_are_told(tmp_path: Path) -> None:
    for n in range(11):
        (tmp_path / f"c{n:02}.yaml").write_text("")
    write(tmp_path)
    with pytest.raises(CardError, match=r"no card named 'zzz'; there are: c00, .*, x; `qualm data new zzz"):
        load_card("zzz", tmp_path)
    (tmp_path / "c11.yaml").write_text("")
    with pytest.raises(CardError, match="`qualm data ls` lists those there are"):
        load_card("zzz", tmp_path)
    for n, more in ((20, []), (23, ["registry/cards/x.yaml: and 3 more"])):
        (tmp_path / str(n)).mkdir()
        with pytest.raises(CardError) as caught:
            load_card("x", write(tmp_path / str(n), **{f"odd{i}": 1 for i in range(n)}))
        lines = str(caught.value).splitlines()
        assert len(lines) == 20 + len(more) and lines[20:] == more and all("unknown key" in line for line in lines[:20])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layout": [{"files": "/a"}]}, "layout.0.files: expected a path inside the entry, with '/' and without '..', got '/a'"),
        ({"layout": [{"files": ""}]}, "layout.0.files: expected a path inside the entry"),
        ({"layout": [{"files": "a\\b"}]}, "layout.0.files: expected a path inside the entry"),
        ({"layout": [{"files": "a\tb"}]}, r"layout.0.files: expected a path without control characters, got 'a\tb'"),
        ({"layout": [{"files": "a", "at_least": -1}]}, "layout.0.at_least: Input should be greater than or equal to 0, got -1"),
        ({"layout": [{"files": "a", "count": 0}]}, "layout.0.count: Input should be greater than or equal to 1, got 0"),
        ({"layout": [{"files": "a", "aboot": "b"}]}, "layout.0.aboot: unknown key; did you mean 'about'?"),
        (
            {"layout": [{"files": "a", "zzzzz": "b"}]},
            "layout.0.zzzzz: unknown key; there are: files, count, at_least, format, about, records",
        ),
        ({"fetch": {}}, "fetch: expected `repo`, or `urls`, or both"),
        (
            {"fetch": {"urls": {"a": {"url": "https://a/b"}}, "files": ["a"]}},
            "fetch: `revision` and `files` are of a `repo`, and there is none",
        ),
        (
            {"fetch": {"urls": {"a": {"url": "https://a/b"}}, "revision": "0" * 40}},
            "fetch: `revision` and `files` are of a `repo`, and there is none",
        ),
        ({"fetch": {"repo": "a/b", "revison": "1"}}, "fetch.revison: unknown key; did you mean 'revision'?"),
        ({"fetch": {"urls": {"a": {"url": "https://a/b", "sha": "1"}}}}, "fetch.urls.a.sha: unknown key; did you mean 'sha256'?"),
        ({"args": {"n": float("inf")}}, "args: expected text, numbers, true or false, and lists and mappings of these, found inf"),
        ({"args": {"n": [{"m": float("nan")}]}}, "args: expected text, numbers, true or false, and lists and mappings of these, found nan"),
    ],
)
def test_what_is_wrong_with_a_part(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(CardError, match="^" + re.escape(f"registry/cards/x.yaml: {message}")):
        load_card("x", write(tmp_path, **change))


def test_arguments_that_json_can_hold(tmp_path: Path) -> None:
    args = {"a": [1, 2.5, None, True], "b": {"c": "d", "e": [{}]}}
    assert load_card("x", write(tmp_path, args={**args, "b": {**args["b"], 1: 2}})).args == {**args, "b": {**args["b"], "1": 2}}  # type: ignore[dict-item]


def test_what_the_files_of_a_card_are() -> None:
    def formats(*layout: dict[str, object], **more: object) -> str:
        return Card.model_validate({**GOOD, "layout": layout, "splits": {}, **more}).formats

    assert formats({"files": "a/*.JSON"}, {"files": "b", "format": "csv"}, {"files": "c/*"}, {"files": "d.json"}) == "json, csv, any"
    assert formats({"files": "a.json"}, format="a table") == "a table" and formats(source="generated") == "generated"


def test_what_a_fetch_section_names_must_be_there() -> None:
    address = {"url": "https://a/b"}
    for wrong, message in (
        ({"urls": {"a.zip": address}, "unpack": {"b.zip": "."}}, "b.zip is neither under `urls` nor under `files`"),
        ({"urls": {"a.zip": address}, "single": {"*.jpg": {**address, "instead_of": ["b.zip"]}}}, "b.zip is not under `urls`"),
        ({"repo": "a/b", "revision": "-x"}, "revision"),
    ):
        with pytest.raises(ValueError, match=message):
            Card.model_validate({**GOOD, "fetch": wrong})


def test_an_address_is_needed_by_some_uses() -> None:
    address = Address.model_validate({"url": "https://a/b", "when": {"parts": "train"}})
    assert address.is_needed([{"parts": ["train", "val"]}]) and address.is_needed([{}, {"parts": "train"}])
    assert not address.is_needed([]) and not address.is_needed([{"parts": None}, {"parts": ["val"]}])


def test_every_problem_at_once(tmp_path: Path) -> None:
    changes = {
        "kind": "thing",
        "licens": "MIT",
        "layout": [{"files": "../up", "count": "2"}, {"files": "a**/*.jpg"}],
        "digests": {"a": "12"},
        "verified": 1,
    }
    text = write(tmp_path, **changes) / "x.yaml"
    raw = yaml.safe_load(text.read_text())
    del raw["title"]
    text.write_text(yaml.safe_dump(raw))
    with pytest.raises(CardError) as caught:
        load_card("x", tmp_path)
    lines = str(caught.value).splitlines()
    assert all(line.startswith("registry/cards/x.yaml: ") for line in lines)
    for expected in (
        "title: missing; every card has it",
        "kind: Input should be 'dataset', 'model' or 'reviews', got 'thing'",
        "layout.0.files: expected a path inside the entry, with '/' and without '..', got '../up'",
        "layout.1.files: expected '**' as the whole name of a folder, as in a/**/*.jpg, got 'a**/*.jpg'",
        "layout.0.count: Input should be a valid integer, got '2'",
        "licens: unknown key; did you mean 'licence'?",
        "verified: Input should be a valid boolean, got 1",
    ):
        assert any(expected in line for line in lines), (expected, lines)
    assert len(lines) == 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "y"}, "name: expected 'x' as the file is called, got 'y'"),
        ({"name": "A b"}, "name: expected lower-case letters"),
        ({"kind": "model"}, "adapter, missing: only a dataset has them; remove them from this card of kind 'model'"),
        ({"layout": []}, "official files need one"),
        ({"subsets": {"easy": "level == *"}}, "subsets: easy: character 10: invalid syntax"),
        ({"subsets": {"easy": "(" * 60}}, "subsets: easy: character 59: '(' was never closed"),
        ({"subsets": {"easy": ""}}, "subsets: easy: character 1: expected a comparison, got nothing"),
        ({"subsets": {"{": "level == 1"}}, "subsets: {: expected letters, digits, '_' and single '-' between them"),
        ({"subsets": {"category": "level == 1"}}, "subsets: category: expected letters"),
        ({"adapter": None}, "adapter: a dataset names one, or says under `missing` what will read it"),
        ({"missing": "a reader"}, "adapter: a dataset names one, or says under `missing` what will read it"),
        (
            {"kind": "model", "adapter": None, "missing": "a reader"},
            "adapter, missing: only a dataset has them; remove them from this card of kind 'model'",
        ),
    ],
)
def test_cards_that_contradict_themselves(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(CardError, match=re.escape(message)):
        load_card("x", write(tmp_path, **changes))


@pytest.mark.parametrize("text", ["a: [", "- 1\n", "", "\x00"])
def test_what_is_no_card(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(CardError, match=r"registry/cards/x\.yaml"):
        load_card("x", tmp_path)


def test_loading_a_card_is_light() -> None:
    code = (
        "import sys, qualm.registry.entries.card as c; c.load_card('scene-vlm-base'); print(sorted({m.split('.')[0] for m in sys.modules}))"
    )
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert not [m for m in ("dvc", "torch", "pyarrow", "numpy", "rich") if f"'{m}'" in modules]
