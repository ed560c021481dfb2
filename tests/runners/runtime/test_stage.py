"""A stage's lock, its one-rename outputs, and the runner's command line."""

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError, digest, only_writer, read_stage
from tests.support.processes.waiting import TIMEOUT, wait_until

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def stage(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Stage("t/infer", "t", "infer", "infer", {"a": 1}, {}, {}, 7, Settings())


def test_publish_replaces_a_file_and_a_folder(stage, tmp_path):
    for turn in ("one", "two"):
        made = stage.scratch / "made"
        made.mkdir()
        (made / turn).write_text(turn)
        stage.publish(made, "results/t/folder")
        file = stage.scratch / "file"
        file.write_text(turn)
        stage.publish(file, "results/t/file.txt")
    assert [p.name for p in (tmp_path / "results/t/folder").iterdir()] == ["two"]
    assert (tmp_path / "results/t/file.txt").read_text() == "two"
    assert not list(stage.scratch.iterdir())


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a second file system")
def test_publish_to_another_file_system(stage, tmp_path):
    far = Path(f"/dev/shm/qualm-test-{os.getpid()}")
    far.mkdir()
    try:
        if far.stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("the temporary folder lies on /dev/shm")
        (tmp_path / "results").symlink_to(far)
        for turn in ("one", "two"):
            made = stage.scratch / "made"
            made.mkdir()
            (made / turn).write_text(turn)
            stage.publish(made, "results/folder")
            file = stage.scratch / "file"
            file.write_text(turn)
            stage.publish(file, "results/file.txt")
        assert sorted(p.relative_to(far).as_posix() for p in far.rglob("*")) == ["file.txt", "folder", "folder/two"]
        assert (far / "file.txt").read_text() == "two"
    finally:
        subprocess.run(["rm", "-r", str(far)], check=True)


def test_a_second_run_waits_for_the_first(stage, capfd):
    order = []

    def second():
        with only_writer(stage):
            order.append("second")

    with only_writer(stage):
        thread = threading.Thread(target=second)
        thread.start()
        told: list[str] = []
        wait_until(lambda: told.append(capfd.readouterr().err) or "waiting" in "".join(told), "the second says that it waits")
        order.append("first")
    thread.join(TIMEOUT)
    assert order == ["first", "second"]
    assert f"another run (process {os.getpid()}) is at this stage; waiting" in "".join(told)


def test_a_forked_worker_does_not_keep_the_lock(stage):
    with only_writer(stage):
        child = os.fork()
        if not child:
            time.sleep(TIMEOUT)
            os._exit(0)
    with only_writer(stage):
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the worker was waited for"
    os.kill(child, 9)
    os.waitpid(child, 0)


def test_remains_of_a_killed_publication_are_cleared(stage):
    (stage.scratch / ".old-1-x").mkdir()
    with only_writer(stage):
        assert not list(stage.scratch.glob(".old-*"))


def runner(*arguments, cwd):
    command = [sys.executable, "-m", "qualm.runners", *arguments]
    return subprocess.run(command, cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)


def test_a_failure_is_one_message(tmp_path):
    failed = runner("t/nothing", cwd=tmp_path)
    assert failed.returncode == 1
    assert failed.stderr == (
        "qualm: stage t/nothing: specs/t/stages/nothing.json: not found; run `qualm compile` in the project's root and try again\n"
    )
    assert runner(cwd=tmp_path).returncode == 2
    assert runner("--help", cwd=tmp_path).returncode == 0


def test_read_stage_says_what_is_wrong_with_the_file(stage, tmp_path):
    path = tmp_path / "specs/t/stages/infer.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(StageError, match="not JSON"):
        read_stage("t/infer", Settings())
    path.write_text(json.dumps({"kind": "infer", "seed": 1, "params": {}, "inputs": {}, "outputs": {}}))
    assert read_stage("t/infer", Settings()).seed == 1


def test_the_digest_of_parameters_is_that_of_canonical_json_in_utf_8():
    expected = hashlib.sha256('{"a":["Tür",1.5,null],"b":{"c":true,"d":2}}'.encode()).hexdigest()
    assert digest({"b": {"d": 2, "c": True}, "a": ["Tür", 1.5, None]}) == expected
