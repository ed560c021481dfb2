"""The boundary to DVC: what its messages mean, and what a killed DVC leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from qualm.compiler.run import dvc
from qualm.compiler.run.dvc import LogReader, mend_lock, remove_stale_locks


def events(log: str, code: int = 0) -> list[tuple[str, ...]]:
    reader = LogReader()
    told = [event for line in log.splitlines(keepends=True) for event in reader.read(line)] + list(reader.end_stage(code))
    return [tuple(event.values()) for event in told]


def test_a_log_of_a_run() -> None:
    log = """\
Pulling data for stage: 'registry/data/scene-vlm-base.dvc'
Stage 'data-scenes' didn't change, skipping
'registry/data/other.dvc' didn't change, skipping
Pulling data for stage: 'infer'
Unable to pull data for stage: 'infer'
Running stage 'infer':
> python3 specs/run.py mini/infer
Updating lock file 'dvc.lock'

Stage 'specs/b/dvc.yaml:judge' is cached - skipping run, checking out outputs
Use `dvc push` to send your updates to remote storage.
"""
    data, judge = "registry/data/scene-vlm-base.dvc", "specs/b/dvc.yaml:judge"
    assert events(log) == [
        ("begin", data), ("end", data, "fetched"), ("begin", "data-scenes"), ("end", "data-scenes", "unchanged"),
        ("begin", "registry/data/other.dvc"), ("end", "registry/data/other.dvc", "unchanged"),
        ("begin", "infer"), ("end", "infer", "ran"), ("begin", judge), ("end", judge, "restored"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("ERROR: failed to reproduce 'judge': failed to run: python3 specs/run.py mini/judge, exited with 1", [("failed", "judge")]),
        ("ERROR: failed to reproduce 'judge': failed to run: python3 specs/run.py mini/judge, exited with 130", [("interrupted", "judge")]),
        (
            "ERROR: failed to reproduce 'judge': failed to run: python3 specs/run.py mini/judge, exited with -9",
            [
                ("failed", "judge"),
                ("error", "failed to reproduce 'judge': failed to run: python3 specs/run.py mini/judge, exited with -9"),
            ],
        ),
        ("WARNING: failed to run: false, exited with 1\nERROR: failed to reproduce stages: 'judge' and 'b'", [("failed", "judge")]),
        ("ERROR: \x1b[31mno space\x1b[39m left", [("error", "no space left"), ("failed", "judge")]),
    ],
    ids=["reported", "interrupted", "killed", "keep going", "of DVC itself"],
)
def test_how_a_stage_fails(error: str, told: list[tuple[str, ...]]) -> None:
    assert events(f"Running stage 'judge':\n> x\n{error}\n", 255) == [("begin", "judge"), *told]


def test_a_lock_that_another_dvc_holds_is_no_failure() -> None:
    for error in ("Unable to acquire lock. Most likely", "failed to reproduce 'a': '/tmp/a' is busy, it is being blocked by:"):
        reader = LogReader()
        assert list(reader.read(f"ERROR: {error}\n")) == [] and reader.is_locked and list(reader.end_stage(255)) == []


def test_remotes_are_verified_and_the_users_configuration_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text("[core]\n    remote = b\n['remote \"b\"']\n    url = /b\n['remote \"c\"']\n    url = /c\n")
    system = tmp_path / "system"
    system.mkdir()
    (system / "config").write_text("['remote \"c\"']\n    verify = false\n")
    environment = dvc.environment(tmp_path, {**os.environ, "DVC_SYSTEM_CONFIG_DIR": str(system)})
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)

    command = [sys.executable, "-m", "dvc", "config", "--list"]
    listed = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()

    def configured(name: str) -> str:
        return [line.partition("=")[2] for line in listed if line.startswith(f"{name}=")][-1]

    assert (configured("remote.b.verify"), configured("remote.c.verify"), configured("remote.b.url")) == ("true", "false", "/b")


# Locks.


@pytest.fixture
def ended() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def zombie() -> Iterator[int]:
    """A process that has ended and that its parent has not asked after, as the first process of a container may leave it."""
    process = subprocess.Popen(["sleep", "0"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    yield process.pid
    process.wait()


def held(root: Path, *pids: int) -> Path:
    path = root / ".dvc/tmp/rwlock"
    path.parent.mkdir(parents=True, exist_ok=True)
    locks = {"write": {"a": {"pid": pids[0], "cmd": "dvc repro"}}, "read": {"b": [{"pid": pid, "cmd": "dvc repro"} for pid in pids[1:]]}}
    path.write_text(json.dumps(locks))
    return path


def test_locks_of_ended_processes_are_removed(tmp_path: Path, ended: int, zombie: int) -> None:
    remove_stale_locks(tmp_path)
    path = held(tmp_path, ended, zombie)
    remove_stale_locks(tmp_path)
    assert not path.exists()


def test_locks_of_a_running_process_stay(tmp_path: Path, ended: int) -> None:
    path = held(tmp_path, ended, os.getpid())
    remove_stale_locks(tmp_path)
    assert path.exists()
    os.utime(path, (1e9, 1e9))  # the process began later: its number was another one's
    remove_stale_locks(tmp_path)
    assert not path.exists()


@pytest.mark.parametrize("text", ["", '{"write": {"/tm', "[]", '{"write": {"a": 1}}', '{"write": {"a": {"cmd": "x"}}}'])
def test_a_list_of_locks_that_was_cut_short_is_removed(tmp_path: Path, text: str) -> None:
    path = held(tmp_path, os.getpid())
    path.write_text(text)
    remove_stale_locks(tmp_path)
    assert not path.exists()


LOCK = """\
schema: '2.0'
stages:
  a:
    cmd: python3 specs/run.py mini/a
    params:
      specs/mini/stages/a.json:
        seed: 7
    outs:
    - path: results/mini/a
      hash: md5
      md5: 3b5d5c3712955042212316173ccf37be
      size: 2
  b-2:
    cmd: python3 specs/run.py mini/b-2
    deps:
    - path: results/mini/a
      hash: md5
      md5: 60b725f10c9c85c70d97880dfe8191b3
      size: 2
    outs:
    - path: results/mini/b
      hash: md5
      md5: 2cd6ee2c70b0bde53fbe6cac3c8b8bb1
      size: 2
"""


def test_a_lock_cut_short_anywhere_can_be_read_afterwards(tmp_path: Path) -> None:
    file = tmp_path / "dvc.lock"
    mended, whole = 0, yaml.safe_load(LOCK)
    for length in range(len(LOCK) + 1):
        file.write_text(LOCK[:length])
        mended += mend_lock(file)
        content = yaml.load(file.read_text(), yaml.CSafeLoader) or {}
        assert content.keys() <= {"schema", "stages"} and all("cmd" in entry for entry in (content.get("stages") or {}).values())
        if length > LOCK.index("  b-2") + 10:
            assert content["stages"]["a"] == whole["stages"]["a"]
    assert mended > 50 and file.read_text() == LOCK and not mend_lock(file) and not mend_lock(tmp_path / "none")


def test_a_lock_damaged_in_another_way_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "dvc.lock"
    for text in (LOCK.replace("  a:", "  a: ["), f"{LOCK}<<<<<<< HEAD\n", "schema: ["):
        file.write_text(text)
        assert not mend_lock(file) and file.read_text() == text
