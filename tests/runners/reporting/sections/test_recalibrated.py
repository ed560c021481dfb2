"""Raw beside recalibrated: a row each, and which is told apart."""

import pytest

from qualm.runners.reporting.sections.recalibrated import recalibrated, verdict_against_raw
from tests.runners.reporting.made_results import made_results, score


def compared(b, difference, low, high, p, **more):
    row = {"model": "m", "dataset": "d", "variant": "clean", "slice": "all", "metric": "ece", "setting": "held", "a": "raw", "b": b}
    return row | {"difference": difference, "low": low, "high": high, "p_adjusted": p, "higher_is_better": False} | more


SCORES = [
    score("accuracy", 0.9),
    score("ece", 0.3),
    score("ece[held/platt/perplexity]", 0.25),
    score("ece[held/platt]", None, why="12 answers that calibrate: a fit needs 20"),
    score("ece[held/temperature]", 0.125, low=0.1, high=0.15),
    score("ece[held/raw]", 0.25, low=0.2, high=0.3, n=1234),
]
TESTS = [
    compared("temperature", -0.125, -0.2, -0.05, 0.0123),
    compared("temperature", 9.0, 8.0, 10.0, 0.5, slice="category=a"),
    compared("temperature", 9.0, 8.0, 10.0, 0.5, variant="blur"),
    compared("platt/perplexity", 0.0, None, None, 1.0),
]


def test_a_row_for_raw_then_one_for_each_calibrator():
    (sheet,) = recalibrated(made_results(SCORES, calibrator_comparisons=TESTS, calibrators=["held"]))
    assert sheet.caption == "Raw and recalibrated: d · held" and "conservative" in sheet.note
    by = {row[2]: row for row in sheet.rows}
    assert next(iter(by)) == "raw" and len(by) == len(sheet.rows) == 4 and all(len(row) == len(sheet.header) for row in sheet.rows)
    assert by["raw"] == ["m", "ECE ↓", "raw", "0.25 (0.20 – 0.30)", "", "", "", "1,234"]
    assert by["temperature"][3:] == ["0.12 (0.10 – 0.15)", "−0.12 (−0.20 to −0.05)", "0.0123", "better", "10"]
    assert by["platt"][3:] == ["undefined: 12 answers that calibrate: a fit needs 20", "–", "–", "not tested", "10"]
    assert by["platt of perplexity"][3:7] == ["0.250", "0.000", "1.0000", "statistically tied"]


def test_a_spec_without_calibrators_has_no_sheet():
    assert recalibrated(made_results([score("ece", 0.1)])) == []


@pytest.mark.parametrize(
    ("low", "high", "p", "told"),
    [(-0.2, -0.1, 0.01, "better"), (-0.2, -0.1, 0.05, ""), (-0.2, 0.1, 0.01, ""), (None, None, 0.01, ""), (0.1, 0.2, 0.01, "worse")],
)
def test_distinguished_where_p_and_interval_agree(low, high, p, told):
    sign = 1 if low is not None and low > 0 else -1
    assert verdict_against_raw(compared("platt", 0.15 * sign, low, high, p)) == told
