"""What is put before a reviewer, and in which order."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import PIL.Image
import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.data.splits import SplitRule
from qualm.runners.review.pool import Pool, PoolError, ReviewQuestion, read_dataset_pool, read_pool
from qualm.runners.runtime.records import read_table, write_table
from tests.support.data.tiny_pairs import png, write_pairs
from tests.support.data.tiny_questions import SUBSETS, write_questions


def test_test_split_of_the_recipes_with_pictures_from_both_places(pool: Pool) -> None:
    assert len(pool) == 12
    assert all("test" in s for s in pool.questions)
    gone, clean = pool.pairs["eoustest0"][1], pool.pairs["eoustest0"][0]
    assert (clean.answerable, gone.answerable) == (True, False)
    assert gone.picture and clean.picture and gone.picture != clean.picture
    assert gone.content != clean.content
    assert gone.notes == {"proof": "the ball of eoustest0 was taken out"}


def test_every_reviewer_has_an_order_of_their_own_and_keeps_it(pool: Pool, tmp_path: Path) -> None:
    ann = pool.order("ann")
    assert ann == pool.order("ann") != pool.order("bob")
    assert sorted(ann) == sorted(pool.questions)
    assert [s[:-2] for s in ann[::2]] == [s[:-2] for s in ann[1::2]]  # members of a pair follow one another
    assert {s[-1] for s in ann[::2]} == {"a", "u"}
    recipe, source = write_pairs(tmp_path, 5)
    longer = read_pool([recipe], [source])
    assert [s for s in longer.order("ann") if s in pool.questions] == ann


def test_a_sample_is_of_pairs_of_every_category_and_grows(pool: Pool) -> None:
    two, four = pool.only(None, 2, 7), pool.only(None, 4, 7)
    assert len(two.pairs) == 2 and {m[0].category for m in two.pairs.values()} == {"epistemic/extraneous", "aleatoric/temporal"}
    assert set(two.pairs) < set(four.pairs)
    for name in ("epistemic", "epistemic/extraneous", "extraneous"):
        assert {q.category for q in pool.only(name, None, 7).questions.values()} == {"epistemic/extraneous"}
    with pytest.raises(PoolError, match="no question is of category 'tempora'; there are: aleatoric/temporal, epistemic/extraneous"):
        pool.only("tempora", None, 7)


def test_a_pair_is_of_the_category_of_either_member(tmp_path: Path) -> None:
    recipe, source = write_pairs(tmp_path)
    samples = read_table(recipe / "samples.parquet", SAMPLES).to_pylist()
    for row in samples:
        row["category"] = f"a/{'x' if row['answerable'] else 'y'}"
    write_table(recipe / "samples.parquet", samples, SAMPLES)
    pool = read_pool([recipe], [source])
    for name in ("a/x", "a/y", "y", "a"):
        assert pool.only(name, None, 7).questions.keys() == pool.questions.keys(), "a pair is reviewed as a whole"


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(PoolError, match="no pairs here yet"):
        read_pool([tmp_path], [])
    recipe, source = write_pairs(tmp_path)
    with pytest.raises(PoolError, match="no pair of split 'val'"):
        read_pool([recipe], [source], "val")
    with pytest.raises(PoolError, match="3 of 6 images are not on this disk, 'clean0' the first"):
        read_pool([recipe], [])
    shutil.rmtree(recipe / "images")
    with pytest.raises(PoolError, match="3 of 6 images are not on this disk"):
        read_pool([recipe], [source])


def test_a_data_set_without_pairs(tmp_path: Path) -> None:
    whole = read_dataset_pool("photos", write_questions(tmp_path), SplitRule(), SUBSETS)
    assert (len(whole), whole.paired, whole.choices) == (10, False, ("valid", "invalid", "misplaced", "skip"))
    blurred, clean = whole.questions["i0"], whole.questions["c0"]
    assert (blurred.claims, clean.claims) == (("image",), ("clean",))
    assert blurred.answers == ["unanswerable ×7", "red ×2", "dark red"]
    assert blurred.notes["LQI"] == "5" and blurred.picture != clean.picture
    assert whole.claimed(blurred)[0].startswith("image: LQI >= 4") and "in the subset image." in whole.asks(blurred)
    assert sorted(q.claims[0] for q in whole.only(None, 4, 7).questions.values()) == ["clean", "clean", "image", "image"]
    assert set(whole.only("image", None, 7).questions) == {"i0", "i1", "i2", "i3"}
    with pytest.raises(PoolError, match="there are: clean, cross, image, other, text"):
        whole.only("imago", None, 7)


def test_a_question_that_is_marked_or_nothing_is_claimed_of(tmp_path: Path) -> None:
    marked = read_dataset_pool("photos", write_questions(tmp_path), SplitRule(), {})
    assert "that it is uncertain. Is that so" in marked.asks(marked.questions["i0"])
    assert "that it is in no subset" in marked.asks(marked.questions["t0"])
    assert marked.claimed(marked.questions["c0"]) == ["meant to be certain"]
    plain = read_table(tmp_path / "samples.parquet", SAMPLES).to_pylist()
    write_table(tmp_path / "samples.parquet", [{**r, "meta": []} for r in plain], SAMPLES)
    bare = read_dataset_pool("photos", tmp_path, SplitRule(), {})
    assert bare.choices == ("valid", "invalid", "skip") and bare.asks(bare.questions["c0"]).startswith(
        "The set says that it can be answered"
    )


def test_a_data_set_that_cannot_be_reviewed(tmp_path: Path) -> None:
    folder = write_questions(tmp_path)
    with pytest.raises(PoolError, match="splits: it has no rows of 'test'"):
        read_dataset_pool("photos", folder, SplitRule(("test",)), SUBSETS)
    with pytest.raises(PoolError, match=r"sample 'c0': expected a number in meta\.note, got 'blurred'"):
        rows = [{**r, "meta": [("note", "blurred")]} for r in read_table(folder / "samples.parquet", SAMPLES).to_pylist()]
        write_table(folder / "samples.parquet", rows, SAMPLES)
        read_dataset_pool("photos", folder, SplitRule(), {"odd": "note > 3"})


def test_pictures_of_a_question_stand_side_by_side() -> None:
    one, other = png("red"), png("blue")
    several = [ReviewQuestion({}, lambda n=n: [one, other, one][:n]).picture for n in (1, 2, 3)]
    widths = [PIL.Image.open(io.BytesIO(picture or b"")).width for picture in several]
    assert widths == sorted(set(widths)) and several[0] == one
    assert ReviewQuestion({}, list).picture is None and ReviewQuestion({}, lambda: [one, b"no picture"]).picture == b""


def test_what_a_reviewer_is_asked_of_what_the_set_says() -> None:
    def asked(claims: tuple[str, ...], answerable: bool | None, subsets: dict[str, str]) -> str:
        facts = {"sample_id": "s", "pair_id": None, "category": None, "answerable": answerable, "references": None, "meta": None}
        q = ReviewQuestion(facts, list, claims)
        assert (q.pair_id, q.category, q.answers, q.notes) == ("s", "", [], {})
        return Pool([q], subsets).asks(q)

    rules = {"image": "meta.LQI >= 4 and a.meta < 2", "text": "meta.AMB == 5"}
    no = " and that it can NOT be answered from its image"
    end = ". Is that so, and are the answers right?"
    assert asked(("image", "text"), True, rules) == f"The set says that it is in the subset image and text{end}"
    assert asked(("image",), False, rules) == f"The set says that it is in the subset image{no}{end}"
    assert asked(("uncertain",), None, {}) == f"The set says that it is uncertain{end}"
    assert asked((), None, rules) == "The set says that it can be answered from its image. Is that so, and is the answer right?"
    assert asked((), False, {}) == "The set says that it can NOT be answered from its image. Is that so, and is the answer right?"
    q = ReviewQuestion({"sample_id": "s", "pair_id": "p"}, list, ("image", "certain"))
    pool = Pool([q], rules)
    assert pool.claimed(q) == ["image: LQI >= 4 and a.meta < 2", "meant to be certain"]
    assert pool.paired and (q.pair_id, q.sample_id) == ("p", "s")
    assert list(pool.words.items()) == [
        ("valid", "valid"), ("invalid", "invalid"), ("misplaced", "in the wrong subset"), ("skip", "skipped"), ("left", "left"),
    ]  # fmt: skip
