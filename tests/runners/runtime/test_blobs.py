import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from qualm.runners.runtime.blobs import BlobCache
from qualm.runners.runtime.stage import StageError
from tests.support.processes.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]


def test_what_is_kept_is_found_by_all_it_depends_on(tmp_path):
    kept = BlobCache("masks", "model", 0.3, root=tmp_path)
    key = kept.key("pixels", [1, 2])
    assert kept.get(key) is None
    kept.put(key, b"data")
    assert BlobCache("masks", "model", 0.3, root=tmp_path).get(key) == b"data"
    others = [BlobCache("masks", "model", 0.4, root=tmp_path).key("pixels", [1, 2]), kept.key("pixels", [1, 3])]
    assert all(kept.get(other) is None for other in others)
    assert BlobCache("pictures", "model", 0.3, root=tmp_path).get(key) is None


def test_what_must_survive_a_power_cut_is_on_the_disk(tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr(os, "fsync", waits.append)
    kept = BlobCache("masks", root=tmp_path)
    kept.put(kept.key("a"), b"data", durable=False)
    assert not waits
    kept.put(kept.key("b"), b"data")
    assert waits and kept.get(kept.key("b")) == b"data"


def test_a_damaged_file_is_as_good_as_absent(tmp_path, capsys):
    kept = BlobCache("masks", root=tmp_path)
    key = kept.key("a")
    kept.put(key, b"0123456789")
    (file,) = [p for p in tmp_path.rglob("*") if p.is_file()]
    for damaged in (file.read_bytes()[:-1], b"", b"x" + file.read_bytes()):
        file.write_bytes(damaged)
        assert kept.get(key) is None
    assert "fails its checksum" in capsys.readouterr().err
    kept.put(key, b"new")
    assert kept.get(key) == b"new"


def test_many_writers_leave_one_whole_file(tmp_path):
    kept = BlobCache("masks", root=tmp_path)
    key = kept.key("a")
    threads = [threading.Thread(target=kept.put, args=(key, b"x" * 10_000)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert kept.get(key) == b"x" * 10_000
    assert sum(p.is_file() for p in tmp_path.rglob("*")) == 1


def test_a_full_disk_is_a_clear_error_and_takes_nothing_away(tmp_path):
    kept = BlobCache("masks", root=tmp_path)
    kept.put(kept.key("small"), b"x" * 100)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(StageError, match=r"a result cannot be kept: .*; make room and run it again"):
            kept.put(kept.key("large"), b"x" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert kept.get(kept.key("small")) == b"x" * 100 and kept.get(kept.key("large")) is None
    assert sum(p.is_file() for p in tmp_path.rglob("*")) == 1


def test_a_killed_writer_leaves_whole_results_only(tmp_path):
    code = (
        "import itertools; from qualm.runners.runtime.blobs import BlobCache; from pathlib import Path\n"
        f"kept = BlobCache('masks', root=Path({str(tmp_path)!r}))\n"
        "for i in itertools.count(): kept.put(kept.key(i), str(i).encode() * 50_000)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as writer:
        try:
            wait_until(lambda: sum(1 for _ in tmp_path.rglob("*")) >= 60, "sixty files")
        finally:
            writer.kill()
    kept = BlobCache("masks", root=tmp_path)
    found = [kept.get(kept.key(i)) for i in range(500)]
    n = found.index(None)
    assert n > 20 and found[n:] == [None] * (500 - n)
    assert all(data == str(i).encode() * 50_000 for i, data in enumerate(found[:n]))
