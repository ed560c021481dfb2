from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.cells import Cell, Setting
from qualm.runners.scoring.measuring.curves import POINTS, Curves, reliability, risk_coverage


def test_reliability():
    found = list(reliability(np.array([0.05, 0.06, 0.5, 1.0]), np.array([0.0, 1, 1, 1]), np.arange(4)))
    bins, expected = [row[:5] for row in found], [row[5:] for row in found]
    assert bins == [(0.0, 1 / 15, pytest.approx(0.055), 0.5, 2), (7 / 15, 8 / 15, 0.5, 1.0, 1), (1.0, 1.0, 1.0, 1.0, 1)]
    assert expected == [(0, 0.5), (0, 1), (1, 1)], "of two answers with a chance of .055 each, both are right in .003 of samples"


def test_risk_coverage_answers_equal_confidences_together():
    found = list(risk_coverage(np.array([0.9, 0.5, 0.5, 0.1]), np.array([1.0, 0, 1, 0])))
    assert found == [(0.25, 0.0), (0.75, pytest.approx(1 / 3)), (1.0, 0.5)]
    assert list(risk_coverage(np.empty(0), np.empty(0))) == []


def test_points_are_of_clean_answers_each_setting_by_the_rows_that_it_tests():
    """Of six answers one has no confidence and one no verdict; the setting calibrates on the first two, a set of one row is unknown."""
    rows = [{"sample_id": f"s{i}", "question": "?", "answerable": True, "group": f"g{i}"} for i in range(6)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    columns = {"confidence": np.array([0.9, 0.1, 0.9, 0.5, np.nan, 0.5]), "correct": np.array([1.0, 0, 0, 1, 1, np.nan])}
    sizes = {"lac": {"set_size": np.array([1.0, 1, 2, 2, np.nan, 4])}}
    cell = Cell("m", samples, "clean", columns, {"half": Setting(np.array([1.0, 1, 0, 0, 0, 0]), sizes)}, {})
    found = Curves()
    found.add(replace(cell, variant="blur"))
    assert found.rows == {"reliability": [], "risk_coverage": [], "set_sizes": []}
    found.add(cell)
    assert found.rows["risk_coverage"] == [["m", "d", 0.5, 0.5], ["m", "d", 0.75, pytest.approx(1 / 3)], ["m", "d", 1.0, 0.5]]
    assert found.rows["set_sizes"] == [["m", "d", "half", "lac", 2, 2], ["m", "d", "half", "lac", 4, 1]]
    assert [row[:8] for row in found.rows["reliability"]] == [
        ["m", "d", "half", 7 / 15, 8 / 15, 0.5, 1.0, 1], ["m", "d", "half", 13 / 15, 14 / 15, 0.9, 0.0, 1],
    ]  # fmt: skip
    without = Curves()
    without.add(replace(cell, settings={}))
    assert [(row[2], row[7]) for row in without.rows["reliability"]] == [("", 1), ("", 1), ("", 2)] and not without.rows["set_sizes"]


def test_risk_coverage_is_thinned_and_ends_at_full_coverage():
    rng = np.random.default_rng(0)
    correct = rng.integers(0, 2, 5000) * 1.0
    found = list(risk_coverage(rng.random(5000), correct))
    assert len(found) == POINTS
    assert found[-1] == (1.0, pytest.approx(1 - correct.mean()))
