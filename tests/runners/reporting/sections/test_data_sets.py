"""Validity by human review of a dataset without pairs, as the report's table says it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from qualm.registry.sample import SAMPLES, SHORTCUTS
from qualm.runners.reporting.sections.data_sets import data_sets, taxonomy
from qualm.runners.runtime.records import write_table
from tests.runners.reporting.held import held
from tests.runners.reporting.made_results import made_results


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
    stage = made_results(inputs={"datasets": {"photos": str(tmp_path), "other": str(tmp_path / "none")}})
    (block,) = data_sets(stage)
    (sheet,) = block.sheets
    assert sheet.header == ["category", "valid (Wilson 95%)", "valid", "invalid", "wrong subset", "tied", "unreviewed"]
    assert [r[0] for r in sheet.rows] == ["other", "all", "subset image", "subset text"]
    assert sheet.rows[2][1:] == ["40.0% (10.0% – 90.0%)", "2", "0", "3", "0", "0"]
    assert sheet.rows[3][1] == "undefined: none decided"
    assert "reviewed val questions" in sheet.note and "Of 6 questions, 2 are kept (dropped: 3 wrong subset, 1 unreviewed)." in sheet.note
    assert "2 decisions on questions that have changed" in sheet.note and "pair" not in sheet.note
    assert block.sentences == ["One reviewer (ann) reviewed this dataset; agreement needs two reviewers."]


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
            "above_limit": True,
        },
        {**same, "sees": "picture", "why": "no rows with an image to learn from"},
    ]
    write_table(tmp_path / "ours.shortcuts.parquet", rows, SHORTCUTS)
    write_table(tmp_path / "samples.parquet", [{"sample_id": "s", "question": "Where?", "split": "test", "answerable": True}], SAMPLES)
    inputs = {"datasets": {"ours": str(tmp_path), "other": str(tmp_path)}, "shortcuts": {"ours": str(tmp_path / "ours.shortcuts.parquet")}}
    blocks = data_sets(made_results(inputs=inputs))
    sheet = next(s for s in blocks[0].sheets if s.caption == "Shortcuts: answerability from the question or the image alone")
    picture = "undefined: no rows with an image to learn from"
    assert sheet.rows == [["<b>k", "1,200", "25.0%", "0.500", "0.750 (0.700 to 0.800) *", picture]]
    assert "above 0.55" in sheet.note and all(s.caption != sheet.caption for s in blocks[1].sheets)


def test_all_that_is_shown(tmp_path: Path) -> None:
    """A set of pairs of two recipes, assembled, looked through for near-duplicates and reviewed by three people."""
    names = ("aleatoric/temporal", "epistemic/knowledge", "own")
    cells = {
        split: {
            c: {"perturbed": 1000 * k, "clean": k + 1, "idk": k + 2, "answerable": k + 3, "pairs": k} for k, c in enumerate((*names, "all"))
        }
        for split in ("train", "test", "all")
    }
    quality = {"psnr_inside": 21.25, "psnr_outside": None, "ssim_inside": 0.5, "ssim_outside": 1.0, "detected": 0.125, "pictures": 1200}
    unknown = dict.fromkeys(quality) | {"pictures": 0}
    (tmp_path / "pairs.json").write_text(json.dumps({"removal": {"all": quality, "none": unknown}, "other": {"pictures": 1}}))
    recipes = [
        {
            "label": "inpainted",
            "parents": ["scenes", "photos"],
            "pairs": 1200,
            "dropped": {"b": 2, "a": 2, "c": 1000},
            "record": "pairs.json",
        },
        {"label": "written", "parents": ["scenes"], "pairs": 0, "dropped": {}, "record": "gone.json"},
    ]
    duplicates = {"pairs": 1200, "distance": 6, "between": {"test/train": 1000, "test/val": 200}, "dropped": True}
    statistics = {
        "splits": ["train", "test"],
        "categories": list(names),
        "cells": cells,
        "recipes": recipes,
        "dropped": {"y": 1, "x": 1, "z": 3},
    }
    (tmp_path / "statistics.json").write_text(json.dumps(statistics | {"near_duplicates": duplicates}))
    people = [{"reviewer": name, "valid": 5, "invalid": 1, "misplaced": 0} for name in ("ann", "bob", "cyd")]
    agreement = {"reviewers": people, "shared": 1200, "raw": 0.75, "cohen_kappa": 0.5, "fleiss_kappa": 0.4375, "krippendorff_alpha": None,
                 "fleiss_kappa_interval": [0.25, 0.625], "cohen_kappa_interval": None}  # fmt: skip
    facts = {
        "splits": ["val", "test"], "unreviewed": "keep", "decisions": {"applied": 5, "skipped": 0, "stale": 0, "gone": 0}, "subsets": [],
        "unit": "pair", "units": {"all": 1200, "kept": 1000, "dropped": {}}, "categories": [share("", valid=1, invalid=1)],
        "agreement": agreement,
    }  # fmt: skip
    (tmp_path / "verification.json").write_text(json.dumps(facts))
    two = tmp_path / "two"
    two.mkdir()
    pair = agreement | {"reviewers": people[:2], "cohen_kappa": None}
    one = {
        "splits": ["test"],
        "categories": ["k"],
        "cells": {"test": {"k": cells["test"]["own"]}, "all": {}},
        "near_duplicates": {"pairs": 0},
    }
    (two / "statistics.json").write_text(json.dumps(one))
    (two / "verification.json").write_text(json.dumps(facts | {"agreement": pair}))
    apart = tmp_path / "apart"
    apart.mkdir()
    (apart / "verification.json").write_text(json.dumps(facts | {"agreement": agreement | {"shared": 0}}))
    nobody = tmp_path / "nobody"
    nobody.mkdir()
    (nobody / "verification.json").write_text(json.dumps(facts | {"agreement": agreement | {"reviewers": []}}))
    about = {"definition": "d", "answer": "a", "examples": ["x", "y", "z"]}
    params = {"taxonomy": {"epistemic": {"knowledge": about, "extraneous": {}}, "aleatoric": {"temporal": {"definition": None}}}}
    inputs = {
        "datasets": {"pairs": str(tmp_path), "two": str(two), "apart": str(apart), "nobody": str(nobody), "plain": str(tmp_path / "x")}
    }
    results = made_results(inputs=inputs, **params)
    held("data_sets", [taxonomy(results), data_sets(results)], tmp_path)
