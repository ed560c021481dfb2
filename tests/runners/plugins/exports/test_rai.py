"""Croissant's properties of responsible AI: the card's words first, then what was counted."""

from pathlib import Path

import yaml

from qualm.registry.sample import SAMPLES, SHORTCUTS
from qualm.runners.plugins.exports import DatasetCredits
from qualm.runners.plugins.exports._rai import rai
from qualm.runners.runtime.records import read_table, write_table

SAMPLE = {"question": "?", "references": ["a"], "choices": [], "split": "test", "meta": []}
ROWS = [{**SAMPLE, "sample_id": str(i), "image_id": "p" if i else None, "answerable": i < 3} for i in range(4)]


def facts(folder: Path, credits: DatasetCredits) -> dict:
    write_table(folder / "samples.parquet", ROWS, SAMPLES)
    return rai(folder, read_table(folder / "samples.parquet", SAMPLES), credits, "A benchmark")


def test_what_was_counted(tmp_path):
    assert facts(tmp_path / "d", DatasetCredits()) == {
        "rai:dataCollectionMissingData": "1 of 4 questions have no image; 1 cannot be answered.",
        "rai:dataUseCases": ["Benchmark: A benchmark"],
    }


def test_nothing_is_lacking_and_nothing_there(tmp_path):
    for rows, said in ((ROWS[1:3], "0 of 2 questions have no image; 0 cannot"), ([], "0 of 0 questions have no image; 0 cannot")):
        write_table(tmp_path / "samples.parquet", rows, SAMPLES)
        found = rai(tmp_path / "d", read_table(tmp_path / "samples.parquet", SAMPLES), DatasetCredits(), "A benchmark")
        assert found["rai:dataCollectionMissingData"] == f"{said} be answered."


def test_the_cards_words_come_first(tmp_path):
    credits = DatasetCredits(
        "Data", source="generated", description="Drawn\nscenes.", rai={"dataCollection": "By us.", "dataUseCases": "Tests."}
    )
    found = facts(tmp_path / "d", credits)
    assert found["rai:dataCollection"] == "By us.\nDrawn scenes." and found["rai:dataUseCases"] == ["Tests.", "Benchmark: A benchmark"]
    assert found["rai:dataCollectionRawData"] == "Data: generated"


def test_recipe_and_shortcuts_of_the_stage_that_made_it(tmp_path):
    parents, left_out = [{"name": "s", "version": "abc"}], {"no mask": 1200}
    head = {"made_by": "mine/data-d", "seed": 7, "recipe": {"mask": "Schäden", "dilate": 20}, "parents": parents, "left_out": left_out}
    (tmp_path / "d.md").write_text(f"---\n{yaml.safe_dump({'qualm': head})}---\n# d\n")
    told = (("all", "question", 0.6), ("all", "picture", None), ("x", "question", 0.9), ("all", "nothing", 0.5))
    row = {"n_learnt": 4, "n": 4, "in_turn": True, "balanced_low": 0.4, "balanced_high": 0.8}
    rows = [{**row, "category": category, "sees": sees, "balanced_accuracy": value} for category, sees, value in told]
    write_table(tmp_path / "d.shortcuts.parquet", rows, SHORTCUTS)
    found = facts(tmp_path / "d", DatasetCredits())
    assert found["rai:dataPreprocessingProtocol"] == [
        'Made by the stage mine/data-d with seed 7, from s at version abc: {"dilate": 20, "mask": "Schäden"}',
        "Left out: 1,200 (no mask)",
    ]
    assert found["rai:dataBiases"] == [
        "A classifier that sees the question alone tells answerable questions from others with a balanced accuracy of "
        "0.600 (0.400 to 0.800); chance is 0.5."
    ]
