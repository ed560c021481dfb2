"""When a model is said to collapse: by hand, and against statsmodels' formula of Wilson's interval."""

import math

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.collapse import constant_answer, describe_collapse, most_frequent, wilson_upper_end

FEW = ("no", 0.2)


def samples(references):
    rows = [{"sample_id": str(i), "question": "?", "references": r, "choices": []} for i, r in enumerate(references)]
    return Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))


def test_the_constant_answer_is_the_reference_that_most_people_gave():
    of = samples([["Red", "red", "blue"], ["red"], ["blue"], ["green"], []])
    assert constant_answer(of) == ("red", 0.5)
    rows = [{"sample_id": str(i), "question": "?", "choices": ["x", "y"], "answer_index": int(i % 3 == 0)} for i in range(4)]
    assert constant_answer(Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES)))[1] == 0.5
    rows = [{"sample_id": str(i), "question": "?", "choices": ["x"] * 30, "answer_index": 27} for i in range(4)]
    assert constant_answer(Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))) == ("option 28", 1)
    name, share = most_frequent([])
    assert name == "" and math.isnan(share)


def test_the_upper_end_is_wilsons():
    """Of 2 right in 100: (p + z^2/2n + z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)."""
    p, n, z = 0.02, 100, 1.959964
    wilson = (p + z * z / (2 * n) + z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (1 + z * z / n)
    assert wilson_upper_end(np.r_[np.ones(2), np.zeros(98)], np.arange(100)) == pytest.approx(wilson, abs=1e-6)
    assert wilson_upper_end(np.r_[np.ones(2), np.zeros(98)], np.arange(100) // 2) > wilson, "pairs count as one each"


def test_less_than_the_constant_answer_is_a_collapse_unless_the_clean_answers_are():
    of = samples([["red"]] * 30 + [["blue"]] * 70)
    none, good = np.zeros(100), np.ones(100)
    why = describe_collapse(of, none, good, FEW, FEW)
    assert why == "its accuracy is at most 0.037, and always answering “blue” has 0.700"
    assert describe_collapse(of, none, none, FEW, FEW) == "", "it knows nothing anyway"
    assert describe_collapse(of, np.r_[np.ones(65), np.zeros(35)], good, FEW, FEW) == "", "0.65 is not clearly below 0.7"
    assert describe_collapse(of, np.full(100, np.nan), good, FEW, FEW) == "", "unscored"
    assert describe_collapse(samples([["red"]] * 10), np.zeros(10), np.ones(10), FEW, FEW) == "", "too few"


def test_one_answer_to_nearly_everything_is_a_collapse():
    of, unknown = samples([["red"]] * 100), np.full(100, np.nan)
    assert describe_collapse(of, unknown, np.ones(100), ("5 5 5", 0.93), FEW) == "93% of its answers are “5 5 5”"
    for before in (0.9, 0.95):
        assert describe_collapse(of, unknown, np.ones(100), ("red", 0.93), ("red", before)) == "", "as when clean"


@pytest.mark.parametrize("n", [19, 20])
def test_twenty_answers_tell_a_collapse(n):
    of = samples([["red"]] * n)
    below = "its accuracy is at most 0.161, and always answering “red” has 1.000" if n == 20 else ""
    assert describe_collapse(of, np.zeros(n), np.ones(n), FEW, FEW) == below
    same = "90% of its answers are “5”" if n == 20 else ""
    assert describe_collapse(of, np.full(n, np.nan), np.ones(n), ("5", 0.9), FEW) == same, "90% are enough"
    assert describe_collapse(of, np.full(n, np.nan), np.ones(n), ("5", 0.89), FEW) == ""


@pytest.mark.parametrize(("scored", "collapses"), [(20, True), (19, False)])
def test_an_accuracy_is_judged_by_twenty_answers_that_are_scored_in_both(scored, collapses):
    wrong, clean = np.zeros(30), np.ones(30)
    clean[scored:25], wrong[25:] = np.nan, np.nan
    assert bool(describe_collapse(samples([["red"]] * 30), wrong, clean, FEW, FEW)) is collapses
