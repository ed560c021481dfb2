"""Cards of made datasets: what they tell is what the stage did, readable by machines, safe whatever stands in the data."""

from pathlib import Path

import pytest
import yaml

from qualm.registry.sample import SAMPLES
from qualm.registry.system.dvc_objects import hash_path
from qualm.runners.data.data_cards import DataCard, parents_and_sources, read_card, write_card
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from tests.support.data.scenes_folder import ABOUT, scenes_folder


@pytest.fixture
def scenes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return scenes_folder(tmp_path, test=9)


def test_a_data_set_has_its_card_beside_it(scenes: Path) -> None:
    card = scenes.with_suffix(".md")
    found, text = read_card(card), card.read_text(encoding="utf-8")
    assert (found["kind"], found["made_by"], found["seed"], found["parents"]) == ("data", "s/data-scenes", 7, [])
    assert found["recipe"]["adapter"] == "synthetic_scenes" and found["recipe"]["args"]["test"] == 9 and "about" not in found["recipe"]
    assert found["sources"] == [ABOUT] and found["left_out"] == {}
    assert found["counts"]["test"]["answerable"] == found["counts"]["all"]["answerable"] == 9 and found["counts"]["all"]["idk"] == 0
    assert "| test | all | 9 | 0 | 3 |" in text and "- Scenes: CC0-1.0 (generated)" in text and "@misc{scenes," in text
    assert yaml.safe_load(text.split("---\n")[1])["license_name"] == "CC0-1.0"


def test_what_it_is_made_of_is_named_with_its_version_and_sources(scenes: Path) -> None:
    made_of, sources = parents_and_sources({"scenes": "results/s/data/scenes"}, [str(scenes.with_suffix(".md"))] * 2)
    assert made_of == [{"name": "scenes", "version": hash_path(Path.cwd(), "results/s/data/scenes")}] and sources == [ABOUT]


def test_hostile_names_stay_in_their_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    row = {
        "sample_id": "a",
        "question": "?",
        "category": "x | y\n---\nqualm: {sources: []}",
        "answerable": False,
        "split": "test",
        "meta": {},
    }
    write_table(tmp_path / "made" / "samples.parquet", [row], SAMPLES)
    stage = Stage("s/data", "s", "data", "data", {}, {}, {}, 0, Settings(progress=False))
    card = DataCard("made", stage.key, "data", {"where": "---\n"}, [], [ABOUT], {"a reason": 1200})
    write_card(stage, card, tmp_path / "made", "made.md")
    text = (tmp_path / "made.md").read_text(encoding="utf-8")
    assert "| test | x \\| y --- qualm: {sources: []} | 0 | 1 | 0 |" in text and "- a reason: 1,200" in text
    assert read_card("made.md")["sources"] == [ABOUT] and read_card("made.md")["recipe"] == {"where": "---\n"}


def test_what_is_no_card_is_said(tmp_path: Path) -> None:
    for content in (None, "text", "---\n[]\n---\n", "---\nother: 1\n---\n", "---\nqualm:\n---\n", "---\n: :\n---\n"):
        if content is not None:
            (tmp_path / "a.md").write_text(content)
        with pytest.raises(StageError, match=r"a\.md: expected a dataset card with 'qualm' in its head"):
            read_card(tmp_path / "a.md")
