import json
from contextlib import chdir
from dataclasses import replace

import pytest

from qualm.registry.sample import IMAGES, SAMPLES, Image
from qualm.runners.contracts.pairs import Member, PairError, pair_samples
from qualm.runners.runtime.records import read_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.stages import pair

SOURCE = {"sample_id": "s", "image_id": "i", "group": "g", "split": "val"}


def members(name="p", **changes):
    answerable, unanswerable = Member("i", "What?", "red"), Member("new", "Which?", "I don't know")
    first, second = pair_samples({**SOURCE, **changes}, name, "recipe", "x/y", answerable, unanswerable)
    return [first, second]


@pytest.fixture
def params():
    return {"plugin": "from_caption", "label": "ours", "about": {}, "args": {"a": 1}}


@pytest.fixture
def run(tmp_path, monkeypatch, params):
    def go(*made, error=None, datasets=("d",)):
        def recipe(context, **args):
            context.drop("no box", 2)
            context.notes["kernel"] = 20
            yield from made
            if error:
                raise error

        monkeypatch.setattr(pair, "load", lambda kind, name: recipe)
        stage = Stage(
            "t/pair",
            "t",
            "pair",
            "pair",
            params,
            {"datasets": {name: f"data/{name}" for name in datasets}},
            {"pairs": "pairs"},
            7,
            Settings(progress=False),
        )
        pair.run(stage)
        return stage

    with chdir(tmp_path):
        yield go


def test_pairs_pictures_and_what_was_made_of_what(run, tmp_path):
    stage = run(Image("new", b"png", "new.png"), *members(), *members("q", split="train"))
    assert read_table(tmp_path / "pairs" / "samples.parquet", SAMPLES)["sample_id"].to_pylist() == ["p-a", "p-u", "q-a", "q-u"]
    recipe = json.loads((tmp_path / "pairs" / "recipe.json").read_text())
    assert (recipe["pairs"], recipe["pairs_by_split"], recipe["dropped"], recipe["kernel"]) == (
        2,
        {"train": 1, "val": 1},
        {"no box": 2},
        20,
    )
    assert recipe["parents"] == ["d"] and stage.counters["pairs"] == 2 and stage.counters["dropped (no box)"] == 2


def test_what_a_recipe_records_does_not_hang_on_the_order_of_its_data_sets(run, tmp_path):
    records = []
    for datasets in (("b", "a", "c"), ("a", "c", "b")):
        run(*members(), datasets=datasets)
        records.append((tmp_path / "pairs" / "recipe.json").read_bytes())
    assert records[0] == records[1] and json.loads(records[0])["parents"] == ["a", "b", "c"]


FIRST, SECOND = members()


@pytest.mark.parametrize(
    "made, message",
    [
        ([], r"recipe ours: made no pair of d \(no box: 2\)"),
        ([FIRST], "the last pair, 'p', has one member"),
        ([SECOND], "'p-u' does not follow the answerable member of its pair"),
        ([FIRST, replace(SECOND, pair_id="q")], "'p-u' does not follow"),
        ([replace(FIRST, pair_id=None), replace(SECOND, pair_id=None)], "'p-u' does not follow"),
        ([FIRST, replace(SECOND, split="test")], "members of 'p' differ in split, group or category"),
        ([FIRST, replace(SECOND, group="h")], "differ in split, group or category"),
        ([FIRST, replace(SECOND, category="z")], "differ in split, group or category"),
        ([FIRST, replace(SECOND, references=())], "pair 'p': a member has no answer"),
        ([replace(FIRST, references=()), SECOND], "pair 'p': a member has no answer"),
        ([FIRST, SECOND, FIRST], "sample 'p-a' comes twice"),
        ([Image("new", b"1", "a"), Image("new", b"1", "a")], "image 'new' comes twice"),
    ],
)
def test_what_no_reader_could_rely_on_is_refused(run, tmp_path, made, message):
    with pytest.raises(StageError, match=message):
        run(*made)
    assert not (tmp_path / "pairs").exists()


def test_a_recipe_that_fails_is_the_stages_failure(run):
    with pytest.raises(StageError, match="expected captions"):
        run(*members(), error=PairError("expected captions"))


def test_pairs_beyond_the_limit_are_left_out_with_their_pictures(run, tmp_path, params):
    params["limit"] = {"train": 1}
    made = [
        pair
        for n, split in enumerate(["train", "train", "val", "val"])
        for pair in (Image(f"i{n}", b"png", ""), *members(f"p{n}", split=split))
    ]
    stage = run(*made)
    assert read_table(tmp_path / "pairs/samples.parquet", SAMPLES)["pair_id"].to_pylist() == ["p0", "p0", "p2", "p2", "p3", "p3"]
    assert read_table(tmp_path / "pairs/images", IMAGES)["image_id"].to_pylist() == ["i0", "i2", "i3"]
    assert stage.counters["dropped (beyond the limit)"] == 1
    assert json.loads((tmp_path / "pairs/recipe.json").read_text())["limit"] == {"train": 1}
