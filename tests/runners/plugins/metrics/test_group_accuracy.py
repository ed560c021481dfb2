import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.plugins.metrics.group_accuracy import group_accuracy
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.measuring.evaluate import evaluate
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.measuring.slices import make_slices
from qualm.runners.scoring.paired_tests import compare

FIGURES = ["f1", "f1", "f2", "f2", "f3", None, "f4", "f4"]


def cell(model, correct, figures=FIGURES, **others):
    rows = [
        {"sample_id": f"s{i}", "question": "?", "group": f"set{i // 4}", "meta": [] if figure is None else [("figure", figure)]}
        for i, figure in enumerate(figures)
    ]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    return Cell(model, samples, "clean", {"correct": np.array(correct, dtype=float), **others}, {}, {})


def metric(**args):
    return read_metrics([{"label": "group_accuracy", "plugin": "group_accuracy", "args": {"by": "figure", "of": "correct", **args}}])


def measured(found, **args):
    ((_, one),) = evaluate(metric(**args), found, make_slices(found.samples, [], 50, 7)[0])
    return one


def test_groups_that_are_right_throughout():
    right, groups = np.array([1, 1, 1, 0.5, 0]), np.array([4.0, 4, 9, 9, 1])
    weights = np.array([[1.0, 1, 1, 1, 1], [2, 2, 0, 0, 1], [0, 0, 0, 0, 0]])
    np.testing.assert_allclose(group_accuracy(right, groups, weights), [1 / 3, 2 / 3, np.nan])


def test_a_sample_without_the_field_is_no_part_of_it():
    found = measured(cell("m", [1, 1, 0, 1, 1, 0, 1, 1]))
    assert (found.value, found.n, found.n_unscored) == (0.75, 7, 0)
    assert found.resampled.min() >= 2 / 3 - 0.2 and len(found.resampled) == 50


def test_a_group_of_which_one_is_unscored_is_unscored():
    found = measured(cell("m", [1, np.nan, 0, 1, 1, np.nan, 1, 1]))
    assert (found.value, found.n, found.n_unscored) == (pytest.approx(2 / 3), 5, 2)


def test_groups_of_two_models_stay_apart():
    """Side by side the models' groups must not fall with each other: a is right everywhere, b nowhere."""
    a, b = cell("a", [1] * 8), cell("b", [0] * 8)
    (found,) = compare(metric(), a, b, make_slices(a.samples, [], 50, 7)[0], 0.95)
    assert (found.value_a, found.value_b, found.n) == (1, 0, 7)


def test_another_judges_ratings_and_data_without_the_field():
    rated = np.array([1.0, 1, 1, 1, 0, 0, 0, 1])
    assert measured(cell("m", [0] * 8, rated_by_ours=rated), of="rated_by_ours").value == 0.5
    plain = cell("m", [1] * 8, [None] * 8)
    assert evaluate(metric(), plain, make_slices(plain.samples, [], 5, 7)[0]) == []
    assert evaluate(metric(by="group"), plain, make_slices(plain.samples, [], 5, 7)[0])[0][1].value == 1
