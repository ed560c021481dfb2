import io

import imagehash
import numpy as np
import PIL.Image
import pyarrow as pa
import pytest

from qualm.registry.formats.pictures import perceptual_hash
from qualm.runners.data import leakage
from qualm.runners.data.leakage import SHOWN, check_splits, close_pairs, near_duplicates
from qualm.runners.runtime.stage import StageError


def table(*rows):
    names = ("sample_id", "image_id", "group", "split", "pair_id")
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)})


def test_a_picture_on_two_splits_is_named_with_both_places():
    first = table(("s", "i", "g", "train", "p"), ("t", None, None, "test", "p"))
    second = table(("u", "i", "h", "test", "q"))
    with pytest.raises(StageError, match=r"image 'i' is in two splits: train \(recipe a, sample 's'\) and test \(recipe b, sample 'u'\)"):
        check_splits([("a", first), ("b", second)])
    check_splits([("a", first), ("b", table(("u", "i", "g", "train", "q")))])


def test_a_group_on_two_splits_is_found_too():
    with pytest.raises(StageError, match="group 'g' is in two splits: train"):
        check_splits([("a", table(("s", "i", "g", "train", "p"), ("t", "j", "g", "val", "p")))])


def test_each_picture_of_a_list_lies_on_one_split_and_what_has_no_group_shares_none():
    several = table(("s", '["i", "j"]', "", "train", "p"), ("t", "j", "", "test", "q"))
    with pytest.raises(StageError, match=r"image 'j' is in two splits: train \(recipe a, sample 's'\) and test \(recipe a, sample 't'\)"):
        check_splits([("a", several)])
    check_splits([("a", table(("s", "i", "", "train", "p"), ("t", None, "", "test", "q"), ("u", None, None, "val", "r")))])


def test_near_duplicates_of_different_splits_cost_the_earlier_split_its_pairs():
    samples = table(
        ("a", "x", "", "test", "p1"), ("b", "y", "", "train", "p2"), ("c", "y", "", "train", "p3"), ("d", "z", "", "train", "p4"),
        ("e", "w", "", "odd", "p5"), ("f", None, "", "val", "p6"),
    )  # fmt: skip
    facts, lost = near_duplicates(samples, {"x": 0b111, "y": 0b110, "z": 0b1110000, "w": 0b1111}, 2)
    assert lost == {"p1", "p2", "p3"}, "train gives way to test and odd, test to odd"
    assert facts["pairs"] == 3 and [*facts["between"].items()] == [("test/odd", 1), ("train/odd", 1), ("train/test", 1)]
    assert facts["closest"][:2] == [{"bits": 1, "test": "x", "odd": "w"}, {"bits": 1, "train": "y", "test": "x"}]


def test_pictures_of_one_split_and_without_a_hash_do_not_meet():
    samples = table(("a", "x", "", "train", "p"), ("b", "y", "", "train", "q"), ("c", "z", "", "test", "r"))
    assert near_duplicates(samples, {"x": 0, "y": 0}, 64) == ({"pairs": 0, "between": {}, "closest": []}, set())


def test_all_are_counted_and_the_closest_named():
    n = 12
    rows = [(f"{s}{i}", f"{s}{i}", "", s, f"{s}{i}") for s in ("train", "test") for i in range(n)]
    facts, lost = near_duplicates(table(*rows), {row[1]: 0 for row in rows}, 0)
    assert facts["pairs"] == n * n and len(facts["closest"]) == SHOWN and lost == {f"train{i}" for i in range(n)}


def test_the_closest_are_kept_while_others_are_counted(monkeypatch) -> None:
    monkeypatch.setattr(leakage, "SHOWN", 1)
    hashes = {"far": 0b100, "same": 0b101, **{f"far{i}": 0b111 for i in range(9)}}
    rows = [(name, name, "", "train", name) for name in hashes] + [(f"t{i}", f"t{i}", "", "test", f"t{i}") for i in range(12)]
    facts, _ = near_duplicates(table(*rows), {**hashes, **{f"t{i}": 0b101 for i in range(12)}}, 1)
    assert facts["pairs"] == 11 * 12 and facts["closest"] == [{"bits": 0, "train": "same", "test": "t0"}]


def encoded(image: PIL.Image.Image, form: str = "PNG") -> bytes:
    data = io.BytesIO()
    image.save(data, form)
    return data.getvalue()


def test_the_hash_is_imagehash_s() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    image = PIL.Image.fromarray(pixels).resize((200, 120), PIL.Image.Resampling.BICUBIC)
    found = perceptual_hash(encoded(image))
    assert found == int(str(imagehash.phash(image)), 16)
    photo = perceptual_hash(encoded(image, "JPEG"))
    assert photo is not None and found is not None
    assert (photo ^ found).bit_count() <= 4, "JPEG is decoded at a smaller scale"


def test_what_is_no_picture_has_no_hash() -> None:
    assert perceptual_hash(b"") is None
    assert perceptual_hash(encoded(PIL.Image.new("RGB", (40, 40)))[:60]) is None
    assert perceptual_hash(encoded(PIL.Image.new("L", (1, 1)))) is not None


def test_the_search_finds_exactly_what_a_double_loop_finds(monkeypatch) -> None:
    rng = np.random.default_rng(2)
    first = rng.integers(0, 2**64, 300, dtype=np.uint64)
    second = np.concatenate([first[:40], first[:30] ^ np.uint64(0b10110), rng.integers(0, 2**64, 200, dtype=np.uint64)])
    first = np.concatenate([first, first[:5]])
    wanted = {(i, j, (int(a) ^ int(b)).bit_count()) for i, a in enumerate(first) for j, b in enumerate(second)}
    for distance in (0, 2, 3, 4):
        assert set(close_pairs(first, second, distance)) == {(i, j, d) for i, j, d in wanted if d <= distance}
    assert list(close_pairs(first[:0], second, 64)) == list(close_pairs(first, second[:0], 64)) == []
    for block in (1, 1000):
        monkeypatch.setattr(leakage, "BLOCK", block)
        assert set(close_pairs(first, second, 3)) == {(i, j, d) for i, j, d in wanted if d <= 3}


def test_a_hundred_thousand_against_ten_thousand_take_seconds(benchmark) -> None:
    rng = np.random.default_rng(3)
    first, second = (rng.integers(0, 2**64, n, dtype=np.uint64) for n in (100_000, 10_000))
    assert len(benchmark.pedantic(lambda: list(close_pairs(first, second, 4)), rounds=1)) < 10
