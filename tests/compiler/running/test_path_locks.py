"""What a killed DVC leaves among its path locks; whole runs over such are in `test_reproduce`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from dvc.fs import localfs

from qualm.compiler.running import path_locks
from qualm.compiler.running.path_locks import edited, keep, release_ended


@pytest.fixture
def repo(tmp_path: Path) -> Any:
    return SimpleNamespace(tmp_dir=str(tmp_path), fs=localfs, config={"core": {}})


def who(pid: int) -> dict[str, Any]:
    return {"pid": pid, "cmd": "dvc repro"}


def test_locks_are_added_to_what_there_is_and_replaced_whole(repo: Any, tmp_path: Path) -> None:
    (tmp_path / "rwlock").write_text(json.dumps({"read": {"a": [who(1)]}}))
    with edited(repo.tmp_dir, repo.fs, False) as locks:
        locks["read"]["a"].append(who(2))
        locks["read"]["b"].append(who(2))
        locks["write"]["c"] = who(2)
        assert json.loads((tmp_path / "rwlock").read_text()) == {"read": {"a": [who(1)]}}
    now = json.loads((tmp_path / "rwlock").read_text())
    assert now == {"read": {"a": [who(1), who(2)], "b": [who(2)]}, "write": {"c": who(2)}}
    assert sorted(file.name for file in tmp_path.iterdir() if file.name != "rwlock.lock") == ["rwlock"]


def test_nothing_is_written_where_a_lock_is_refused(repo: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="busy"), edited(repo.tmp_dir, repo.fs, False) as locks:
        locks["write"]["c"] = who(2)
        raise ValueError("busy")
    assert not (tmp_path / "rwlock").exists()


def test_who_has_ended_lets_go_of_all_and_others_of_nothing(repo: Any, tmp_path: Path) -> None:
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        locks = {"read": {"a": [who(os.getpid()), who(sleeper.pid)], "b": [who(sleeper.pid)]}, "write": {"c": who(sleeper.pid)}}
        (tmp_path / "rwlock").write_text(json.dumps(locks))
        release_ended(repo)
        assert json.loads((tmp_path / "rwlock").read_text()) == locks
    finally:
        sleeper.kill()  # and not asked after: a zombie
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    release_ended(repo)
    sleeper.wait()
    assert json.loads((tmp_path / "rwlock").read_text()) == {"read": {"a": [who(os.getpid())]}, "write": {}}


def test_a_process_that_began_after_the_last_lock_holds_none(repo: Any, tmp_path: Path) -> None:
    (tmp_path / "rwlock").write_text(json.dumps({"write": {"c": who(os.getpid())}}))
    os.utime(tmp_path / "rwlock", (1e9, 1e9))
    release_ended(repo)
    assert json.loads((tmp_path / "rwlock").read_text())["write"] == {}


def test_clocks_of_files_and_of_processes_may_differ_by_two_seconds(repo: Any, tmp_path: Path) -> None:
    began = psutil.Process().create_time()
    for before, kept in ((1.5, True), (3.0, False)):
        (tmp_path / "rwlock").write_text(json.dumps({"write": {"c": who(os.getpid())}}))
        os.utime(tmp_path / "rwlock", (began - before, began - before))
        release_ended(repo)
        assert bool(json.loads((tmp_path / "rwlock").read_text())["write"]) is kept


@pytest.mark.parametrize(("core", "left"), [({}, True), ({"hardlink_lock": True}, False)])
def test_the_file_is_locked_as_the_settings_of_dvc_say(repo: Any, tmp_path: Path, core: dict[str, Any], left: bool) -> None:
    (tmp_path / "rwlock").write_text(json.dumps({"write": {}}))
    repo.config["core"] = core
    release_ended(repo)
    assert (tmp_path / "rwlock.lock").exists() is left, "a lock by a hard link takes its file away"


def test_no_file_is_made_where_there_is_none(repo: Any, tmp_path: Path) -> None:
    release_ended(repo)
    assert list(tmp_path.iterdir()) == []


def test_nobody_is_left_out_of_a_file_without_one_of_the_parts() -> None:
    locks: path_locks.Locks = {}
    keep(locks, lambda _: False)
    assert locks == {}
