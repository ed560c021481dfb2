"""What is counted is kept and adds up, and the page shows every entry."""

import re

import numpy as np
import pytest

from tests.simulation.__main__ import PAGE
from tests.simulation.comparisons import FAMILY
from tests.simulation.drawing import QUESTIONS
from tests.simulation.page import entry, insert_tables, verdict
from tests.simulation.tallies import COVERAGE, PROMISE, SIZE, Question, Tallied, Tallies, Tally, simulate

MIN_SAMPLES = 20
COIN = Question("coin", ("world",), (("fair",), ("none",)), lambda row: [("", "heads")],
                lambda row, rng: {("", "heads"): float(rng.random() < 0.5) if row == ("fair",) else None}, {"heads": COVERAGE})  # fmt: skip


def test_a_later_call_goes_on_and_draws_what_one_call_would_have(tmp_path):
    once, twice = Tallies(), Tallies()
    for tallies, parts in ((once, [(0, 20)]), (twice, [(0, 10), (10, 10)])):
        for first, count in parts:
            for outcomes in simulate(COIN, ("fair",), first, count):
                tallies.setdefault(("coin", ("fair",)), Tallied()).add(outcomes)
            tallies.write(tmp_path / "kept")
            assert Tallies.read(tmp_path / "kept") == tallies
    assert once == twice and once["coin", ("fair",)].samples == 20
    left = list(Tallies.read(tmp_path / "kept").batches({"coin": COIN}, 40, 20))
    assert left == [("coin", ("none",), 0), ("coin", ("fair",), 20), ("coin", ("none",), 20)]


def tally(*values):
    of = Tally()
    for value in values:
        of.add(value)
    return of


def test_an_entry_has_its_error_its_mark_and_the_share_without_one():
    assert entry(tally(*[1.0] * 95, *[0.0] * 5), 100, COVERAGE) == ".95±.02"
    assert entry(tally(*[1.0] * 80, *[0.0] * 20, *[None] * 100), 200, COVERAGE) == "**.80±.04**(.50)"
    assert entry(tally(*[1.0] * 10, *[0.0] * 10, *[None] * 180), 200, COVERAGE) == ".50±.11s(.90)", "few samples have an interval"
    assert entry(tally(*[1.0] * 400), 400, COVERAGE) == "1.00±.00c"
    assert entry(tally(None, None), 2, COVERAGE) == "none" and entry(None, 2, COVERAGE) == ""
    assert entry(tally(*[1.0] * 20, *[0.0] * 80), 100, SIZE) == "**.200±.040**"
    assert verdict(tally(*np.full(100, 0.12)), PROMISE) == "fails" and verdict(tally(*np.full(100, 0.05)), PROMISE) == "conservative"
    assert tally(0.1, 0.3).error == pytest.approx(0.1 / np.sqrt(2))


def test_tables_go_between_their_marks_and_the_rest_stays():
    text = "a\n<!-- table: coin -->\nold\n<!-- end: coin -->\nb\n"
    new = insert_tables(text, {"coin": COIN}, Tallies({("coin", ("fair",)): Tallied(1, {("", "heads"): tally(1.0)})}))
    assert (
        new.startswith("a\n<!-- table: coin -->\n0 to 1 samples a row.")
        and "|fair|1.00±" in new
        and new.endswith("<!-- end: coin -->\nb\n")
    )


def test_the_page_has_every_entry_of_every_table():
    tallies = Tallies.read()
    for name, question in QUESTIONS.items():
        for row in question.rows:
            kept = tallies[name, row]
            drawn, all_entries = set(kept.entries), set(question.entries(row))
            assert kept.samples >= MIN_SAMPLES and drawn <= all_entries, (name, row)
            assert all("p≤" in column or column == FAMILY for _, column in all_entries - drawn), "other differences are not 0"
    text = PAGE.read_text(encoding="utf-8")
    assert insert_tables(text, QUESTIONS, tallies) == text, "make simulate writes it"


@pytest.mark.parametrize("name", QUESTIONS)
def test_one_sample_of_each_table_is_drawn_again_alike(name):
    question = QUESTIONS[name]
    row = question.rows[0]
    first, again = (simulate(question, row, 7, 1) for _ in range(2))
    assert first == again and set(first[0]) <= set(question.entries(row))
    assert all(value is None or 0 <= value <= 1 for value in first[0].values())


def test_rows_and_marks_are_unique():
    for question in QUESTIONS.values():
        assert len(set(question.rows)) == len(question.rows) > 0
    assert len(re.findall(r"<!-- table: ", PAGE.read_text(encoding="utf-8"))) == len(QUESTIONS)
