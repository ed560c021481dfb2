"""Recorded logs keep their own verdict; where it is not ours on many answers that is said, with examples."""

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import GENERATIONS, SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.score_warnings import describe_dispute, dispute_warnings, few_group_warnings

N = 100


def said(verdicts, correct):
    ids = [f"s{i}" for i in range(N)]
    samples = Samples("d", pa.Table.from_pylist([{"sample_id": i, "references": ["red", "rot"]} for i in ids], schema=SAMPLES))
    rows = [{"sample_id": i, "text": f"answer {i}", "verdict": v} for i, v in zip(ids, verdicts, strict=True)]
    return describe_dispute(samples, pa.Table.from_pylist(rows, schema=GENERATIONS), np.asarray(correct, dtype=float), "here")


@pytest.mark.parametrize(("others", "warned"), [(0, False), (2, False), (3, True), (100, True)])
def test_more_than_two_in_a_hundred(others, warned):
    text = said([1.0] * N, [0.0] * others + [1.0] * (N - others))
    assert bool(text) is warned
    if warned:
        assert text.startswith(
            f"on {others} of 100 answers the log's own verdict is another one than the judge's: 's0': answer 'answer s0'"
        )
        assert "reference 'red | rot', log right, ours wrong" in text and text.count("log right") == min(others, 5)


def test_only_answers_with_both_verdicts_count():
    assert said([None] * N, [0.0] * N) == "" == said([1.0] * N, [np.nan] * N)
    assert said([1.0] * 3 + [None] * 97, [0.0, 1, 1] + [0.0] * 97).startswith("on 1 of 3 answers")
    assert said([0.5] * N, [1.0] * N) == "", "partly right is right on both sides from a half on"


def test_a_line_for_each_model():
    row = {"dataset": "d", "model": "m", "disputed": "on 3 of 4"}
    assert dispute_warnings([row, row, row | {"model": "n"}, row | {"model": "o", "disputed": None}]) == [
        "d, m: on 3 of 4",
        "d, n: on 3 of 4",
    ]


@pytest.mark.parametrize(("groups", "models", "told"), [(17, "ab", True), (20, "ab", False), (17, "a", False)])
def test_too_few_groups_for_a_ranking_are_counted(groups, models, told):
    rows = [
        {"dataset": "d", "model": m, "metric": "accuracy", "variant": "clean", "slice": "all", "value": 0.5, "n_groups": n}
        for m in models
        for n in (groups, 9)
    ]
    line = f"d: no ranking was tested: that needs 20 groups of questions, and {groups} have a score"
    assert few_group_warnings(rows) == [line] * told
