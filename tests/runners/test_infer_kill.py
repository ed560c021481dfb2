"""kill -9 of the runner, of dvc, of both, and Ctrl-C: the same bytes as undisturbed, no batch stored twice, never two writers."""

import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.tiny_models import tiny_llava
from tests.tiny_project import BLUR, CLEAN, NOISE, Project

pytestmark = pytest.mark.slow
SIZE, BATCH = 60, 2
DVC = """
stages:
  infer:
    cmd: {python} -m runners t/infer
    deps: [results/t/data/open/samples.parquet, specs/t/stages/infer.json]
    outs: [results/t/generations/base/open.parquet, results/t/generations/base/mc.parquet]
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("model"))


def make(folder, model):
    project = Project(folder, model)
    project.dataset("open", SIZE)
    project.dataset("mc", SIZE // 2, choices=True)
    project.stage(["open", "mc"], [CLEAN, BLUR, NOISE])
    return project


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, model):
    project = make(tmp_path_factory.mktemp("undisturbed"), model)
    process = project.start(BATCH)
    assert process.wait(120) == 0, process.stderr.read()
    return project


def content(project):
    return [project.output(name).read_bytes() for name in ("open", "mc")]


def batches(project):
    """The batches that were computed."""
    return project.stored()


def kill_when(project, process, stored):
    """SIGKILL the process as soon as the store holds more than `stored` segments; whether it was still running."""
    while len(project.segments()) <= stored and process.poll() is None:
        time.sleep(0.002)
    was_running = process.poll() is None
    process.kill()
    process.wait()
    return was_running


def ended(process, within):
    deadline = time.monotonic() + within
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:  # of an init that does not wait for orphans
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_killed_again_and_again(tmp_path, model, undisturbed):
    project = make(tmp_path, model)
    kills = 0
    for stored in (0, 17, 60, 89):
        kills += kill_when(project, project.start(BATCH), stored)
    assert kills >= 3
    done = sum(len(b) for b in batches(project))
    process = project.start(BATCH)
    assert process.wait(120) == 0
    total = 3 * SIZE + 3 * SIZE // 2
    assert f"t/infer: {total - done:,} answers computed, {done:,} answers stored" in process.stdout.read()
    assert content(project) == content(undisturbed)
    assert batches(project) == batches(undisturbed)  # the very same batches, each once


def test_killed_at_random_moments(tmp_path, model, undisturbed):
    project = make(tmp_path, model)
    rng = random.Random(4)
    for _ in range(4):
        process = project.start(BATCH)
        try:
            process.wait(rng.uniform(2.0, 7.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    assert project.start(BATCH).wait(120) == 0
    assert content(project) == content(undisturbed)
    assert batches(project) == batches(undisturbed)


def test_ctrl_c_loses_nothing(tmp_path, model, undisturbed):
    project = make(tmp_path, model)
    # A shell starts background jobs with Ctrl-C ignored, and that is inherited: tests run so must not lose the signal.
    process = project.start(BATCH, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    while len(project.segments()) <= 10:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert "interrupted; what was done is kept" in process.stderr.read()
    assert 10 < len(project.segments()) < len(undisturbed.segments())
    assert project.start(BATCH).wait(120) == 0
    assert content(project) == content(undisturbed)


def test_two_runs_at_once_never_both_write(tmp_path, model, undisturbed):
    project = make(tmp_path, model)
    both = [project.start(BATCH), project.start(BATCH)]
    texts = [p.communicate(timeout=120) for p in both]
    assert [p.returncode for p in both] == [0, 0]
    assert sum("waiting for it to end" in err for _, err in texts) == 1
    assert sum(" 0 answers computed, " in out for out, _ in texts) == 1
    assert content(project) == content(undisturbed)
    assert batches(project) == batches(undisturbed)


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
@pytest.mark.parametrize("victims", ["dvc", "both"])
def test_killed_under_dvc(tmp_path, model, undisturbed, shell, victims):
    project = make(tmp_path, model)
    (tmp_path / "dvc.yaml").write_text(DVC.format(python=sys.executable))
    dvc = [sys.executable, "-m", "dvc"]
    environment = {**project.environment(BATCH), "SHELL": shell, "DVC_NO_ANALYTICS": "1"}
    subprocess.run([*dvc, "init", "--no-scm", "-q"], cwd=tmp_path, check=True)
    first = subprocess.Popen([*dvc, "repro", "-q"], cwd=tmp_path, env=environment)
    while len(project.segments()) <= 10:
        assert first.poll() is None
        time.sleep(0.002)
    (runner,) = [p for p in psutil.Process(first.pid).children(recursive=True) if p.cmdline()[1:3] == ["-m", "runners"]]
    if victims == "both":
        runner.kill()
    os.kill(first.pid, signal.SIGKILL)  # not waited for: it stays a zombie, as under a parent that does not look
    second = subprocess.Popen([*dvc, "repro", "-q"], cwd=tmp_path, env=environment)
    assert ended(runner, within=1.0)
    first.wait()
    assert second.wait(120) == 0
    assert content(project) == content(undisturbed)
    assert batches(project) == batches(undisturbed)
