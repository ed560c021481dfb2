"""A reviewer's way through the questions: forward, back, away and again."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualm.runners.data.splits import SplitRule
from qualm.runners.review.journal import ReviewJournal
from qualm.runners.review.pool import Pool, read_dataset_pool
from qualm.runners.review.session import ReviewSession
from tests.support.data.tiny_questions import SUBSETS, write_questions


def test_forward_and_back(pool: Pool, tmp_path: Path) -> None:
    session = ReviewSession(pool, ReviewJournal(tmp_path, "reviews", "ann"))
    order = pool.order("ann")
    assert session.undo() is None
    for expected, decision in zip(order, ["valid", "invalid", "skip", "valid"], strict=False):
        assert session.current is not None and session.current.sample_id == expected
        assert session.partner is not None and session.partner.pair_id == session.current.pair_id
        assert session.partner.sample_id != expected
        session.decide(decision)
    assert session.counts == {"valid": 2, "invalid": 1, "skip": 1, "left": 8}
    assert session.undo() is session.current is pool.questions[order[3]]
    assert session.undo() is session.current is pool.questions[order[2]]
    assert session.counts["left"] == 10
    session.decide("invalid")
    assert session.current is pool.questions[order[3]]
    with pytest.raises(ValueError, match="got 'maybe'"):
        session.decide("maybe")


def test_another_session_goes_on_where_the_last_one_stopped(pool: Pool, tmp_path: Path) -> None:
    order = pool.order("ann")
    first = ReviewSession(pool, ReviewJournal(tmp_path, "reviews", "ann"))
    for decision in ("valid", "skip", "valid"):
        first.decide(decision)
    first.journal.close()
    second = ReviewSession(pool, ReviewJournal(tmp_path, "reviews", "ann"))
    assert second.current is pool.questions[order[3]]
    assert second.undo() is pool.questions[order[2]]  # an earlier session's decision
    second.journal.close()
    third = ReviewSession(pool, ReviewJournal(tmp_path, "reviews", "ann"), again=True)
    assert third.current is pool.questions[order[1]]  # skipped, and asked again
    third.journal.close()
    assert ReviewSession(pool, ReviewJournal(tmp_path, "reviews", "bob")).counts == {"left": 12}


def test_all_decided(pool: Pool, tmp_path: Path) -> None:
    session = ReviewSession(pool, ReviewJournal(tmp_path, "reviews", "ann"))
    for _ in range(12):
        session.decide("valid")
    assert session.current is None and session.partner is None
    session.decide("valid")
    assert session.counts == {"valid": 12}
    session.undo()
    assert session.counts["left"] == 1


def test_a_wrong_subset_is_an_answer_only_where_there_are_subsets(pool: Pool, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected one of valid, invalid, skip, got 'misplaced'"):
        ReviewSession(pool, ReviewJournal(tmp_path, "reviews", "ann")).decide("misplaced")
    photos = read_dataset_pool("photos", write_questions(tmp_path / "photos"), SplitRule(), SUBSETS)
    session = ReviewSession(photos, ReviewJournal(tmp_path, "photos", "ann"))
    assert session.partner is None
    session.decide("misplaced", "the words are odd, the picture is fine")
    assert session.counts == {"misplaced": 1, "left": 9}


def test_pictures_are_looked_at_only_where_something_was_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = read_dataset_pool("photos", write_questions(tmp_path / "photos"), SplitRule(), SUBSETS)
    seen: list[str] = []
    monkeypatch.setattr("qualm.runners.review.pool.content_of", lambda row, *_: seen.append(row["sample_id"]) or row["sample_id"])
    session = ReviewSession(photos, ReviewJournal(tmp_path, "photos", "ann"))
    assert session.counts == {"left": 10} and seen == []
    session.decide("valid")
    assert session.counts == {"valid": 1, "left": 9} and seen == photos.order("ann")[:1]
