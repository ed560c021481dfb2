from types import SimpleNamespace

import pytest

from qualm.compiler.project.pending_questions import questions, questions_of_variants
from qualm.registry.sample import SAMPLES, Sample
from qualm.runners.data.rows import as_row
from qualm.runners.data.splits import ASKED_BY
from qualm.runners.runtime.records import write_table


def stage(*names, **params):
    return SimpleNamespace(inputs={"datasets": {name: f"data/{name}" for name in names}}, params=params)


@pytest.fixture
def root(tmp_path):
    samples = [Sample(sample_id=str(i), question=f"Q{i}?", split=split) for i, split in enumerate(["train", "test", "test"])]
    write_table(tmp_path / "data" / "d" / "samples.parquet", [as_row(s) for s in samples], SAMPLES)
    return tmp_path


def test_the_rows_that_models_are_asked(root):
    (table,) = questions(stage("d"), root, ["question"])
    assert set(table.column_names) == {*ASKED_BY, "question"} and "Q1?" in table["question"].to_pylist()


def test_a_part_of_them_for_a_dear_model(root):
    samples = [Sample(sample_id=str(i), question="Q?", split="test", category="ab"[i % 2]) for i in range(20)]
    write_table(root / "data" / "e" / "samples.parquet", [as_row(s) for s in samples], SAMPLES)
    (table,) = questions(stage("e", subset={"per_category": 3, "seed": 7}), root, ["question"])
    assert sorted(table["category"].to_pylist()) == ["a"] * 3 + ["b"] * 3


def test_without_its_picture_a_model_is_asked_the_scored_rows_alone(root):
    samples = [Sample(sample_id=str(i), question="Q?", split=("val", "test")[i > 2]) for i in range(8)]
    write_table(root / "data" / "f" / "samples.parquet", [as_row(s) for s in samples], SAMPLES)
    variants = {"clean": {"plugin": None, "args": {}}, "swapped_picture": {"plugin": None, "args": {}, "picture": "swapped"}}
    asked = questions_of_variants(stage("f", also=["val"], variants=variants), root, ["question"])
    assert [t.num_rows for t in asked] == [8, 5] and [t.num_rows for t in questions(stage("f", also=["val"]), root, [])] == [8]


def test_a_data_set_that_is_not_built_leaves_it_open(root):
    assert questions(stage("d", "later"), root, ["question"]) is None
    assert questions(stage(), root, ["question"]) == []
