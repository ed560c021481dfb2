"""What people found valid of a data set without pairs, as the report's table says it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from qualm.registry.sample import SAMPLES, SHORTCUTS
from qualm.runners.reporting.sections.data_sets import data_sets
from qualm.runners.runtime.records import write_table


def share(name: str, **counts: int) -> dict[str, Any]:
    kinds = {k: counts.get(k, 0) for k in ("valid", "invalid", "misplaced", "unresolved", "unreviewed")}
    decided = sum(n for k, n in kinds.items() if k != "unreviewed")
    found = {"share": kinds["valid"] / decided, "low": 0.1, "high": 0.9} if decided else {"share": None, "low": None, "high": None}
    return {"category": name, **kinds, **found}


def test_a_data_set_that_people_curated(tmp_path: Path) -> None:
    facts = {
        "splits": ["val"], "unreviewed": "drop", "decisions": {"applied": 5, "skipped": 0, "stale": 1, "gone": 1},
        "unit": "question", "units": {"all": 6, "kept": 2, "dropped": {"misplaced": 3, "unreviewed": 1}},
        "categories": [share("other", valid=2, misplaced=3, unreviewed=1), share("all", valid=2, misplaced=3, unreviewed=1)],
        "subsets": [share("image", valid=2, misplaced=3), share("text", unreviewed=1)],
        "agreement": {"reviewers": [{"reviewer": "ann", "valid": 2, "invalid": 0, "misplaced": 3}], "shared": 0},
    }  # fmt: skip
    (tmp_path / "verification.json").write_text(json.dumps(facts))
    stage = SimpleNamespace(params={}, inputs={"datasets": {"photos": str(tmp_path), "other": str(tmp_path / "none")}})
    (block,) = data_sets(SimpleNamespace(stage=stage))  # type: ignore[arg-type]
    (sheet,) = block.sheets
    assert sheet.header == ["category", "valid (Wilson 95%)", "valid", "invalid", "wrong subset", "tied", "unreviewed"]
    assert [r[0] for r in sheet.rows] == ["other", "all", "subset image", "subset text"]
    assert sheet.rows[2][1:] == ["40.0% (10.0% – 90.0%)", "2", "0", "3", "0", "0"]
    assert sheet.rows[3][1] == "undefined: none decided"
    assert "decided val questions" in sheet.note and "Of 6 questions 2 stay (dropped: 3 wrong subset, 1 unreviewed)." in sheet.note
    assert "2 decisions were about questions that have changed" in sheet.note and "pair" not in sheet.note
    assert block.sentences == ["One reviewer (ann) has decided; agreement needs two."]


def test_what_can_be_told_of_a_pair_set_without_looking(tmp_path: Path) -> None:
    cell = {"perturbed": 0, "clean": 1, "idk": 1, "answerable": 1, "pairs": 1}
    counts = {"splits": ["test"], "categories": ["k"], "cells": {s: {c: cell for c in ("k", "all")} for s in ("test", "all")}}
    (tmp_path / "statistics.json").write_text(json.dumps(counts))
    same = {"category": "<b>k", "n_learnt": 40, "n": 1200, "in_turn": False, "accuracy": 0.5, "balanced_accuracy": None, "why": None}
    rows = [
        {**same, "sees": "nothing"},
        {
            **same,
            "sees": "question",
            "repeated": 0.25,
            "balanced_accuracy": 0.75,
            "balanced_low": 0.7,
            "balanced_high": 0.8,
            "told_apart": True,
        },
        {**same, "sees": "picture", "why": "no rows with a picture to learn from"},
    ]
    write_table(tmp_path / "ours.shortcuts.parquet", rows, SHORTCUTS)
    write_table(tmp_path / "samples.parquet", [{"sample_id": "s", "question": "Where?", "split": "test", "answerable": True}], SAMPLES)
    inputs = {"datasets": {"ours": str(tmp_path), "other": str(tmp_path)}, "shortcuts": {"ours": str(tmp_path / "ours.shortcuts.parquet")}}
    blocks = data_sets(SimpleNamespace(stage=SimpleNamespace(params={}, inputs=inputs)))  # type: ignore[arg-type]
    sheet = next(s for s in blocks[0].sheets if s.caption == "What can be told without looking")
    picture = "undefined: no rows with a picture to learn from"
    assert sheet.rows == [["<b>k", "1,200", "25.0%", "0.500", "0.750 (0.700 to 0.800) *", picture]]
    assert "above 0.55" in sheet.note and all(s.caption != sheet.caption for s in blocks[1].sheets)
