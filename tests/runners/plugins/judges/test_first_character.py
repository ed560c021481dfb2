import json
from pathlib import Path

import pytest

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges.first_character import first_character

FIXTURE = Path(__file__).resolve().parents[5] / "shared/fixtures/seedbench/GPT-4V_SEED-Bench-1.head50.txt"
OPTIONS = ["One", "Two", "Three", "Four"]


def judge(prediction, letter="B"):
    (one,) = first_character(["?"], [["Two", letter]], [prediction], [OPTIONS])
    return one


@pytest.mark.parametrize(
    ("reply", "rating"),
    [("B", 1.0), ("b. Two", 1.0), (" \nB", 1.0), ("C", 0.0), ("Actually, B", 0.0), ("E", None), ("(B)", None), ("", None), ("Two", None)],
)
def test_the_first_character(reply, rating):
    assert judge(reply) == Judgement(rating, False, parse_ok=rating is not None)


def test_refusals_are_told_even_where_their_first_character_is_a_letter():
    assert judge("I am not sure") == Judgement(0.0, True)
    assert judge("Don't know", letter="D") == Judgement(1.0, True), "the official rule, and what it hides"


@pytest.mark.skipif(not FIXTURE.is_file(), reason=f"SEED-Bench's released predictions are not at {FIXTURE}")
def test_released_predictions():
    rows = [json.loads(line.rstrip().rstrip(",")) for line in FIXTURE.read_text().splitlines()]
    n = len(rows)
    found = first_character(["?"] * n, [["", r["gt_answer"]] for r in rows], [r["prediction"] for r in rows], [OPTIONS] * n)
    assert n == 50 and sum(j.rating for j in found) == sum(r["prediction"] == r["gt_answer"] for r in rows) == 34
