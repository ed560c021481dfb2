"""Record what a spec has spent on servers, over all its runs, kills and parallel stages.

Each spec has a file `.qualm/spending/SPEC.jsonl`. A request reserves its maximum cost first, and replaces it by the actual cost later. Both
are lines on disk: requests of a killed run count at their maximum, as the server may have charged them. Limits hold under the file's
lock, for all stages together.
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
from qualm.runners.runtime.spending_limit import WAIT, SpendingLimitError

FOLDER = "spending"
_ROUNDING = 1e-9
ANSWERED_BY = 900.0
"""Seconds after which a request of another process counts as lost, and its reservation as spent."""


@dataclass(frozen=True)
class Spent:
    """Dollars spent, and dollars reserved for unfinished requests."""

    settled: float = 0.0
    open: float = 0.0
    """Reservations of requests without an end, running or killed, at their maximum."""

    @property
    def all(self) -> float:
        return self.settled + self.open


@dataclass(frozen=True)
class _Hold:
    most: float
    account: str
    by: str
    at: float

    @property
    def is_open(self) -> bool:
        """Return True unless a request is too old or its process on this machine has ended.

        A process on another machine counts as running.
        """
        host, _, pid = self.by.rpartition(":")
        if time.time() - self.at > ANSWERED_BY:
            return False
        return host != socket.gethostname() or is_running(int(pid))


class Ledger:
    """A spec's spending on servers in a file, with limits; safe for threads and processes.

    Args:
        cap: dollars of all accounts together; 0 = no limit.
        account_cap: dollars of `account`; 0 = no limit.
    """

    def __init__(self, path: Path, cap: float, account: str = "", account_cap: float = 0.0) -> None:
        self.path, self.cap, self.account, self.account_cap = path, cap, account, account_cap
        self._journal, self._lock = Journal(path), threading.Lock()
        self._read, self._settled = 0, dict[str, float]()
        self._holds: dict[str, _Hold] = {}
        self._me = f"{socket.gethostname()}:{os.getpid()}"

    def hold(self, amount: float, key: str = "") -> str:
        """Reserve dollars; return the key, or "" (WAIT) if there is no room now; raise if never.

        A key that is reserved already reserves nothing more.

        Raises:
            SpendingLimitError: a limit would be exceeded whatever running requests cost.
        """
        with self._lock, self._journal.locked():
            self._refresh()
            if key in self._holds:
                return key
            for name, cap, account in self._caps():
                sure, maybe = self._sums(account)
                if sure + amount > cap + _ROUNDING:
                    so_far = f"${sure:.4f} spent over all runs of this spec, {self.path}; the next request may cost ${amount:.4f}"
                    raise SpendingLimitError(f"the next request could exceed the spending limit ({name} = ${cap:g}, {so_far}); raise it")
                if sure + maybe + amount > cap + _ROUNDING:
                    return WAIT
            key = key or uuid.uuid4().hex
            self._append({"hold": key, "most": amount, "account": self.account, "by": self._me, "at": round(time.time(), 3)})
            return key

    def settle(self, key: str, spent: float) -> None:
        """Replace the reservation `key` by `spent` dollars, the actual cost."""
        with self._lock, self._journal.locked():
            self._append({"settle": key, "spent": spent, "account": self.account})

    def holds(self, key: str) -> bool:
        """Return whether a reservation of this key is open."""
        with self._lock:
            self._refresh()
            return key in self._holds

    def room(self) -> float:
        """Return the dollars left under the tightest limit, less reservations; inf without one."""
        with self._lock:
            self._refresh()
            return min([cap - sum(self._sums(account)) for _, cap, account in self._caps()], default=math.inf)

    def spent(self, account: str = "") -> Spent:
        """Return what one account (model and server) has spent and reserved; "" is all accounts."""
        with self._lock:
            self._refresh()
            settled = sum(n for name, n in self._settled.items() if account in ("", name))
            return Spent(settled, sum(h.most for h in self._holds.values() if account in ("", h.account)))

    def _caps(self) -> list[tuple[str, float, str]]:
        caps = [("max_spend", self.cap, ""), (f"max_spend of {self.account}", self.account_cap, self.account)]
        return [cap for cap in caps if cap[1]]

    def _sums(self, account: str) -> tuple[float, float]:
        """Return (dollars spent or lost, dollars of open reservations) of an account; "" is all.

        A reservation whose request is no longer open is lost: it counts as spent in full.
        """
        held = [h for h in self._holds.values() if account in ("", h.account)]
        lost = sum(h.most for h in held if not h.is_open)
        settled = sum(n for name, n in self._settled.items() if account in ("", name))
        return settled + lost, sum(h.most for h in held if h.is_open)

    def _append(self, entry: dict[str, object]) -> None:
        self._journal.append(json.dumps(entry).encode() + b"\n")

    def _refresh(self) -> None:
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
                continue  # a damaged line: its reservation stays open

    def _take(self, entry: dict[str, object]) -> None:
        if "hold" in entry:
            most, at = float(str(entry["most"])), float(str(entry["at"]))
            self._holds[str(entry["hold"])] = _Hold(most, str(entry["account"]), str(entry["by"]), at)
        else:
            account, dollars = str(entry["account"]), float(str(entry["spent"]))
            self._settled[account] = self._settled.get(account, 0.0) + dollars
            self._holds.pop(str(entry["settle"]), None)


def ledger_path(store: str, spec: str) -> Path:
    """Return the path of a spec's spending file, spending/SPEC.jsonl next to the answer store."""
    return Path(store).parent / FOLDER / f"{spec}.jsonl"


def read_spent(root: Path, store: str, spec: str) -> Spent:
    """Return what a spec of a checkout has spent on servers, and reserved."""
    return Ledger(root / ledger_path(store, spec), 0.0).spent()
