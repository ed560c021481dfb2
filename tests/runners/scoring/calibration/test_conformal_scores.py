import numpy as np
import pyarrow as pa

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.calibration.conformal_draws import redraw
from qualm.runners.scoring.calibration.conformal_scores import option_scores, uniform_numbers
from tests.support.checks.plugin_files import made_up

SETTING = {"alpha": 0.2, "quantile": "standard", "empty_set": "empty", "calibration": {"seed": 3, "split": "groups"}}


def samples(names):
    return Samples("d", pa.Table.from_pylist([{"sample_id": name, "question": "?", "answerable": True} for name in names], schema=SAMPLES))


def test_a_samples_number_is_its_own_wherever_it_stands():
    names = [f"s{i}" for i in range(3000)]
    whole = uniform_numbers(samples(names), 3)
    np.testing.assert_array_equal(uniform_numbers(samples(names[::-1]), 3), whole[::-1])
    assert (uniform_numbers(samples(names), 4) != whole).all()
    assert 0 <= whole.min() < 0.01 and 0.99 < whole.max() < 1 and abs(whole.mean() - 0.5) < 0.02


def test_who_reads_no_number_is_handed_none():
    probs = np.array([[0.6, 0.4], [0.1, 0.9]])
    ref = {"label": "lac", "plugin": "lac", "args": {}}
    np.testing.assert_allclose(option_scores(SETTING, ref, probs, samples("ab"), "here"), 1 - probs)


OWN = '''
"""A score of one's own."""
import numpy as np


def rival(probs, uniform, *, weight: float = 1.0):
    """What the others have together, jittered."""
    return np.where(np.isnan(probs), np.nan, weight * (np.nansum(probs, axis=1, keepdims=True) - probs) + 1e-3 * uniform[:, None])
'''


def test_a_single_file_of_somebody_else_calibrates_and_is_drawn_anew(tmp_path):
    """Thresholds and sets of the redraw are those of a loop over this file's own scores."""
    rng = np.random.default_rng(0)
    n = 60
    probs, truth = rng.dirichlet(np.ones(3), n), rng.integers(0, 3, n)
    calibrates = (np.arange(n) < 30) * 1.0
    names = samples([f"s{i}" for i in range(n)])
    with made_up(tmp_path) as add:
        add("conformal", "rival", OWN)
        ref = {"label": "rival@weight=2.0", "plugin": "rival", "args": {"weight": 2.0}}
        scores = option_scores(SETTING, ref, probs, names, "here")
        again = redraw(SETTING, ref, probs, probs, truth, calibrates, names)
    by_hand = 2 * (1 - probs) + 1e-3 * uniform_numbers(names, 3)[:, None]
    np.testing.assert_allclose(scores, by_hand)
    own = np.sort(by_hand[np.arange(n), truth][:30])
    assert again.kept == (own[25 - 1],), "k = ceil(31 * .8) = 25"
    found = again.sets(np.arange(30, n), again.kept[0])
    inside = by_hand[30:] <= own[24] + 1e-12
    np.testing.assert_array_equal(found["set_size"], inside.sum(axis=1))
    np.testing.assert_array_equal(found["covered"], inside[np.arange(30), truth[30:]])
