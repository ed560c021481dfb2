from pathlib import Path

import pytest

from qualm.runners.contracts.pairs import Member, PairContext, PairError, group_by_image, keep_single_image, pair_samples
from qualm.runners.runtime.settings import Settings

SOURCE = {"sample_id": "s", "image_id": "i", "group": None, "split": "val"}


def context(**changes):
    return PairContext(**{"datasets": {"b": Path("b"), "a": Path("a")}, "seed": 7, "label": "ours", "settings": Settings(), **changes})


def test_a_pair_is_answerable_first_and_shares_split_group_and_id():
    first, second = pair_samples(SOURCE, "p", "recipe", "x/y", Member("i", "Q?", "red", {"k": "v"}), Member("new", "R?", "I don't know"))
    assert (first.sample_id, second.sample_id) == ("p-a", "p-u") and (first.answerable, second.answerable) == (True, False)
    assert (first.image_id, second.image_id) == ("i", "new") and first.references == ("red",) and first.meta == {"k": "v"}
    for sample in (first, second):
        assert (sample.pair_id, sample.split, sample.group, sample.category, sample.source) == ("p", "val", "i", "x/y", "recipe")


@pytest.mark.parametrize("changes, group", [({"group": "g"}, "g"), ({}, "i"), ({"image_id": None}, "s")])
def test_the_group_is_the_sources_its_picture_or_itself(changes, group):
    first, second = pair_samples({**SOURCE, **changes}, "p", "r", "c", Member(None, "Q", "A"), Member(None, "Q", "A"))
    assert first.group == second.group == group


def test_dropped_samples_are_counted_by_reason():
    ours = context()
    ours.drop("no box")
    ours.drop("no box", 4)
    assert ours.dropped == {"no box": 5}


def test_random_numbers_depend_on_seed_recipe_and_names_alone():
    def number(ours, *names):
        return int(ours.rng(*names).integers(2**62))

    assert number(context(), "a", 1) == number(context(), "a", 1)
    assert (
        len({number(context(), "a", 1), number(context(), "a", 2), number(context(seed=8), "a", 1), number(context(label="x"), "a", 1)})
        == 4
    )


def test_a_data_set_that_the_stage_was_not_given():
    assert context().dataset("a") == Path("a")
    with pytest.raises(PairError, match="dataset 'c' is not among this stage's inputs: a, b"):
        context().dataset("c")


def test_samples_without_exactly_one_picture_are_counted():
    ours = context()
    rows = [{"image_id": i} for i in ("z", None, '["a", "b"]', "a", '["a", "b", "c"]')]
    assert [row["image_id"] for row in keep_single_image(ours, rows)] == ["z", "a"]
    assert ours.dropped == {"several images": 2, "no image": 1}
    keep_single_image(ours, rows[:1])
    assert sum(ours.dropped.values()) == 3


def test_rows_by_picture_in_order_of_first_appearance():
    rows = [{"image_id": i, "n": n} for n, i in enumerate(["z", None, "a", "z"])]
    assert {image: [row["n"] for row in found] for image, found in group_by_image(rows).items()} == {"z": [0, 3], "a": [2]}
    assert list(group_by_image(rows)) == ["z", "a"]


ROWS = [{"sample_id": f"{split}{i}", "split": split} for split in ("train", "test") for i in range(50)]


def handed_out(limit, succeeds, each=1):
    """Rows of each part, and the pairs that the stage takes where `succeeds` says that a row becomes pairs."""
    ours = context(limit=limit)
    parts, taken = [], []
    for part in ours.parts(ROWS, each):
        parts.append(part)
        taken += [row["sample_id"] for row in part for _ in range(each) if succeeds(row) and ours.takes(row["split"])]
    return parts, taken


def test_without_a_limit_rows_come_in_their_order_at_once():
    parts, taken = handed_out({}, lambda row: True)
    assert parts == [ROWS] and len(taken) == 100


def test_no_more_rows_are_handed_out_than_pairs_are_missing():
    parts, taken = handed_out({"test": 12}, lambda row: True)
    assert [len(part) for part in parts] == [50 + 12] and sum(name.startswith("test") for name in taken) == 12
    parts, taken = handed_out({"": 30}, lambda row: True, each=2)
    assert [len(part) for part in parts] == [15] and len(taken) == 30


def test_rows_that_become_no_pair_are_replaced_by_others():
    parts, taken = handed_out({"": 20}, lambda row: int(row["sample_id"][-1]) % 2 == 0)
    assert len(taken) == 20 and len(parts) > 1 and 20 < sum(map(len, parts)) < 60
    parts, taken = handed_out({"": 20}, lambda row: False)
    assert sum(map(len, parts)) == len(ROWS) and not taken


def test_a_larger_limit_only_adds_pairs():
    (_, few), (_, more) = (handed_out({"train": n, "test": n}, lambda row: row["sample_id"][-1] != "3") for n in (5, 25))
    assert set(few) < set(more) and len(more) == 50
