"""State of one reviewer's session, for the terminal and the page: next question, decisions, undo."""

from collections import Counter

from qualm.runners.review.journal import UNDONE, ReviewJournal
from qualm.runners.review.pool import Pool, ReviewQuestion


class ReviewSession:
    """One reviewer's session: the questions in order, the current one, and decisions."""

    def __init__(self, pool: Pool, journal: ReviewJournal, again: bool = False) -> None:
        self.pool, self.journal = pool, journal
        self._order = [pool.questions[s] for s in pool.order(journal.reviewer)]
        self._open = {q.sample_id for q in self._order if (d := self._decision(q)) == "" or (again and d == "skip")}
        self._done = [q for q in self._order if q.sample_id not in self._open]
        self._back_at: ReviewQuestion | None = None

    @property
    def current(self) -> ReviewQuestion | None:
        """Return the question to decide: one gone back to, or the first open; else None."""
        return self._back_at or next((q for q in self._order if q.sample_id in self._open), None)

    @property
    def partner(self) -> ReviewQuestion | None:
        """Return the other member of the current question's pair; None if there is none."""
        now = self.current
        return next((q for q in self.pool.pairs[now.pair_id] if q.sample_id != now.sample_id), None) if now else None

    @property
    def counts(self) -> Counter[str]:
        """Return decision -> number of questions, with undecided ones under `left`."""
        return Counter("left" if q.sample_id in self._open else self._decision(q) for q in self._order)

    def __len__(self) -> int:
        return len(self._order)

    def decide(self, decision: str, note: str = "") -> None:
        """Record a decision on the current question, and go to the next; ValueError if unknown."""
        if decision not in self.pool.choices:
            raise ValueError(f"expected one of {', '.join(self.pool.choices)}, got '{decision}'")
        now = self.current
        if now is not None:
            self.journal.record(now.sample_id, now.content, decision, note)
            self._open.discard(now.sample_id)
            self._done.append(now)
            self._back_at = None

    def undo(self) -> ReviewQuestion | None:
        """Withdraw the previous decision, also of an earlier session; return its question or None."""
        if not self._done:
            return None
        last = self._done[-1]
        self.journal.record(last.sample_id, last.content, UNDONE)
        self._done.pop()
        self._open.add(last.sample_id)
        self._back_at = last
        return last

    def _decision(self, q: ReviewQuestion) -> str:
        if not self.journal.knows(q.sample_id):
            return ""  # without reading its image, which is slow for large sets
        entry = self.journal.get(q.sample_id, q.content)
        return entry.decision if entry else ""
