"""A guarded stream writes out what steers a terminal, and is to libraries the stream that it guards."""

import io
import logging
import sys

import pytest

from qualm.registry.system.guard import Guarded, guard


def test_what_steers_is_written_out() -> None:
    stream = io.StringIO()
    assert Guarded(stream).write("a\x1b[31mb\n") == len("a\x1b[31mb\n")
    Guarded(stream).writelines(["c\u202ed\n"])
    assert stream.getvalue() == "a\\x1b[31mb\nc\\u202ed\n"


def test_a_library_that_closes_a_stream_of_its_own_at_the_end_leaves_the_guarded_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """absl logs to what was `sys.stderr` when it was imported, and closes that at exit unless it is `sys.stderr`."""
    before = io.StringIO()
    monkeypatch.setattr(sys, "stderr", before)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    logging_ = pytest.importorskip("absl.logging")
    handler = logging_.PythonHandler(before)
    guard()
    assert isinstance(sys.stderr, Guarded) and sys.stderr == before != io.StringIO()
    assert before in (sys.stderr, sys.stdout) and hash(sys.stderr) == hash(before)
    handler.close()
    logging.getLogger("absl").removeHandler(handler)
    assert not before.closed
