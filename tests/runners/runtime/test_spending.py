"""A spec's money outlives its runs: kills, reruns and stages at the same time spend no more than the cap."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from qualm.runners.runtime.server_config import Price
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.spending import ANSWERED_BY, Ledger, Spent, ledger_path
from qualm.runners.runtime.spending_limit import WAIT, SpendingLimitError

BUY = """
import sys, time
from pathlib import Path
from qualm.runners.runtime.spending import Ledger
from qualm.runners.runtime.spending_limit import WAIT, SpendingLimitError
ledger = Ledger(Path(sys.argv[1]), float(sys.argv[2]), "m at u")
bought = 0
try:
    while True:
        key = ledger.hold(0.02)
        if key == WAIT:
            time.sleep(0.001)
            continue
        print(bought := bought + 1, flush=True)
        if sys.argv[3] == "dies" and bought == 5:
            time.sleep(60)
        ledger.settle(key, 0.01)
except SpendingLimitError:
    pass
"""


def buyer(path: Path, cap: float, how: str = "lives") -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", BUY, str(path), str(cap), how], stdout=subprocess.PIPE, text=True)


def test_what_is_held_by_a_name_is_held_once_and_settled_by_any_process(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    first, again = Ledger(path, 1.0, "a", 0.8), Ledger(path, 1.0, "a", 0.8)
    assert first.room() == pytest.approx(0.8) and Ledger(path, 0.0).room() == float("inf")
    assert first.hold(0.6, "batch") == "batch" == again.hold(0.6, "batch")
    assert again.room() == pytest.approx(0.2) and again.holds("batch")
    again.settle("batch", 0.1)
    assert not first.holds("batch") and first.spent() == Spent(0.1) and first.room() == pytest.approx(0.7)


def test_a_cap_over_all_runs_that_can_be_raised(tmp_path: Path) -> None:
    path = tmp_path / "spending/s.jsonl"
    first = Ledger(path, 1.0, "a")
    first.settle(first.hold(0.6), 0.5)
    again = Ledger(path, 1.0, "b")  # the next run
    assert again.spent() == Spent(0.5) and again.spent("b") == Spent()
    with pytest.raises(
        SpendingLimitError, match=r"\$0\.5000 spent over all runs of this spec, .*s\.jsonl; the next request may cost \$0\.6000\); raise it"
    ):
        again.hold(0.6)
    raised = Ledger(path, 2.0, "b")
    raised.settle(raised.hold(0.6), 0.6)
    assert first.spent() == Spent(1.1) and first.spent("b").all == pytest.approx(0.6)


def test_an_account_has_a_cap_of_its_own(tmp_path: Path) -> None:
    dear, cheap = Ledger(tmp_path / "s", 10.0, "dear", 1.0), Ledger(tmp_path / "s", 10.0, "cheap")
    dear.settle(dear.hold(0.9), 0.9)
    with pytest.raises(SpendingLimitError, match=r"max_spend of dear = \$1"):
        dear.hold(0.2)
    cheap.settle(cheap.hold(9.0), 9.0)
    with pytest.raises(SpendingLimitError, match=r"\(max_spend = \$10, \$9\.9000"):
        cheap.hold(0.2)


def test_what_is_on_its_way_is_waited_for(tmp_path: Path) -> None:
    one, other = Ledger(tmp_path / "s", 1.0), Ledger(tmp_path / "s", 1.0)
    key = one.hold(0.9)
    assert other.hold(0.9) == WAIT and other.spent() == Spent(0.0, 0.9)
    one.settle(key, 0.05)
    assert other.hold(0.9) != WAIT


def test_a_request_that_was_cut_off_counts_at_its_most(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    killed = buyer(path, 10.0, "dies")
    assert killed.stdout is not None
    assert [killed.stdout.readline().strip() for _ in range(5)] == ["1", "2", "3", "4", "5"]
    living = Ledger(path, 0.1)
    assert living.hold(0.05) == WAIT  # four of a cent, and one of two cents that may still be settled
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    assert living.spent().settled == pytest.approx(0.04) and living.spent().open == pytest.approx(0.02)
    with pytest.raises(SpendingLimitError, match=r"\$0\.0600 spent"):
        living.hold(0.05)
    assert living.hold(0.04) != WAIT


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 3])
def test_stages_at_once_spend_no_more_than_the_cap(tmp_path: Path, stages: int) -> None:
    path = tmp_path / "s.jsonl"
    buyers = [buyer(path, 0.6) for _ in range(stages)]
    bought = sum(len(b.communicate(timeout=120)[0].split()) for b in buyers)
    assert bought == 59 and Ledger(path, 0.6).spent().settled == pytest.approx(0.59)  # a sixtieth could cost two cents
    assert len(buyer(path, 0.6).communicate(timeout=60)[0].split()) == 0, "a rerun has no new money"
    assert len(buyer(path, 0.7).communicate(timeout=60)[0].split()) == 10


def test_threads_share_a_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "s", 0.0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: ledger.settle(ledger.hold(1.0), 0.5), range(40)))
    assert ledger.spent() == Ledger(tmp_path / "s", 0.0).spent() == Spent(20.0)


def test_half_a_line_and_a_damaged_one_lose_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "s"
    ledger = Ledger(path, 0.0)
    ledger.settle(ledger.hold(1.0), 0.5)
    with path.open("ab") as file:
        file.write(b'not json\n[1]\n{"hold": "x", "mo')
    assert Ledger(path, 0.0).spent() == Spent(0.5)
    ledger.settle(ledger.hold(1.0), 0.25)
    assert Ledger(path, 0.0).spent() == ledger.spent() == Spent(0.75)


def test_requests_of_other_machines_are_given_up_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    Ledger(path, 1.0).hold(0.9)
    monkeypatch.undo()
    ledger = Ledger(path, 1.0)
    assert ledger.hold(0.5) == WAIT
    old = {**json.loads(path.read_text()), "at": time.time() - ANSWERED_BY - 1}
    path.write_text(json.dumps(old) + "\n")
    with pytest.raises(SpendingLimitError, match=r"\$0\.9000 spent"):
        Ledger(path, 1.0).hold(0.5)


def test_settings_give_each_spec_its_own(tmp_path: Path) -> None:
    url = "http://h/v1"
    servers = {url: {"price": Price(1.0, 1.0), "max_spend": 2.0}}
    settings = Settings(servers=servers, max_spend=5.0, store=str(tmp_path / "store"), spec="mine")
    limit = settings.server(url, "m").spending
    assert isinstance(limit, Ledger) and (limit.cap, limit.account, limit.account_cap) == (5.0, "m at http://h/v1", 2.0)
    assert limit.path == ledger_path(str(tmp_path / "store"), "mine") == tmp_path / "spending/mine.jsonl"
    assert Settings(servers={}, spec="mine").server(url, "m").spending is None, "nothing can be counted without a price"
