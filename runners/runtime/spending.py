"""What a spec has spent on servers, over all its runs: a journal that outlives runs, kills and stages that run at the same time.

One file per spec, `.qualm/spending/SPEC.jsonl`, beside the store of answers. A request that may cost something is held first, at the most
it can cost, and settled when the server has said what it did cost. Both are lines on disk, so that what a killed run had on its way counts
at its most: the server may have charged for it. A cap is held under the file's lock, by all stages together.
"""

from __future__ import annotations

import json
import math
import os
import socket
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from qualm.runners.runtime.die_with_parent import is_running
from qualm.runners.runtime.journal import Journal
from qualm.runners.servers.spending_limit import WAIT, OverCap

FOLDER = "spending"
_ROUNDING = 1e-9
ANSWERED_BY = 900.0
"""Seconds after which a request of another process is taken to be lost, and counts as spent."""


@dataclass(frozen=True)
class Spent:
    """Dollars of a spec."""

    settled: float = 0.0
    open: float = 0.0
    """Of requests without an end: on their way now, or cut off by a kill; each at its most."""

    @property
    def all(self) -> float:
        return self.settled + self.open


@dataclass(frozen=True)
class _Hold:
    """A request on its way."""

    most: float
    account: str
    by: str
    at: float

    @property
    def alive(self) -> bool:
        """Whether it may still be settled."""
        host, _, pid = self.by.rpartition(":")
        if time.time() - self.at > ANSWERED_BY:
            return False
        return host != socket.gethostname() or is_running(int(pid))


class Ledger:
    """See `qualm.runners.servers.spending_limit.SpendingLimit`. Safe for threads, and for processes that share the file."""

    def __init__(self, path: Path, cap: float, account: str = "", account_cap: float = 0.0) -> None:
        """
        Args:
            cap: dollars of all accounts together; 0 = none.
            account_cap: dollars of that one; 0 = none.
        """
        self.path, self.cap, self.account, self.account_cap = path, cap, account, account_cap
        self._journal, self._lock = Journal(path), threading.Lock()
        self._read, self._settled = 0, dict[str, float]()
        self._holds: dict[str, _Hold] = {}
        self._me = f"{socket.gethostname()}:{os.getpid()}"

    def hold(self, amount: float, key: str = "") -> str:
        """Set aside; WAIT where those on their way leave no room now but may. By a key that is held already nothing more is.

        Raises:
            OverCap: it passes a cap whatever they cost.
        """
        with self._lock, self._journal.turn():
            self._refresh()
            if key in self._holds:
                return key
            for name, cap, account in self._caps():
                sure, maybe = self._sums(account)
                if sure + amount > cap + _ROUNDING:
                    so_far = f"${sure:.4f} spent over all runs of this spec, {self.path}; the next request may cost ${amount:.4f}"
                    raise OverCap(f"the spending limit is reached ({name} = ${cap:g}, {so_far}); raise it")
                if sure + maybe + amount > cap + _ROUNDING:
                    return WAIT
            key = key or uuid.uuid4().hex
            self._append({"hold": key, "most": amount, "account": self.account, "by": self._me, "at": round(time.time(), 3)})
            return key

    def settle(self, key: str, spent: float) -> None:
        """A request has its end, and cost so much."""
        with self._lock, self._journal.turn():
            self._append({"settle": key, "spent": spent, "account": self.account})

    def holds(self, key: str) -> bool:
        """Return whether the spending reservation of a request is not yet settled."""
        with self._lock:
            self._refresh()
            return key in self._holds

    def room(self) -> float:
        """Dollars below the nearest cap, those on their way at their most; infinite without any."""
        with self._lock:
            self._refresh()
            return min([cap - sum(self._sums(account)) for _, cap, account in self._caps()], default=math.inf)

    def spent(self, account: str = "") -> Spent:
        """So far, of one account or of all."""
        with self._lock:
            self._refresh()
            settled = sum(n for name, n in self._settled.items() if account in ("", name))
            return Spent(settled, sum(h.most for h in self._holds.values() if account in ("", h.account)))

    def _caps(self) -> list[tuple[str, float, str]]:
        """Name, dollars and account of each cap that there is."""
        caps = [("max_spend", self.cap, ""), (f"max_spend of {self.account}", self.account_cap, self.account)]
        return [cap for cap in caps if cap[1]]

    def _sums(self, account: str) -> tuple[float, float]:
        """What is spent, with what can no longer be settled; and what may come to it."""
        held = [h for h in self._holds.values() if account in ("", h.account)]
        lost = sum(h.most for h in held if not h.alive)
        settled = sum(n for name, n in self._settled.items() if account in ("", name))
        return settled + lost, sum(h.most for h in held if h.alive)

    def _append(self, entry: dict[str, object]) -> None:
        self._journal.append(json.dumps(entry).encode() + b"\n")

    def _refresh(self) -> None:
        """Read what was appended since."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            tail = file.read()
        whole = tail[: tail.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError):
                continue  # a line that a disk damaged: its request stays open, at its most

    def _take(self, entry: dict[str, object]) -> None:
        if "hold" in entry:
            most, at = float(str(entry["most"])), float(str(entry["at"]))
            self._holds[str(entry["hold"])] = _Hold(most, str(entry["account"]), str(entry["by"]), at)
        else:
            account, dollars = str(entry["account"]), float(str(entry["spent"]))
            self._settled[account] = self._settled.get(account, 0.0) + dollars
            self._holds.pop(str(entry["settle"]), None)


def ledger_path(store: str, spec: str) -> Path:
    """Where a spec's spending is written down: beside the store, so that machines which share one share the other."""
    return Path(store).parent / FOLDER / f"{spec}.jsonl"


def spending(root: Path, store: str, spec: str) -> Spent:
    """What a spec of a checkout has spent on servers."""
    return Ledger(root / ledger_path(store, spec), 0.0).spent()
