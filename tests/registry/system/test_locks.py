"""A lock between processes: one holder, named to the others, none after its end."""

import subprocess
import sys
import threading
from pathlib import Path

from qualm.registry.system.locks import ProcessLock
from tests.support.processes.waiting import TIMEOUT, wait_until

HOLDER = """
import sys
from pathlib import Path
from qualm.registry.system.locks import ProcessLock
lock = ProcessLock(Path(sys.argv[1]))
print(lock.acquire("the other"), flush=True)
sys.stdin.read()
"""


def test_one_process_holds_it_and_a_killed_one_does_not(tmp_path: Path) -> None:
    lock = ProcessLock(tmp_path / "a" / "b.lock")
    command = [sys.executable, "-c", HOLDER, str(lock.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert not lock.acquire("me") and lock.holder == "the other"
        other.kill()
    assert lock.acquire("me") and lock.holder == "me"
    lock.release()
    assert lock.holder == ""


def test_another_thread_waits_and_may_release(tmp_path: Path) -> None:
    first, second, got = ProcessLock(tmp_path / "lock"), ProcessLock(tmp_path / "lock"), []
    assert first.acquire()
    thread = threading.Thread(target=lambda: got.append(second.acquire("second", wait=True)))
    thread.start()
    assert not got
    first.release()
    thread.join(TIMEOUT)
    assert got == [True] and not first.acquire()
    second.release()
    wait_until(first.acquire, "the lock is free")
    first.release()
    first.release()
