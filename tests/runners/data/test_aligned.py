import json

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import GENERATIONS, SAMPLES
from qualm.runners.data.aligned import (
    Samples,
    check_fields,
    check_slices,
    flatten_lists,
    greedy_by_variant,
    option_probabilities,
    read_samples,
)
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.stages import infer


def samples(*rows):
    base = {"question": "?", "group": "", "answerable": True}
    return Samples("d", pa.Table.from_pylist([base | r for r in rows], schema=SAMPLES))


def generations(*rows):
    return pa.Table.from_pylist([{"variant": "clean", "draw": 0} | r for r in rows], schema=GENERATIONS)


TWO = samples(
    {"sample_id": "a", "choices": ["x", "y", "z"], "answer_index": 1}, {"sample_id": "b", "choices": ["x", "y"], "answer_index": 0}
)


def test_rows_are_matched_by_id_whatever_their_order():
    table = generations({"sample_id": "b", "option_logits": [0.0, np.log(3)]}, {"sample_id": "a", "option_logits": [0.0, 0.0, 0.0]})
    found = option_probabilities(TWO, table, "g")
    np.testing.assert_allclose(found, [[1 / 3, 1 / 3, 1 / 3], [0.25, 0.75, np.nan]])


def test_missing_and_infinite_logits_are_unscored():
    found = option_probabilities(TWO, generations({"sample_id": "a", "option_logits": [1.0, np.inf, 0.0]}), "g")
    assert np.isnan(found).all()
    found = option_probabilities(
        TWO, generations({"sample_id": "a", "option_logits": None}, {"sample_id": "b", "option_logits": [800.0, -800.0]}), "g"
    )
    np.testing.assert_array_equal(found, [[np.nan] * 3, [1.0, 0.0, np.nan]])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"sample_id": "c", "option_logits": [1.0]}], "sample 'c' is not in dataset 'd'"),
        ([{"sample_id": "a", "option_logits": [1.0, 2.0]}], "sample 'a': 2 option logits for 3 options"),
        ([{"sample_id": "a", "option_logits": [1.0]}], "sample 'a': 1 option logits for 3 options"),
        ([{"sample_id": "b", "option_logits": [1.0, 2.0]}] * 2, "sample 'b' occurs 2 times"),
    ],
)
def test_rows_that_do_not_fit(rows, message):
    with pytest.raises(StageError, match=message):
        option_probabilities(TWO, generations(*rows), "g")


def test_a_question_may_have_one_option_or_none():
    mixed = samples({"sample_id": "a"}, {"sample_id": "b", "choices": ["x"], "answer_index": 0})
    np.testing.assert_array_equal(
        option_probabilities(mixed, generations({"sample_id": "b", "option_logits": [3.0]}), "g"), [[np.nan], [1.0]]
    )
    nothing = generations({"sample_id": "a", "option_logits": None})
    assert option_probabilities(samples({"sample_id": "a"}), nothing, "g").shape == (1, 0)
    assert mixed.truth.tolist() == [-1, 0] and mixed.n_options.tolist() == [0, 1]


def test_what_says_nothing_can_be_answered():
    own = samples(*({"sample_id": str(i), "answerable": value} for i, value in enumerate([None, True, False])))
    assert own.answerable.tolist() == [1.0, 1.0, 0.0] and own.uncertain.tolist() == [0.0, 0.0, 1.0]


def test_folds_are_halves_of_two_groups_or_more():
    for groups, folds in (("aaaa", {0.0}), ("aabb", {0.0, 1.0})):
        fold = samples(*({"sample_id": str(i), "group": g} for i, g in enumerate(groups))).fold
        assert set(fold) == folds and len({(g, f) for g, f in zip(groups, fold, strict=True)}) == len(set(groups))


def test_groups():
    found = samples(*({"sample_id": i, "group": g} for i, g in [("1", "x"), ("2", ""), ("3", "x"), ("x", "")])).groups
    assert found[0] == found[2]
    assert len(set(found)) == 3


def test_values_of_columns_and_meta():
    of = samples({"sample_id": "1", "category": "c", "meta": [("kind", "k")]}, {"sample_id": "2", "category": "", "answerable": False})
    assert of.values("category") == ["c", None]
    assert of.values("kind") == ["k", None]
    assert of.values("answerable") == ["true", "false"]
    assert of.values("nothing") == [None, None]


def test_how_many_pictures_is_a_field_as_in_where():
    of = samples(*({"sample_id": str(i), "image_id": name} for i, name in enumerate([None, "a.png", '["a", "b"]'])))
    assert of.values("pictures") == ["0", "1", "2"] and list(of.codes("pictures")) == [0, 1, 2]
    check_fields("slices", ["pictures"], [of])


def test_flat_skips_nulls():
    values, lengths = flatten_lists(pa.chunked_array([pa.array([[1.0, 2.0], None, [], [3.0]])]))
    assert values.tolist() == [1, 2, 3]
    assert lengths.tolist() == [2, 0, 0, 1]


def test_greedy_by_variant(tmp_path):
    rows = [{"sample_id": "a", "variant": v, "draw": d} for v in ("clean", "blur") for d in (0, 1)]
    write_table(tmp_path / "g.parquet", rows, GENERATIONS)
    found = greedy_by_variant(tmp_path / "g.parquet", ["text"])
    assert {v: t.num_rows for v, t in found.items()} == {"clean": 1, "blur": 1}


def test_ids_must_be_distinct(tmp_path):
    write_table(tmp_path / "samples.parquet", [{"sample_id": "a"}, {"sample_id": "a"}], SAMPLES)
    with pytest.raises(StageError, match="sample ids are not distinct"):
        read_samples("d", tmp_path)


def test_groups_and_codes_are_numbered_by_their_names_and_meta_is_read_by_key():
    rows = [{"meta": [("kind", "b"), ("kind", "a")], "group": "z"}, {"meta": None, "group": None}, {"meta": [], "group": "z"},
            {"meta": [("other", "x")], "group": ""}, {"meta": [("other", None), ("kind", "")], "group": "y"}]  # fmt: skip
    own = samples(*({"sample_id": f"s{i}", **row} for i, row in enumerate(rows)))
    assert own.values("kind") == ["a", None, None, None, ""] and own.values("other") == [None, None, None, "x", None]
    assert own.groups.tolist() == [3, 0, 3, 1, 2], "samples without a group come first, by their ids"
    np.testing.assert_array_equal(own.codes("kind"), [1, np.nan, np.nan, np.nan, 0])
    part = Samples("d", own.table.slice(3))
    assert part.values("kind") == [None, ""] and part.values("gone") == [None, None]
    assert Samples("d", own.table.slice(2, 1)).values("other") == [None] and Samples("d", own.table.slice(3, 1)).values("other") == ["x"]
    assert own.values("answerable") == ["true"] * 5 and own.values("group") == ["z", None, "z", None, "y"]


def test_a_slice_that_no_sample_has_stops_a_model_before_it_is_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stage = Stage("t/infer", "t", "infer", "infer", {"model": {"label": "m"}}, {}, {}, 0, Settings())
    score = {"kind": "score", "seed": 0, "params": {"slices": ["category*kind"]}, "outputs": {}}
    score["inputs"] = {"datasets": {name: f"data/{name}" for name in ("a", "b")}}
    path = tmp_path / "specs/t/stages/score.json"
    check_slices(stage)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(score))
    write_table(tmp_path / "data/a/samples.parquet", [{"sample_id": "1", "question": "?", "category": "c"}], SAMPLES)
    check_slices(stage)  # b is still to be made
    write_table(tmp_path / "data/b/samples.parquet", [{"sample_id": "1", "question": "?"}], SAMPLES)
    with pytest.raises(StageError, match="slices: no sample of datasets a, b has 'kind': it is not a field of these samples"):
        infer.run(stage)
    write_table(tmp_path / "data/b/samples.parquet", [{"sample_id": "1", "question": "?", "meta": [("kind", "k")]}], SAMPLES)
    check_slices(stage)
