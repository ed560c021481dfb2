"""Forks for stages, without any stage: what they have of their own, and when there are none."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from qualm.runners import forks
from qualm.runners.forks import BEGUN, ForkServer

SERVER = """
import os, signal, socket, sys, time
from qualm.runners.forks import ForkServer
def prepare(key):
    raise ValueError("the stage says what is wrong")
key = ForkServer(socket.socket(fileno=os.dup(0)), prepare).serve()
if key is None:
    sys.exit(0)
comm = open("/proc/self/comm").read().strip()
print(key, sys.argv[1:], os.environ.get("MINE"), os.environ.get("GONE"), comm, sys.stdin.read(), flush=True)
if key == "s/killed":
    os.kill(os.getpid(), signal.SIGTERM)
if key == "s/waits":
    time.sleep(60)
sys.exit(3)
"""


class Asking:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {**os.environ, "GONE": "1", "PYTHONPATH": str(Path(__file__).parents[3])}
        with theirs:
            self.process = subprocess.Popen([sys.executable, "-c", SERVER], stdin=theirs, cwd=root, env=environment)

    def begin(self, key: str) -> socket.socket:
        answer, theirs = socket.socketpair()
        (self.root / "in").write_text("words")
        with theirs, (self.root / "in").open() as read, (self.root / "out").open("wb") as out:
            request = {"key": key, "set": {"MINE": "2"}, "unset": ["GONE"]}
            socket.send_fds(self.socket, [json.dumps(request).encode()], [read.fileno(), out.fileno(), 2, theirs.fileno()])
        return answer

    def run(self, key: str) -> bytes:
        with self.begin(key) as answer, answer.makefile("rb") as said:
            return said.read()


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Asking]:
    asking = Asking(tmp_path)
    yield asking
    asking.socket.close()
    asking.process.kill()
    asking.process.wait()


def test_a_fork_has_its_own_key_environment_streams_and_status(asking: Asking) -> None:
    assert asking.run("s/one-stage") == BEGUN + b"3"
    assert (asking.root / "out").read_text() == "s/one-stage ['s/one-stage'] 2 None one-stage words\n"
    assert asking.run("s/killed") == BEGUN + b"-%d" % signal.SIGTERM
    asking.socket.close()
    assert asking.process.wait(30) == 0


def test_what_is_imported_ahead_is_watched_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit between the import and the first request must not be missed."""
    here = sys.modules[__name__]
    monkeypatch.setattr(forks, "_files", lambda: {"a": (1, 1)} | ({here.__name__: edited} if prepared else {}))
    prepared: list[str] = []
    edited = (1, 1)
    one, other = socket.socketpair()
    with one, other:
        server = ForkServer(one, prepared.append)
        server.prepare("s/a")
        edited = (2, 1)
        server.prepare("s/a")
        assert prepared == ["s/a", "s/a"] and server._before == {"a": (1, 1), here.__name__: (1, 1)} != forks._files()


def test_when_the_server_is_killed_nothing_more_is_said(asking: Asking) -> None:
    with asking.begin("s/waits") as answer, answer.makefile("rb") as said:
        while not (asking.root / "out").read_text():
            pass
        asking.process.kill()
        assert said.read() == BEGUN


def test_a_quick_exit_does_what_is_to_be_done_at_the_end_and_takes_nothing_apart():
    code = """
import atexit, sys
from qualm.runners.forks import QuickExit
class Big:
    def __del__(self): print("taken apart")
big, leave = Big(), QuickExit()
atexit.register(print, "done at the end")
print("said", end=" ")
if sys.argv[1] == "error": raise ValueError("seen")
leave(int(sys.argv[1]))
"""
    for how, status, said in (("0", 0, "said done at the end\n"), ("3", 3, "said done at the end\n"), ("error", 1, "taken apart\n")):
        made = subprocess.run([sys.executable, "-c", code, how], capture_output=True, text=True, check=False)
        assert made.returncode == status and made.stdout.endswith(said) and ("ValueError: seen" in made.stderr) == (how == "error")
