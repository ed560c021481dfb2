"""Power against a closed form (the paired t test, McNemar's variance), and against simulated tests."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.measuring.measured import Slice
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.paired_tests import compare
from qualm.runners.scoring.power import questions_needed, smallest_difference, standard_error
from tests.support.projects.stages import ref


@pytest.mark.parametrize("groups, power", [(20, 0.8), (100, 0.8), (400, 0.9)])
def test_the_smallest_difference_is_that_of_a_paired_t_test(groups, power):
    effect = TTestPower().solve_power(nobs=groups, alpha=0.05, power=power)
    assert smallest_difference(1 / np.sqrt(groups), groups, 0.05, power) == pytest.approx(effect, rel=0.03)


def test_the_questions_needed_show_the_difference():
    needed = questions_needed(0.02, 500, 250, standard_error(500, 2, 0.2, 0.3), 0.05, 0.8)
    error = standard_error(needed, 2, 0.2, 0.3)
    assert smallest_difference(error, needed // 2, 0.05, 0.8) == pytest.approx(0.02, rel=0.01)
    assert needed == pytest.approx((stats.norm.isf(0.025) + stats.norm.isf(0.2)) ** 2 * 0.2 * 1.3 / 0.02**2, rel=0.01)


def test_few_groups():
    assert smallest_difference(0.1, 1, 0.05, 0.8) == np.inf
    assert smallest_difference(0.1, 2, 0.05, 0.8) == pytest.approx(0.1 * (stats.t.ppf(0.975, 1) + stats.t.ppf(0.8, 1)))
    assert questions_needed(100.0, 120, 40, 0.1, 0.05, 0.8) == 6, "two groups of three at least"


@pytest.mark.slow
def test_the_stated_power_is_that_of_the_paired_test():
    """Two models that disagree on a fifth of 200 questions, b ahead by what is said to be found in .8 of runs."""
    rows = [{"sample_id": f"s{i}", "question": "?", "answerable": True} for i in range(200)]
    of, rng, found = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES)), np.random.default_rng(1), []
    gain = smallest_difference(standard_error(200, 1, 0.2, 0), 200, 0.05, 0.8)
    for _ in range(300):
        which = rng.random(200)
        a = (rng.random(200) < 0.5) * 1.0
        b = np.where(which < (0.2 + gain) / 2, 1.0, np.where(which < 0.2, 0.0, a))
        a = np.where(which < 0.2, 1 - b, a)
        cells = [Cell("m", of, "clean", {"correct": side}, {}, {}) for side in (a, b)]
        part = Slice("all", np.arange(200), Bootstrap(of.groups, 50, 7, "d", "all"))
        found.append(compare(read_metrics([ref("accuracy")]), *cells, part, 0.95)[0].p < 0.05)
    assert np.mean(found) == pytest.approx(0.8, abs=3 * np.sqrt(0.8 * 0.2 / 300))
