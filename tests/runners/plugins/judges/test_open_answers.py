"""Sentences, signs and symbols as the judge `rules` reads them."""

import json

import pytest

from qualm.runners.plugins.judges.rules import rules
from tests.bench.replies import open_answers
from tests.bench.replies.figures import REPLIES

CASES = REPLIES.parent / "cases"


@pytest.mark.parametrize("split, least", [("dev", 1.0), ("held_out", 0.97), ("later", 0.95), ("natural", 0.92)])
def test_own_sentences(split, least):
    rows = open_answers.own_answers(split)
    assert len(rows) >= 90
    judged = rules([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])
    wrong = [(row, judgement.rating) for row, judgement in zip(rows, judged, strict=True) if judgement.rating != row[3]]
    assert len(wrong) <= (1 - least) * len(rows), wrong
    assert all(judgement.parse_ok is (judgement.rating is not None) for judgement in judged)


@pytest.mark.parametrize(
    "reference, reply, rating",
    [
        ("December 8, 1985", "He was born on 8 December 1985.", 1), ("September 1972", "It aired on Sept. 14, 1972.", 1),
        ("1972-09-14", "the 14th of September 1972", 1), ("8 December", "on December 18", 0),
        ("14 September 1972", "In September 1973.", 0),
    ],
)  # fmt: skip
def test_dates_in_any_order(reference, reply, rating):
    assert rules(["When?"], [[reference]], [reply])[0].rating == rating


@pytest.mark.slow
@pytest.mark.skipif(not REPLIES.is_dir(), reason="no real replies beside the repository")
def test_agreement_with_people():
    figures = list(open_answers.figures())
    assert figures and not [figure for figure in figures if not figure.holds]


@pytest.mark.skipif(not CASES.is_dir(), reason="no cases beside the repository")
@pytest.mark.parametrize("case, filter, right", [("lm-eval-signs/run", "none", 0), ("lm-eval-logs/gsm", "flexible-extract", 1)])
def test_logs_of_lm_eval(case, filter, right):
    (file,) = (CASES / case).glob("*.jsonl")
    rows = [row for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()) if row["filter"] == filter]
    judged = rules([row["doc"]["question"] for row in rows], [[row["target"]] for row in rows], [row["filtered_resps"][0] for row in rows])
    assert rows and [judgement.rating for judgement in judged] == [right] * len(rows)
