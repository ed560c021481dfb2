import pyarrow as pa
import pytest

from qualm.runners.data.leakage import SHOWN, check_splits, near_duplicates
from qualm.runners.runtime.stage import StageError


def table(*rows):
    names = ("sample_id", "image_id", "group", "split", "pair_id")
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)})


def test_a_picture_on_two_splits_is_named_with_both_places():
    first = table(("s", "i", "g", "train", "p"), ("t", None, None, "test", "p"))
    second = table(("u", "i", "h", "test", "q"))
    with pytest.raises(StageError, match=r"picture 'i' is on two splits: train \(recipe a, sample 's'\) and test \(recipe b, sample 'u'\)"):
        check_splits([("a", first), ("b", second)])
    check_splits([("a", first), ("b", table(("u", "i", "g", "train", "q")))])


def test_a_group_on_two_splits_is_found_too():
    with pytest.raises(StageError, match="group 'g' is on two splits: train"):
        check_splits([("a", table(("s", "i", "g", "train", "p"), ("t", "j", "g", "val", "p")))])


def test_near_duplicates_of_different_splits_cost_the_earlier_split_its_pairs():
    samples = table(
        ("a", "x", "", "test", "p1"), ("b", "y", "", "train", "p2"), ("c", "y", "", "train", "p3"), ("d", "z", "", "train", "p4"),
        ("e", "w", "", "odd", "p5"), ("f", None, "", "val", "p6"),
    )  # fmt: skip
    facts, lost = near_duplicates(samples, {"x": 0b111, "y": 0b110, "z": 0b1110000, "w": 0b1111}, 2)
    assert lost == {"p1", "p2", "p3"}, "train gives way to test and odd, test to odd"
    assert facts["pairs"] == 3 and facts["between"] == {"test/odd": 1, "train/odd": 1, "train/test": 1}
    assert facts["closest"][:2] == [{"bits": 1, "test": "x", "odd": "w"}, {"bits": 1, "train": "y", "test": "x"}]


def test_pictures_of_one_split_and_without_a_hash_do_not_meet():
    samples = table(("a", "x", "", "train", "p"), ("b", "y", "", "train", "q"), ("c", "z", "", "test", "r"))
    assert near_duplicates(samples, {"x": 0, "y": 0}, 64) == ({"pairs": 0, "between": {}, "closest": []}, set())


def test_all_are_counted_and_the_closest_named():
    n = 12
    rows = [(f"{s}{i}", f"{s}{i}", "", s, f"{s}{i}") for s in ("train", "test") for i in range(n)]
    facts, lost = near_duplicates(table(*rows), {row[1]: 0 for row in rows}, 0)
    assert facts["pairs"] == n * n and len(facts["closest"]) == SHOWN and lost == {f"train{i}" for i in range(n)}
