"""Files of lines that are only appended to: a kill or a full disk costs the line in flight, and one process holds a journal."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from qualm.runners.runtime.journal import Journal

DURABLE = pytest.mark.parametrize("durable", [False, True])


@DURABLE
def test_lines_come_back_in_the_order_they_were_appended(tmp_path: Path, durable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    monkeypatch.setattr(os, "fsync", waits.append)
    journal = Journal(tmp_path / "a" / "b.csv", durable)
    assert journal.content() == b""
    assert not journal.path.parent.exists()
    rows = [["a", "b, c"], ['"', "two\nlines"], ["é", ""], ["\r", "a\r\nb"]]
    for row in rows:
        journal.append_row(row)
    assert list(Journal(journal.path).rows()) == list(enumerate(rows, 1))
    assert bool(waits) == durable


@pytest.mark.parametrize("before", ["", "one\n", "one\ntwo\n"])
def test_half_a_line_is_not_read_and_is_cut_off_before_the_next(tmp_path: Path, before: str) -> None:
    journal = Journal(tmp_path / "lines")
    journal.path.write_text(before + "half a line")
    assert journal.content() == before.encode()
    journal.append(b"new\n")
    assert journal.path.read_text() == before + "new\n"


def test_a_full_disk_keeps_all_earlier_lines(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "lines")
    journal.append(b"one\n")
    limit, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6, limit[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            journal.append(b"another\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert journal.path.read_bytes() == b"one\nan"
    assert journal.content() == b"one\n"
    journal.append(b"two\n")
    assert journal.path.read_bytes() == b"one\ntwo\n"


def test_one_holder_at_a_time_and_none_after_a_kill(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from qualm.runners.runtime.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1])); print(journal.hold(), flush=True); journal.append(b'held\\n'); sys.stdin.read()"
    )
    journal = Journal(tmp_path / "lines")
    command = [sys.executable, "-c", script, str(journal.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert not journal.hold()
        other.kill()
    assert journal.hold()
    journal.append(b"mine\n")
    assert journal.content().endswith(b"mine\n")
    journal.close()
    assert journal.hold()
    journal.close()
