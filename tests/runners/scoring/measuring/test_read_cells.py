import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.runtime.stage import StageError
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.measuring.read_cells import _answers_as_text, _input_changed, _settings


def test_which_inputs_are_changed_is_read_from_what_the_model_saw():
    rows = [{"sample_id": i, "question": "?"} for i in "abcd"]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    clean = pa.table({"sample_id": ["a", "b", "c"], "input_digest": ["1", "2", "3"]})
    answers = pa.table({"sample_id": ["d", "c", "a", "b"], "input_digest": ["9", "4", "1", None]})
    changed = _input_changed(samples, clean, answers, "here")["input_changed"]
    np.testing.assert_array_equal(changed, [0, np.nan, 1, np.nan])
    unknown = answers.set_column(1, "input_digest", pa.array([None] * 4, pa.string()))
    assert _input_changed(samples, clean, unknown, "here") == {}
    cell = Cell("m", samples, "typos", {"input_changed": changed}, {}, {})
    assert cell.changed is not None and cell.changed.tolist() == [False, False, True, False]
    assert Cell("m", samples, "blur", {"input_changed": np.ones(4)}, {}, {}).changed is None


def test_an_option_that_was_picked_is_told_by_its_label():
    samples = Samples("d", pa.Table.from_pylist([{"sample_id": i, "question": "?"} for i in "abc"], schema=SAMPLES))
    answers = pa.table({"sample_id": ["c", "a", "b"], "text": ["red", None, None]})
    cell = Cell("m", samples, "clean", {"predicted": np.array([1, 27, np.nan])}, {}, {})
    assert list(_answers_as_text(cell, answers, "here")) == ["red", "option B", "option 28"]


def test_sets_are_read_by_setting_and_score_and_who_has_none_calibrates_nothing():
    samples = Samples("d", pa.Table.from_pylist([{"sample_id": i, "question": "?"} for i in "abc"], schema=SAMPLES))
    rows = [
        {"setting": setting, "score": score, "sample_id": name, "is_calibration": name == first, "covered": name == "c", "set_size": size}
        for setting, score, first, size in (("x", "lac", "c", 1), ("x", "aps", "c", 2), ("y", "lac", "a", 3))
        for name in "ca"
    ]
    found = _settings(samples, pa.Table.from_pylist(rows), "here")
    assert list(found) == ["x", "y"] and list(found["x"].scores) == ["lac", "aps"] and _settings(samples, None, "here") == {}
    assert found["x"].is_calibration.tolist() == [0, 0, 1] and found["y"].is_calibration.tolist() == [1, 0, 0]
    np.testing.assert_array_equal(found["x"].scores["aps"]["set_size"], [2, np.nan, 2])
    np.testing.assert_array_equal(found["y"].scores["lac"]["covered"], [0, np.nan, 1])
    other = [row | {"is_calibration": not row["is_calibration"]} if row["score"] == "aps" else row for row in rows]
    with pytest.raises(StageError, match="here: scores of setting 'x' calibrate on different rows"):
        _settings(samples, pa.Table.from_pylist(other), "here")
