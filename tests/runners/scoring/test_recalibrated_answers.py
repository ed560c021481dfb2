"""The table of recalibrated answers; the score stage writes it in `test_comparisons.py`."""

import numpy as np
import pyarrow as pa

from qualm.registry.sample import RECALIBRATED, SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.calibration.fits import Recalibration
from qualm.runners.scoring.cell_scores import recalibrated_answers
from qualm.runners.scoring.cells import Cell


def test_answers_that_were_read_and_no_others():
    samples = Samples("d", pa.Table.from_pylist([{"sample_id": name} for name in "abc"], schema=SAMPLES))
    cell = Cell("m", samples, "clean", {}, {}, {})
    columns = {"confidence": np.array([0.25, np.nan, 0.5])}
    table = recalibrated_answers(cell, Recalibration("held", "platt", "perplexity", np.array([False, True, False]), columns, [], 0))
    assert table.schema.equals(RECALIBRATED)
    rows = table.to_pylist()
    assert [(r["sample_id"], r["confidence"], r["option"], r["is_calibration"]) for r in rows] == [
        ("a", 0.25, None, False),
        ("c", 0.5, None, False),
    ]
    assert {(r["model"], r["dataset"], r["variant"], r["setting"], r["method"], r["estimator"]) for r in rows} == {
        ("m", "d", "clean", "held", "platt", "perplexity")
    }


def test_both_ends_of_an_interval_where_a_method_gives_one():
    samples = Samples("d", pa.Table.from_pylist([{"sample_id": name} for name in "abc"], schema=SAMPLES))
    cell = Cell("m", samples, "clean", {}, {}, {})
    columns = {"confidence": np.array([0.25, np.nan, 0.5])}
    ends = np.array([[0.2, np.nan, np.nan], [0.4, np.nan, np.nan]])
    of = Recalibration("held", "venn_abers", "", np.array([False, True, False]), columns, [], 0, ends=ends)
    assert [(r["p0"], r["p1"]) for r in recalibrated_answers(cell, of).to_pylist()] == [(0.2, 0.4), (None, None)]
