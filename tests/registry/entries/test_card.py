from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from qualm.registry.entries.card import Address, Card, CardError, card_names, load_card
from qualm.registry.plugins.rule import get

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
        ({"kind": "model"}, "a dataset names one, a model and reviews none"),
        ({"layout": []}, "official files need one"),
        ({"subsets": {"easy": "level == *"}}, "subsets: easy: character 10: expected a field, value, sign or word, got '*'"),
        ({"subsets": {"easy": "(" * 60}}, "subsets: easy: character 52: nested more than 50 deep"),
        ({"subsets": {"easy": ""}}, "subsets: easy: character 1: expected a comparison, got the end"),
        ({"subsets": {"{": "level == 1"}}, "subsets: {: expected a name of letters, digits, '_' and '-' that is not a field"),
        ({"subsets": {"category": "level == 1"}}, "subsets: category: expected a name"),
        ({"adapter": None}, "adapter: a dataset names one, or says under `missing` what will read it"),
        ({"missing": "a reader"}, "adapter: a dataset names one, or says under `missing` what will read it"),
        ({"kind": "model", "adapter": None, "missing": "a reader"}, "a dataset names one, a model and reviews none"),
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
