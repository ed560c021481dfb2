"""Forks begin at the far end, change nothing but time, and are gone afterwards, whatever they do.

Each test forks a process of its own.
"""

import subprocess
import sys
import textwrap

import pytest

from qualm.runners.scoring.measuring import helpers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are made on Linux only")
START = """
import os, signal, sys, threading, time
from pathlib import Path
from qualm.runners.scoring.measuring import helpers
from qualm.runners.scoring.measuring.helpers import helping

done = Path("done")
done.mkdir()

def work(item):
    for part in range(3):
        yield 1
        (done / f"{item}-{part}").write_text(str(os.getpid()))

def wait(until):
    end = time.monotonic() + 20
    while not until() and time.monotonic() < end:
        time.sleep(0.005)
    assert until()

def alone():
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
"""


def run(tmp_path, code):
    """Run a script; what it printed."""
    ran = subprocess.run([sys.executable, "-c", START + textwrap.dedent(code)], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_they_work_from_the_far_end(tmp_path):
    run(
        tmp_path,
        """
        with helping(5, work, 2) as forks:
            forks.reached(0)
            assert not any(done.iterdir()) and forks.made == 0
            forks.begin()
            forks.begin()  # no more of them
            wait(lambda: len([*done.iterdir()]) == 4 * 3)
            assert not (done / "0-0").exists()
            makers = {path.read_text() for path in done.iterdir()}
            assert str(os.getpid()) not in makers and len(makers) <= 2
            assert forks.made == 4 * 3  # counted before they are there
        assert alone()
        """,
    )


def test_what_this_process_has_begun_is_left_to_it(tmp_path):
    run(
        tmp_path,
        """
        with helping(4, work, 1) as forks:
            for item in (0, 2, 3):
                forks.reached(item)
            forks.begin()
            wait(lambda: (done / "1-2").exists())
        assert sorted(path.name for path in done.iterdir()) == ["1-0", "1-1", "1-2"] and alone()
        """,
    )


@pytest.mark.parametrize("what", ["raise ValueError('no')", "os._exit(3)", "time.sleep(600)", "print('words', flush=True)"])
def test_one_that_fails_says_nothing_and_stops_nothing(tmp_path, what):
    out = run(
        tmp_path,
        f"""
        def failing(item):
            (done / "begun").touch()
            {what}
            yield 1
        with helping(3, failing, 1) as forks:
            forks.reached(0)
            forks.begin()
            wait(lambda: (done / "begun").exists())
        assert alone()
        print("end")
        """,
    )
    assert out == "end"


def test_one_that_does_not_stop_is_killed(tmp_path):
    run(
        tmp_path,
        """
        helpers.STOP_WITHIN = 0.1
        def deaf(item):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            (done / "deaf").touch()
            time.sleep(600)
            yield 1
        start = time.monotonic()
        with helping(2, deaf, 1) as forks:
            forks.begin()
            wait(lambda: (done / "deaf").exists())
        assert alone() and time.monotonic() - start < 20
        """,
    )


@pytest.mark.parametrize(
    "why",
    ["helpers.free_memory = lambda: 0", "threading.Thread(target=time.sleep, args=(5,), daemon=True).start()", "most = 0", "left = 0"],
)
def test_there_are_none_where_they_could_harm_or_have_nothing_to_do(tmp_path, why):
    run(
        tmp_path,
        f"""
        most, left = 1, 1
        {why}
        with helping(left, work, most) as forks:
            forks.begin()
            assert alone() and not forks._pids
        """,
    )


def test_an_error_here_ends_them(tmp_path):
    run(
        tmp_path,
        """
        try:
            with helping(2, lambda item: iter([time.sleep(600)]), 1) as forks:
                forks.begin()
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            assert alone()
        """,
    )


def test_there_are_as_many_as_are_asked_for_have_something_to_do_and_find_twice_the_memory_of_this_process(tmp_path):
    run(
        tmp_path,
        """
        import resource
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        def forked(items, reached, most, memory):
            helpers.free_memory = lambda: memory
            with helping(items, lambda item: iter([time.sleep(600)]), most) as forks:
                for item in range(reached):
                    forks.reached(item)
                forks.begin()
                return len(forks._pids)
        assert forked(6, 0, 6, 5 * own + own // 2) == 2
        assert forked(6, 0, 3, 100 * own) == 3
        assert forked(4, 2, 6, 100 * own) == 2
        """,
    )


def test_free_memory_is_known_here():
    assert 2**20 < helpers.free_memory() < 2**50


@pytest.mark.parametrize(
    ("available", "most", "used", "free"),
    [
        (1_024_000, "600000", "500000", 100_000), (1_024_000, "9000000", "500000", 1_024_000),
        (1_024_000, "max", "500000", 1_024_000), (1_024_000, "500000", "500001", 0), (1_024_000, None, None, 1_024_000),
    ],
)  # fmt: skip
def test_free_memory_is_the_less_of_the_machines_and_of_what_the_container_leaves(tmp_path, monkeypatch, available, most, used, free):
    files = {"sys/fs/cgroup/memory.max": most, "sys/fs/cgroup/memory.current": used}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            (tmp_path / name).write_text(text)
    monkeypatch.setattr(helpers, "available_memory", lambda: available)
    monkeypatch.setattr(helpers, "Path", lambda name: tmp_path / name.removeprefix("/"))
    assert helpers.free_memory() == free
