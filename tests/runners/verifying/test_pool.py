"""What is put before a reviewer, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.verifying.pool import Pool, PoolError, read_pool
from tests.tiny_pairs import write_pairs


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


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(PoolError, match="no pairs here yet"):
        read_pool([tmp_path], [])
    recipe, source = write_pairs(tmp_path)
    with pytest.raises(PoolError, match="no pair of split 'val'"):
        read_pool([recipe], [source], "val")
    with pytest.raises(PoolError, match="3 of 6 pictures are not on this disk, 'clean0' the first"):
        read_pool([recipe], [])
