"""What is claimed of a row: VLM-UQBench's subsets by its own thresholds, or the spec's mark, or nothing."""

from __future__ import annotations

import pytest

from qualm.runners.data.claims import ClaimError, claims_function
from tests.support.data.tiny_questions import CLEAN, CROSS, IMAGE, SUBSETS, TEXT, row


def test_the_card_s_subsets_by_the_paper_s_thresholds() -> None:
    of = claims_function(SUBSETS)
    cases = {CLEAN: ("clean",), IMAGE: ("image",), TEXT: ("text",), CROSS: ("cross",), (2, 0, 0, 0, 0, 0, 0): (), (5, 0, 5, 0, 0, 0, 0): ()}
    assert {counts: of(row("a", counts)) for counts in cases} == cases
    assert of({**row("a", CLEAN), "meta": [("LQI", "0")]}) == ()  # undefined is not in it
    assert of(row("a", IMAGE, uncertain="1")) == ("image",)  # where there are subsets, these are the claim


def test_without_subsets_the_mark_is_the_claim() -> None:
    of = claims_function({})
    assert [of(row("a", CLEAN, uncertain=mark)) for mark in "10"] == [("uncertain",), ("certain",)]
    assert of(row("a", CLEAN)) == () == of({**row("a", CLEAN), "meta": None})


def test_a_text_that_is_no_number_is_named() -> None:
    with pytest.raises(ClaimError, match=r"sample 'a': expected a number in meta\.LQI, got 'many'"):
        claims_function({"blurred": "LQI >= 4"})(row("a", CLEAN, LQI="many"))
