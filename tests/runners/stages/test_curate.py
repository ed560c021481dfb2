"""The `curate` stage: what people kept of a dataset, counted, with everything else as it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from qualm.registry.sample import IMAGES, SAMPLES
from qualm.runners.data.curation import Decision, write_decisions
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.data.splits import SplitRule
from qualm.runners.review.pool import read_dataset_pool
from qualm.runners.runtime.records import read_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.stages import curate
from tests.support.data.scenes_folder import write_card_of
from tests.support.data.tiny_questions import SUBSETS, rows, write_questions


def run(root: Path, said: Mapping[str, str], reviewers: tuple[str, ...] = ("ann",), **params: Any) -> Stage:
    pool = read_dataset_pool("photos", write_questions(root / "data"), SplitRule(), SUBSETS)
    votes = [(i, r, d) for i, words in said.items() for r, d in zip(reviewers, words.split(), strict=False)]
    write_decisions(root / "reviews" / "decisions.csv", [Decision(i, pool.questions[i].content, r, d) for i, r, d in votes])
    return again(root, **params)


def again(root: Path, **params: Any) -> Stage:
    whole = {"dataset": "photos", "unreviewed": "drop", "lone": "drop", "subsets": SUBSETS, **params}
    write_card_of(root / "data.md")
    inputs = {"dataset": "data", "card": "data.md", "reviews": "reviews"}
    outputs = {"dataset": "curated", "card": "curated.md"}
    stage = Stage("s/curate-photos", "s", "curate-photos", "curate", whole, inputs, outputs, 0, Settings())
    with chdir(root):
        curate.run(stage)
    return stage


def kept(root: Path) -> list[str]:
    return read_table(root / "curated" / "samples.parquet", SAMPLES)["sample_id"].to_pylist()  # type: ignore[no-any-return]


def test_what_people_call_valid_stays_with_its_pictures(tmp_path: Path) -> None:
    stage = run(tmp_path, {"c0": "valid", "c1": "valid", "i0": "valid", "i1": "misplaced", "i2": "invalid", "c2": "skip"})
    assert kept(tmp_path) == ["c0", "c1", "i0", "tr"]  # what is trained on is nobody's to review
    assert stage.counters == {
        "samples": 4, "images": 4, "dropped (review: invalid)": 1, "dropped (review: misplaced)": 1, "dropped (review: unreviewed)": 5,
    }  # fmt: skip
    pictures = read_table(tmp_path / "curated" / "images", IMAGES)["image_id"].to_pylist()
    assert pictures == [f"photo-{name}" for name in kept(tmp_path)]
    assert DatasetFolder("photos", tmp_path / "curated").image(0) is not None
    assert (tmp_path / "curated" / "scenes" / "val.jsonl").read_text() == "{}\n"
    facts = json.loads((tmp_path / "curated" / "verification.json").read_text())
    assert (facts["unit"], facts["splits"], facts["decisions"]["applied"]) == ("question", ["val"], 6)
    assert facts["units"] == {"all": 10, "kept": 3, "dropped": {"invalid": 1, "misplaced": 1, "unreviewed": 5}}
    subsets = {c["category"]: (c["valid"], c["invalid"], c["misplaced"], c["share"]) for c in facts["subsets"]}
    assert subsets == {"clean": (2, 0, 0, 1.0), "image": (1, 1, 1, pytest.approx(1 / 3)), "text": (0, 0, 0, None), "cross": (0, 0, 0, None)}


def test_several_reviewers_and_unreviewed_ones_kept(tmp_path: Path) -> None:
    said = {"c0": "valid misplaced invalid", "c1": "valid valid misplaced", "i0": "valid misplaced", "i1": "misplaced misplaced invalid"}
    stage = run(tmp_path, said, ("ann", "bob", "eve"), unreviewed="keep")
    assert kept(tmp_path) == [r["sample_id"] for r in rows() if r["sample_id"] not in ("c0", "i0", "i1")]
    assert {k: n for k, n in stage.counters.items() if k.startswith("dropped")} == {
        "dropped (review: invalid)": 1, "dropped (review: misplaced)": 1, "dropped (review: unresolved)": 1,
    }  # fmt: skip


def test_a_question_in_another_subset_is_another_question(tmp_path: Path) -> None:
    moved = {**SUBSETS, "clean": "LQI >= 4", "image": "LQI <= 1"}
    run(tmp_path, {"c0": "invalid", "x0": "invalid"}, unreviewed="keep", subsets=moved)
    facts = json.loads((tmp_path / "curated" / "verification.json").read_text())
    assert facts["decisions"] == {"applied": 0, "skipped": 0, "stale": 2, "gone": 0}
    assert len(kept(tmp_path)) == 11


def test_the_splits_that_the_spec_scores_are_filtered(tmp_path: Path) -> None:
    run(tmp_path, {}, splits={"photos": ["train"]}, unreviewed="keep")
    assert json.loads((tmp_path / "curated" / "verification.json").read_text())["units"]["all"] == 1


def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"no question is left of 11 \(11 unreviewed\); review some with `qualm verify \w+ photos`"):
        run(tmp_path, {}, splits={"photos": ["val", "train"]})
    (tmp_path / "reviews" / "decisions.csv").write_text("who\n")
    with pytest.raises(StageError, match=r"dataset photos: reviews/decisions\.csv: expected columns sample_id"):
        again(tmp_path)


def test_so_many_of_each_class_of_what_people_kept(tmp_path: Path) -> None:
    how = {"take": 1, "by": "category", "shortfall": "error", "seed": 7}
    stage = run(tmp_path, dict.fromkeys(("c0", "c1", "i0"), "valid"), balance=how)
    names = kept(tmp_path)
    assert len([name for name in names if name != "tr"]) == len({r["category"] for r in rows() if r["sample_id"] in ("c0", "c1", "i0")})
    assert "tr" in names and stage.counters["samples"] == len(names) and stage.counters["left out (balance)"] == 4 - len(names)
