import numpy as np

from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.calibration.drawing import FirstResamples, HeldDraws

GROUPS = np.array([5, 5, 7, 9])


def test_the_first_resamples():
    whole = Bootstrap(GROUPS, 30, 1, "d")
    some = FirstResamples(whole, 4)
    counts = np.concatenate([block.counts for block in whole.blocks()])
    assert some.times == 4 and np.array_equal(np.concatenate([block.counts for block in some.blocks()]), counts[:4])
    assert FirstResamples(whole, 99).times == 30


def test_held_answers_are_drawn_in_whole_groups_the_same_each_time_and_apart_from_the_scored_ones():
    held = HeldDraws(GROUPS, 30, 1, "d")
    drawn = np.asarray(held.weights(np.array([0, 1, 2, 3]), 30, 0))
    assert (drawn[:, 0] == drawn[:, 1]).all() and (drawn[:, [0, 2, 3]].sum(axis=1) == 3).all() and len(np.unique(drawn, axis=0)) > 3
    assert np.array_equal(np.asarray(HeldDraws(GROUPS, 30, 1, "d").weights(np.array([2, 0]), 5, 10)), drawn[10:15][:, [2, 0]])
    assert (np.asarray(held.weights(np.array([0, 3]), 2, None)) == 1).all(), "without a start, the sample itself"
    scored = np.concatenate([np.asarray(block) for block in Bootstrap(GROUPS, 30, 1, "d").blocks()])
    assert not np.array_equal(scored, drawn)
