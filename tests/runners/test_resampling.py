import numpy as np
import pytest

from runners.resampling import Bootstrap, Weights, ones

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


def test_ones_is_the_sample_itself():
    assert np.asarray(ones(3)).tolist() == [[1.0, 1.0, 1.0]]


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
    monkeypatch.setattr("runners.resampling.BLOCK", 100)
    assert (first == np.concatenate([np.asarray(b) for b in same.blocks()])).all()
    assert (first == np.concatenate([np.asarray(b) for b in same.blocks()])).all()
    for other in (Bootstrap(group, 30, 2, "a", "b"), Bootstrap(group, 30, 1, "ab", "")):
        assert (first != np.concatenate([np.asarray(b) for b in other.blocks()])).any()
