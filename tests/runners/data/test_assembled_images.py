"""Pictures of an assembled set: found in the recipe first, then in its parents; each once; two of one name must be one picture."""

import hashlib

import pyarrow as pa
import pytest

from qualm.registry.formats.pictures import perceptual_hash
from qualm.registry.sample import IMAGES
from qualm.runners.data.assembled_images import AssembledPictures
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.stage import StageError
from tests.support.projects.asking import bare_stage, picture, png

RED, BLUE, GREEN = (png(picture(seed, 32)) for seed in (1, 2, 3))


def folder(root, name, **pictures):
    path = root / name
    path.mkdir()
    rows = [{"image_id": i, "image": None if data is None else {"bytes": data, "path": i}} for i, data in pictures.items()]
    if rows:
        write_table(path / "images" / "00000.parquet", rows, IMAGES)
    return path


def samples(*images):
    return pa.table({"image_id": pa.array(images, pa.string()), "sample_id": [f"s{i}" for i in range(len(images))]})


def test_pictures_come_from_the_recipe_then_from_its_parents_in_order(tmp_path):
    first, second = folder(tmp_path, "first", own=RED), folder(tmp_path, "second")
    sources = {"x": folder(tmp_path, "x", own=BLUE, shared=BLUE, unused=GREEN), "y": folder(tmp_path, "y", shared=BLUE, last=GREEN)}
    recipes = [
        ("a", first, ["x", "y", "not here"], samples("own", "shared", None, "own")),
        ("b", second, ["y", "x"], samples("shared", "last")),
    ]
    pictures = AssembledPictures(bare_stage(), recipes, sources)
    assert pictures.folders == [first, second, sources["x"], sources["y"]]
    assert pictures.wanted == {first: {"own"}, second: set(), sources["x"]: {"shared"}, sources["y"]: {"shared", "last"}}
    assert pictures.made_by("a") == {"own"} and pictures.made_by("b") == set()
    ids = {"own", "shared", "last"}
    assert [(r["image_id"], r["image"]["bytes"]) for r in pictures.rows(ids)] == [("own", RED), ("shared", BLUE), ("last", GREEN)]
    assert [r["image_id"] for r in pictures.rows({"last", "own"})] == ["own", "last"] and list(pictures.rows(set())) == []
    assert list(pictures.rows({"unused"})) == [], "no sample has it"


def test_hashes_are_those_of_the_pictures_and_none_where_there_is_none(tmp_path):
    made = folder(tmp_path, "made", a=RED, b=b"no picture", c=None, d=BLUE)
    pictures = AssembledPictures(bare_stage(), [("r", made, [], samples("a", "b", "c", "d"))], {})
    hashes = pictures.hashes({"a", "b", "c"})
    assert hashes == {"a": perceptual_hash(RED), "b": None, "c": None} and hashes["a"] is not None
    assert pictures.digests["a"] == (hashlib.sha256(RED).hexdigest(), made)
    assert pictures.digests["c"] == (hashlib.sha256(b"").hexdigest(), made) and "d" not in pictures.digests


def test_one_name_for_two_pictures_is_refused_with_both_places(tmp_path):
    first, second, third = folder(tmp_path, "1", a=RED), folder(tmp_path, "2", a=RED), folder(tmp_path, "3", a=BLUE)
    same = AssembledPictures(bare_stage(), [("r", first, [], samples("a")), ("q", second, [], samples("a"))], {})
    assert same.hashes({"a"}) == {"a": perceptual_hash(RED)} and len(list(same.rows({"a"}))) == 1
    other = AssembledPictures(bare_stage(), [("r", first, [], samples("a")), ("q", third, [], samples("a"))], {})
    both = f"{first}/images and {third}/images"
    with pytest.raises(StageError, match=rf"^the id 'a' names different images in {both}; each needs its own$"):
        other.hashes({"a"})


def test_a_picture_that_is_nowhere_is_told_with_all_places(tmp_path):
    made, source, other = folder(tmp_path, "made", a=RED), folder(tmp_path, "source"), folder(tmp_path, "other", b=RED)
    with pytest.raises(StageError) as error:
        AssembledPictures(bare_stage(), [("r", made, ["s"], samples("a", "b"))], {"s": source, "t": other})
    assert str(error.value) == f"recipe r: sample 's1': its image 'b' is not in {made}/images, {source}/images; run `dvc repro`"
