import itertools

import numpy as np
import pytest

from qualm.runners.contracts.grouped_weights import Weights, sum_bins
from qualm.runners.scoring.bootstrap import Bootstrap, PartOf, Recorder, Replay, SideBySide, StackedTasks, join_counts, pair_with_weights

GROUP = np.array([0, 0, 1, 2, 2, 2])


def test_product_equals_the_dense_one():
    rng = np.random.default_rng(0)
    weights = Weights(rng.integers(0, 4, (7, 3)).astype(float), GROUP)
    column, columns = rng.random(6), rng.random((6, 4))
    np.testing.assert_allclose(weights @ column, np.asarray(weights) @ column)
    np.testing.assert_allclose(weights @ columns, np.asarray(weights) @ columns)
    chosen = np.array([0, 3, 5])
    np.testing.assert_allclose(weights.rows(chosen) @ column[chosen], np.asarray(weights)[:, chosen] @ column[chosen])
    assert weights.shape == (7, 6)


def test_recorder_is_the_sample_itself_and_replay_gives_the_recorded_sums():
    rng = np.random.default_rng(0)
    column, columns = rng.random(6), rng.random((6, 3))
    recorder = Recorder(6)
    np.testing.assert_allclose(recorder @ column, [column.sum()])
    np.testing.assert_allclose(recorder @ columns, [columns.sum(axis=0)])
    assert recorder.only_sums
    weights = Weights(rng.integers(0, 4, (7, 3)).astype(float), GROUP)
    replay = Replay(weights, [weights @ column for column in recorder.columns])
    np.testing.assert_allclose(replay @ column, weights @ column)
    np.testing.assert_allclose(replay @ columns, weights @ columns)
    with pytest.raises(ValueError, match="same columns for every resample"):
        Replay(weights, [np.zeros((7, 2))]) @ columns
    assert np.asarray(recorder).tolist() == [[1.0] * 6]
    assert not recorder.only_sums


def test_a_recorder_of_several_tasks_gives_the_sums_of_each():
    rng = np.random.default_rng(2)
    columns, parts = rng.random((9, 2)), [3, 5]
    columns[3:5] = 0.0
    recorder = Recorder(3, 2, 4)
    np.testing.assert_allclose(recorder @ columns, [part.sum(axis=0) for part in np.split(columns, parts)])
    np.testing.assert_allclose(recorder @ columns[:, 0], [part[:, 0].sum() for part in np.split(columns, parts)])
    place = np.array([0, 1, 1, 0, -1, 1, 1, 0, 0])
    by_hand = [[part[at == k, 1].sum() for k in (0, 1)] for part, at in zip(*(np.split(of, parts) for of in (columns, place)), strict=True)]
    np.testing.assert_allclose(recorder.sum_bins(columns[:, 1], place, 2), by_hand)
    noted = recorder.recorded()
    assert [of.is_summed.tolist() for of in noted] == [[True] * 3, [False] * 2, [True] * 4]
    assert {(of.widths, of.width, of.only_sums, of.in_bins) for of in noted} == {((2, 1, 1), 5, True, True)}


def test_whole_groups_are_drawn_as_often_as_there_are_groups():
    (block,) = Bootstrap(np.array([7, 7, 3, 9, 9, 9]), 500, 1, "x").blocks()
    assert (block.counts.sum(axis=1) == 3).all()
    dense = np.asarray(block)
    assert (dense[:, 0] == dense[:, 1]).all()
    assert (dense[:, 3] == dense[:, 5]).all()
    assert dense.mean() == pytest.approx(1, abs=0.1)


def test_draws_follow_from_the_names_alone(monkeypatch):
    group = np.arange(40)
    first = np.concatenate([np.asarray(b) for b in Bootstrap(group, 30, 1, "a", "b").blocks()])
    same = Bootstrap(group, 30, 1, "a", "b")
    same.keep = False
    monkeypatch.setattr("qualm.runners.scoring.bootstrap.BLOCK", 100)
    assert (first == np.concatenate([np.asarray(b) for b in same.blocks()])).all()
    assert (first == np.concatenate([np.asarray(b) for b in same.blocks()])).all()
    for block, sizes in ((280, [7, 7, 7, 7, 2]), (40, [1] * 30), (39, [1] * 30), (10_000, [30])):
        monkeypatch.setattr("qualm.runners.scoring.bootstrap.BLOCK", block)
        assert [len(b.counts) for b in same.blocks()] == sizes, "as many at a time as a block has room for, one at least"
        assert (first == np.concatenate([np.asarray(b) for b in same.blocks()])).all()
    for other in (Bootstrap(group, 30, 2, "a", "b"), Bootstrap(group, 30, 1, "ab", "")):
        assert (first != np.concatenate([np.asarray(b) for b in other.blocks()])).any()


def test_a_part_sees_the_draws_of_the_whole():
    """Of rows 0, 2 and 5: each counts as often as its group is drawn for all rows."""
    whole = Bootstrap(GROUP, 40, 7, "d", "all")
    rows = np.array([0, 2, 5])
    part = PartOf(whole, whole.groups_of(rows))
    (every,), (some,) = ([np.asarray(block) for block in of.blocks()] for of in (whole, part))
    np.testing.assert_array_equal(some, every[:, rows])
    assert (part.groups, part.times, part.whole) == (3, 40, whole)
    assert part.groups_of(np.array([1, 2])).tolist() == [1, 2]
    assert part.groups_of(np.arange(3)).tolist() == whole.groups_of(rows).tolist()


def test_rows_side_by_side_are_summed_each_resample_over_its_own():
    rng = np.random.default_rng(0)
    weights = Weights(rng.integers(0, 4, (7, 3)).astype(float), GROUP)
    columns = rng.random((7, 6, 2))
    by_hand = [[sum(count[g] * columns[b, i, m] for i, g in enumerate(GROUP)) for m in range(2)] for b, count in enumerate(weights.counts)]
    both = SideBySide(weights)
    assert both.shape == (7, 42)
    np.testing.assert_allclose(both @ columns.reshape(42, 2), by_hand)
    np.testing.assert_allclose(both @ columns[:, :, 1].ravel(), np.array(by_hand)[:, 1])
    with pytest.raises(TypeError, match="row_by_row"):
        np.asarray(both)


@pytest.mark.parametrize("sizes", [[12], [5, 5, 2], [1] * 12])
def test_columns_of_resamples_meet_the_weights_of_the_same_resamples(monkeypatch, sizes):
    monkeypatch.setattr("qualm.runners.scoring.bootstrap.BLOCK", 4 * len(GROUP))
    resamples = Bootstrap(GROUP, 12, 1)
    counts = np.concatenate([block.counts for block in resamples.blocks()])
    ends = np.cumsum([0, *sizes])
    columns = ({"number": np.arange(a, b)[:, None]} for a, b in itertools.pairwise(ends))
    found = list(pair_with_weights(columns, resamples))
    assert np.concatenate([of["number"] for of, _ in found]).ravel().tolist() == list(range(12))
    assert np.array_equal(np.concatenate([weights.counts for _, weights in found]), counts)
    assert list(pair_with_weights(iter([]), Bootstrap(GROUP, 0, 1))) == []


def test_draws_are_those_that_were_published():
    """They follow from the names as UTF-8, so that a number of today has the resamples of yesterday, in any language."""
    (block,) = Bootstrap(np.arange(6), 3, 7, "d", "category=Tür").blocks()
    assert block.counts.tolist() == [[1, 1, 0, 1, 2, 1], [0, 2, 1, 2, 1, 0], [2, 2, 0, 0, 1, 1]]


def test_a_jackknife_of_few_groups_deletes_each_once():
    (block,) = Bootstrap(np.array([7, 7, 3, 9]), 10, 1, "x").deletions()
    assert (block.counts == 1 - np.eye(3)).all() and block.group.tolist() == [1, 1, 0, 2]


def test_a_jackknife_of_many_groups_deletes_random_parts_of_equal_size_each_once():
    bootstrap = Bootstrap(np.repeat(np.arange(450), 2), 10, 1, "x")
    resamples = [block.counts for block in bootstrap.blocks()]
    deleted = 1 - np.concatenate([block.counts for block in bootstrap.deletions()])
    assert deleted.shape == (200, 450) and (deleted.sum(axis=0) == 1).all() and set(deleted.sum(axis=1)) == {2.0, 3.0}
    again = Bootstrap(np.repeat(np.arange(450), 2), 10, 1, "x")
    assert (deleted == 1 - np.concatenate([block.counts for block in again.deletions()])).all(), "the same parts for the same names"
    assert all((a == b.counts).all() for a, b in zip(resamples, again.blocks(), strict=True)), "whatever was asked for before"
    (seen,) = PartOf(bootstrap, np.array([4, 8])).deletions()
    assert np.asarray(seen).shape == (200, 2) and (np.asarray(seen) == 1 - deleted[:, [4, 8]]).all()


@pytest.mark.parametrize("kind", ["grouped", "one task", "stacked", "side by side", "recorder"])
def test_sums_within_bins_are_sums_of_columns_that_are_0_outside(kind):
    rng = np.random.default_rng(0)
    counts, group = rng.integers(0, 4, (5, 3)).astype(float), np.array([0, 0, 1, 2, 2, 2])
    many = 5 if kind == "side by side" else 2 if kind == "stacked" else 1
    weights = {
        "grouped": lambda: Weights(counts, group),
        "one task": lambda: StackedTasks(counts, [group]),
        "stacked": lambda: StackedTasks(counts, [group, group[::-1]]),
        "side by side": lambda: SideBySide(Weights(counts, group)),
        "recorder": lambda: Recorder(6),
    }[kind]()
    column, place = rng.random(6 * many), rng.integers(-1, 4, 6 * many)
    by_hand = np.column_stack([weights @ (column * (place == k)) for k in range(4)])
    np.testing.assert_allclose(sum_bins(weights, column, place, 4), by_hand)
    dense = rng.random((2, 6 * many))
    np.testing.assert_allclose(sum_bins(dense, column, place, 4), np.column_stack([dense @ (column * (place == k)) for k in range(4)]))


def test_tasks_on_a_stack_have_the_sums_that_each_has_alone():
    rng = np.random.default_rng(1)
    counts, groups = rng.integers(0, 4, (5, 3)).astype(float), [np.array([0, 1, 2]), np.array([2, 0]), np.array([1, 1, 1, 0])]
    columns, stack = rng.random((9, 2)), StackedTasks(counts, groups)
    alone = [Weights(counts, group) @ part for group, part in zip(groups, np.split(columns, [3, 5]), strict=True)]
    assert stack.shape == (15, 9)
    np.testing.assert_allclose((stack @ columns).reshape(5, 3, 2), np.stack(alone, axis=1))
    with pytest.raises(TypeError, match="row_by_row"):
        np.asarray(stack)
    assert np.asarray(StackedTasks(counts, groups[:1])).tolist() == counts.tolist()


def test_counts_are_joined_as_far_as_there_is_room(monkeypatch):
    counts = np.arange(21.0).reshape(7, 3)
    monkeypatch.setattr("qualm.runners.scoring.bootstrap.JOINED", 9)
    found = list(join_counts(Weights(part, GROUP) for part in np.split(counts, [1, 2, 3])))
    assert [len(part) for part in found] == [3, 4] and np.array_equal(np.concatenate(found), counts)
    assert list(join_counts(iter([]))) == []
