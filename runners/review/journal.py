"""Store decisions: a journal per reviewer, which is merged into the entry.

Each decision is a line in `.qualm/reviews/ENTRY/REVIEWER.csv`, on disk before the next question is shown. `publish` merges all journals
into `decisions.csv` of the entry `registry/data/ENTRY`, as `qualm data add` does, and then deletes them.
"""

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from qualm.registry.entries.adding import Added, add
from qualm.registry.entries.card import load_card
from qualm.registry.entries.entries import DATA, find
from qualm.runners.data.curation import CHOICES, FILE, Decision, read_decisions, write_decisions
from qualm.runners.runtime.journal import Journal

UNDONE = "undone"
"""Decision, in journals only, that withdraws the previous one."""

REVIEWER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
CARD = "reviews"
Key = tuple[str, str, str]


class JournalError(Exception):
    """Decisions cannot be stored or read; the message says why and what to do."""


def journals_folder(root: Path, entry: str) -> Path:
    """Return the local folder of the journals of a registry entry."""
    return root / ".qualm" / "reviews" / entry


def read_published(root: Path, entry: str) -> list[Decision]:
    """Return the decisions in an entry's folder, [] if none; JournalError if not fetched.

    Raises:
        JournalError: it is recorded, but its files are not here.
        CurationError: its table is broken.
    """
    if not (root / DATA / f"{entry}.dvc").exists():
        return read_decisions(root / DATA / entry)
    record = find(root, entry)
    if record.where != "here":
        raise JournalError(f"registry/data/{entry} is on record, but not on this disk; get it first: `{record.get}`")
    return read_decisions(record.path)


class ReviewJournal:
    """One reviewer's decisions, published and new; locked to one process."""

    def __init__(self, root: Path, entry: str, reviewer: str) -> None:
        if not REVIEWER.fullmatch(reviewer):
            rule = "letters, digits, '_', '-' and '.', beginning with a letter or digit, at most 40"
            raise JournalError(f"'{reviewer}' is not a valid reviewer's name: expected {rule}")
        self.path = journals_folder(root, entry) / f"{reviewer}.csv"
        self.reviewer = reviewer
        self._journal = Journal(self.path)
        if not self._journal.hold():
            raise JournalError(f"{reviewer} is reviewing {entry} in another window; close that one, or take another --reviewer name")
        earlier = {(d.sample_id, d.content): d for d in read_published(root, entry) if d.reviewer == reviewer}
        self._now: dict[tuple[str, str], Decision] = earlier
        self._ids = {sample_id for sample_id, _ in earlier}
        for line in _lines(self._journal):
            self._apply(line)

    def knows(self, sample_id: str) -> bool:
        """Return true if this reviewer ever decided on the question, maybe in an earlier form."""
        return sample_id in self._ids

    def get(self, sample_id: str, content: str) -> Decision | None:
        """Return this reviewer's decision on a question of this content; None if there is none."""
        return self._now.get((sample_id, content))

    def record(self, sample_id: str, content: str, decision: str, note: str = "") -> None:
        """Store a decision, or withdraw one (`undone`), on disk on return; else JournalError."""
        line = Decision(sample_id, content, self.reviewer, decision, " ".join(note.split()))
        try:
            self._journal.append_row([line.sample_id, line.content, line.reviewer, line.decision, line.note])
        except OSError as error:
            raise JournalError(f"{self.path}: {error.strerror or error}; this decision is not kept, earlier ones are") from error
        self._apply(line)

    def close(self) -> None:
        self._journal.close()

    def _apply(self, line: Decision) -> None:
        if line.decision == UNDONE:
            self._now.pop((line.sample_id, line.content), None)
        else:
            self._now[line.sample_id, line.content] = line
            self._ids.add(line.sample_id)


def publish(root: Path, entry: str, more: Iterable[Decision] = ()) -> Added | None:
    """Merge journals (deleting closed ones) and `more`; return the entry, None if unchanged.

    Journals of open sessions are merged and stay, as merging twice is harmless.

    Raises:
        AddError, JournalError, CurationError: nothing has changed.
    """
    folder = journals_folder(root, entry)
    old = read_published(root, entry)
    now: dict[Key, Decision] = {_key(d): d for d in old}
    now |= {_key(d): d for d in more}
    journals = [Journal(path) for path in sorted(folder.glob("*.csv"))]
    for journal in journals:
        for line in _lines(journal):
            if line.decision == UNDONE:
                now.pop(_key(line), None)
            else:
                now[_key(line)] = line
    added = None
    if set(now.values()) != set(old):
        staged = folder / ".table"
        shutil.rmtree(staged, ignore_errors=True)
        write_decisions(staged / FILE, now.values())
        added = add(root, entry, str(staged), load_card(CARD))
        shutil.rmtree(staged, ignore_errors=True)
    for journal in journals:
        if journal.hold():  # nobody has it open
            journal.path.unlink()
            journal.close()
    return added


def _key(d: Decision) -> Key:
    return d.sample_id, d.content, d.reviewer


def _lines(journal: Journal) -> list[Decision]:
    decisions = []
    for number, fields in journal.rows():
        if len(fields) != 5 or fields[3] not in (*CHOICES, UNDONE):
            raise JournalError(f"{journal.path}:{number}: not a line of a journal; correct or delete it")
        decisions.append(Decision(*fields))
    return decisions
