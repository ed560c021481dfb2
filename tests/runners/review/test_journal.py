"""Decisions are on disk at once, survive a kill, and enter the registry whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from qualm.registry.entries.adding import AddError
from qualm.registry.entries.entries import find
from qualm.runners.data.curation import Decision, read_decisions
from qualm.runners.review.journal import JournalError, ReviewJournal, journals_folder, publish, read_published

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def checkout(tmp_path: Path, forked_python: None) -> Path:
    """A project with DVC and without git, as `dvc init --no-scm` leaves it."""
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc" / "config").write_text("[core]\n    no_scm = true\n    analytics = false\n")
    return tmp_path


def test_a_decision_is_kept_withdrawn_and_found_again(tmp_path: Path) -> None:
    journal = ReviewJournal(tmp_path, "reviews", "ann")
    journal.record("a", "c", "valid", " two\nlines\t and  spaces ")
    journal.record("b", "c", "invalid", 'a "quote", a comma')
    journal.record("b", "c", "undone")
    assert journal.get("a", "other content") is None
    journal.close()
    again = ReviewJournal(tmp_path, "reviews", "ann")
    assert again.get("a", "c") == Decision("a", "c", "ann", "valid", "two lines and spaces")
    assert again.get("b", "c") is None


def test_a_line_that_a_kill_left_half_written_is_cut_off(tmp_path: Path) -> None:
    journal = ReviewJournal(tmp_path, "reviews", "ann")
    journal.record("a", "c", "valid")
    journal.close()
    with journal.path.open("ab") as file:
        file.write(b"b,c,ann,inva")
    again = ReviewJournal(tmp_path, "reviews", "ann")
    assert again.get("a", "c") and not again.get("b", "c")
    again.record("b", "c", "skip")
    again.close()
    assert journal.path.read_text() == "a,c,ann,valid,\nb,c,ann,skip,\n"


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from qualm.runners.review.journal import ReviewJournal\n"
        "j = ReviewJournal(Path(sys.argv[1]), 'reviews', 'ann')\n"
        "for i in range(10**6):\n    j.record(f's{i}', 'c', 'valid'); print(i, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(200):
        last = int(process.stdout.readline())
    process.kill()
    last = max([last, *(int(line) for line in process.stdout.read().split("\n")[:-1])])
    process.wait()
    journal = ReviewJournal(tmp_path, "reviews", "ann")
    assert all(journal.get(f"s{i}", "c") for i in range(last + 1))


def test_one_window_per_reviewer(tmp_path: Path) -> None:
    first = ReviewJournal(tmp_path, "reviews", "ann")
    with pytest.raises(JournalError, match="ann is reviewing reviews in another window"):
        ReviewJournal(tmp_path, "reviews", "ann")
    ReviewJournal(tmp_path, "reviews", "bob").close()
    first.close()
    ReviewJournal(tmp_path, "reviews", "ann").close()
    with pytest.raises(JournalError, match="not a valid reviewer's name"):
        ReviewJournal(tmp_path, "reviews", "../ann")


@pytest.mark.slow
def test_two_reviewers_become_one_tracked_table(checkout: Path) -> None:
    assert publish(checkout, "our-reviews") is None
    for reviewer, decision in (("bob", "invalid"), ("ann", "valid")):
        journal = ReviewJournal(checkout, "our-reviews", reviewer)
        journal.record("s2", "c", decision)
        journal.record("s1", "c", "valid")
        journal.close()
    added = publish(checkout, "our-reviews")
    assert added is not None and added.outcome == "added"
    entry = find(checkout, "our-reviews")
    assert (entry.card, entry.where) == ("reviews", "here")
    assert (entry.path / "decisions.csv").read_text() == (
        "sample_id,content,reviewer,decision,note\ns1,c,ann,valid,\ns1,c,bob,valid,\ns2,c,ann,valid,\ns2,c,bob,invalid,\n"
    )
    assert list(journals_folder(checkout, "our-reviews").glob("*.csv")) == []  # the journals are let go
    assert publish(checkout, "our-reviews") is None

    journal = ReviewJournal(checkout, "our-reviews", "ann")  # a later session changes its mind
    assert journal.get("s2", "c")
    journal.record("s2", "c", "undone")
    journal.record("s1", "c", "invalid")
    changed = publish(checkout, "our-reviews", [Decision("s9", "c", "eve", "valid")])  # while the session is open
    assert changed is not None and changed.outcome == "replaced"
    assert [(d.sample_id, d.reviewer, d.decision) for d in read_published(checkout, "our-reviews")] == [
        ("s1", "ann", "invalid"),
        ("s1", "bob", "valid"),
        ("s2", "bob", "invalid"),
        ("s9", "eve", "valid"),
    ]
    journal.record("s3", "c", "valid")
    journal.close()
    publish(checkout, "our-reviews")
    assert len(read_decisions(find(checkout, "our-reviews").path)) == 5

    journal = ReviewJournal(checkout, "our-reviews", "ann")
    journal.record("s3", "c", "valid")  # as before
    journal.close()
    assert publish(checkout, "our-reviews") is None and list(journals_folder(checkout, "our-reviews").glob("*.csv")) == []
    assert publish(checkout, "our-reviews", [Decision("s3", "c", "ann", "skip")]) is not None, "without a journal too"


def test_what_cannot_be_published_stays_in_the_journal(tmp_path: Path) -> None:
    journal = ReviewJournal(tmp_path, "reviews", "ann")
    journal.record("a", "c", "valid")
    journal.close()
    with pytest.raises(AddError, match="no DVC repository here"):
        publish(tmp_path, "reviews")
    assert ReviewJournal(tmp_path, "reviews", "ann").get("a", "c")


def test_an_entry_whose_bytes_are_elsewhere_is_fetched_first(checkout: Path) -> None:
    journal = ReviewJournal(checkout, "our-reviews", "ann")
    journal.record("a", "c", "valid")
    journal.close()
    publish(checkout, "our-reviews")
    (checkout / "registry" / "data" / "our-reviews" / "decisions.csv").unlink()
    (checkout / "registry" / "data" / "our-reviews").rmdir()
    with pytest.raises(JournalError, match="not on this disk; get it first: `dvc checkout"):
        ReviewJournal(checkout, "our-reviews", "ann")


def test_a_full_disk_says_so_and_keeps_the_rest(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    journal = ReviewJournal(tmp_path, "reviews", "ann")
    journal.record("a", "c", "valid")
    journal.close()
    journal._journal.path = Path("/dev/full")
    with pytest.raises(JournalError, match="No space left on device; this decision is not kept"):
        journal.record("b", "c", "valid")
    journal.close()
    again = ReviewJournal(tmp_path, "reviews", "ann")
    assert again.get("a", "c") and not again.get("b", "c")
