"""Votes on disk: the last word counts, a kill loses one at most, and what is not a vote is said."""

from pathlib import Path

import pytest

from qualm.runners.review.votes import Vote, VoteError, Votes


def test_votes_are_kept_and_the_last_word_counts(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "votes.csv"
    votes = Votes(path)
    for variant, batch, who, verdict in (
        ("blur@radius=2", "a b", "ann", "too weak"),
        ("blur@radius=2", "a b", "ann", "right"),
        ("blur@radius=2", "c d", "ann", "right"),
        ("blur@radius=2", "a b", "bob", "too strong"),
        ("blur@radius=9", "a b", "ann", "too strong"),
        ("typos@p=0.1", "a b", "ann", "right"),
    ):
        votes.record(Vote(variant, "scenes", batch, who, verdict))
    votes.record(Vote("blur@radius=2", "other", "a b", "ann", "right"))
    expected = {"blur@radius=2": {"right": 2, "too strong": 1}, "blur@radius=9": {"too strong": 1}}
    assert votes.tally("scenes", "blur") == Votes(path).tally("scenes", "blur") == expected


def test_a_half_written_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    Votes(path).record(Vote("dark", "scenes", "a", "ann", "right"))
    with path.open("ab") as file:
        file.write(b'dark,scenes,"b')
    assert Votes(path).tally("scenes", "dark") == {"dark": {"right": 1}}
    Votes(path).record(Vote("dark", "scenes", "b", "ann", "too weak"))
    assert path.read_text() == "dark,scenes,a,ann,right\ndark,scenes,b,ann,too weak\n"


def test_what_is_no_vote_is_said(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    for line in ("dark,scenes,a,ann,fine", "dark,scenes,a,ann", "dark,scenes,a,ann,right,right"):
        path.write_text(f"dark,scenes,a,ann,right\n{line}\n")
        with pytest.raises(VoteError, match=r"votes\.csv:2: not a line of a journal of votes"):
            Votes(path)
    path.unlink()
    with pytest.raises(ValueError, match="expected one of too weak, right, too strong, got 'fine'"):
        Votes(path).record(Vote("dark", "scenes", "a", "ann", "fine"))
