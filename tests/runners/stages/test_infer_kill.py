"""kill -9 of the runner, of dvc, of a process of several, and Ctrl-C: the bytes of an undisturbed run, no batch stored twice.

A killed run has computed in vain at most the batch it was at: what `HfVlm.answer` was called for is counted.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qualm.compiler.plan import launcher
from tests.support.models.tiny_models import tiny_llava
from tests.support.processes.forks import forks
from tests.support.processes.waiting import TIMEOUT, children, is_gone, wait_until
from tests.support.processes.zygote import Zygote
from tests.support.projects.tiny_project import BLUR, CLEAN, NEEDS, NOISE, Project

pytestmark = pytest.mark.slow
SIZE, BATCH = 48, 2
DVC = """
stages:
  infer:
    cmd: python3 specs/run.py t/infer
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
    project.stage(["open", "mc"], [CLEAN, BLUR, NOISE], needs=[*NEEDS, "p_true", "draws"], draws=2)
    return project


@pytest.fixture(scope="module")
def zygote(tmp_path_factory, model):
    made = Zygote(make(tmp_path_factory.mktemp("warm"), model).folder, Project(tmp_path_factory.mktemp("any"), model).environment(16))
    yield made
    made.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, model):
    project = make(tmp_path_factory.mktemp("undisturbed"), model)
    process = project.fork(BATCH)
    assert process.wait(TIMEOUT) == 0, process.communicate()
    assert not list((project.folder / ".qualm" / "plans").iterdir())
    return project


def content(project):
    return [project.output(name).read_bytes() for name in ("open", "mc")]


def begin(project, zygote):
    return zygote.start(project.folder, QUALM_BATCH_SIZE=str(BATCH))


def answered(project):
    """How many batches a model was asked."""
    place = project.folder / ".answered"
    return place.stat().st_size if place.exists() else 0


def there(project, pattern):
    return next(project.folder.rglob(pattern), None) is not None


def moments(project, rng):
    """Ways to be killed, each a function of the run: at any time, after so many batches, within the writing of a file."""

    def more_segments(run):
        wanted = len(project.segments()) + rng.randint(1, 4)
        return run.kill_when(lambda: len(project.segments()) >= wanted)

    yield lambda run: run.kill_after(rng.uniform(0, 0.6))
    yield more_segments
    yield lambda run: run.kill_when(lambda: there(project, ".qualm/store/*/.*.partial"))
    yield more_segments
    yield lambda run: run.kill_when(lambda: there(project, ".qualm/plans/t.infer/*"))
    yield more_segments
    yield lambda run: run.kill_after(rng.uniform(0.2, 1.2))


def test_killed_at_fifty_random_moments(tmp_path, model, undisturbed, zygote):
    rng = random.Random(11)
    kills = runs = 0
    while kills < 50:
        project = make(tmp_path / str(runs), model)
        before = kills
        while status := rng.choice(list(moments(project, rng)))(begin(project, zygote)):
            assert status == -signal.SIGKILL, (project.folder / ".log").read_text()
            kills += 1
        assert content(project) == content(undisturbed)
        assert sorted(project.stored()) == sorted(undisturbed.stored())
        assert answered(project) <= len(undisturbed.stored()) + kills - before
        assert not list((project.folder / ".qualm" / "plans").iterdir())
        runs += 1
    assert runs < 25


def test_killed_while_tables_are_written(tmp_path, model, undisturbed, zygote):
    project = make(tmp_path, model)
    assert begin(project, zygote).wait() == 0
    before = answered(project)
    for pattern in (".qualm/scratch/**/.open.parquet.*", ".qualm/scratch/**/mc.parquet", "results/t/generations/base/open.parquet"):
        for name in ("open", "mc"):
            project.output(name).unlink(missing_ok=True)
        assert begin(project, zygote).kill_when(lambda pattern=pattern: there(project, pattern)) in (0, -signal.SIGKILL)
        for name in ("open", "mc"):
            assert not project.output(name).exists() or project.output(name).read_bytes() == undisturbed.output(name).read_bytes()
    assert begin(project, zygote).wait() == 0
    assert content(project) == content(undisturbed) and answered(project) == before


def test_ctrl_c_loses_nothing(tmp_path, model, undisturbed, zygote):
    project = make(tmp_path, model)
    run = begin(project, zygote)
    wait_until(lambda: len(project.segments()) > 10 or not run.running(), "ten segments", every=0.002)
    run.kill(signal.SIGINT)
    assert run.wait() == 130
    assert "interrupted; what was done is kept" in (project.folder / ".log").read_text()
    assert 10 < len(project.segments()) < len(undisturbed.segments())
    assert begin(project, zygote).wait() == 0
    assert content(project) == content(undisturbed)


def test_two_runs_at_once_never_both_write(tmp_path, model, undisturbed):
    project = make(tmp_path, model)
    both = [project.fork(BATCH), project.fork(BATCH)]
    texts = [p.communicate(timeout=TIMEOUT) for p in both]
    assert [p.returncode for p in both] == [0, 0]
    assert sum("waiting for it to end" in err for _, err in texts) == 1
    assert sum(" 0 answers computed, " in out for out, _ in texts) == 1
    assert content(project) == content(undisturbed)
    assert sorted(project.stored()) == sorted(undisturbed.stored())


def test_compacted_between_and_beside(tmp_path, model, undisturbed, zygote):
    """`qualm cache gc` while a run computes, and before it goes on."""
    from qualm.runners.data.maintenance import collect

    project = make(tmp_path, model)
    run = begin(project, zygote)
    wait_until(lambda: len(project.segments()) >= 20 or not run.running(), "twenty segments", every=0.002)
    collect(project.folder / ".qualm" / "store", grace=0)
    run.kill()
    run.wait()
    collect(project.folder / ".qualm" / "store", grace=0)
    run = begin(project, zygote)
    while run.running():
        collect(project.folder / ".qualm" / "store", grace=0.05)
        time.sleep(0.1)
    assert run.wait() == 0, (project.folder / ".log").read_text()
    assert content(project) == content(undisturbed)
    assert sorted(k for b in project.stored() for k in b) == sorted(k for b in undisturbed.stored() for k in b)


@pytest.mark.parametrize(("shell", "victims"), [("/bin/sh", "dvc"), ("/bin/bash", "both")])
def test_killed_under_dvc(tmp_path, model, undisturbed, shell, victims):
    project = make(tmp_path, model)
    (tmp_path / "dvc.yaml").write_text(DVC)
    shutil.copy(launcher.__file__, tmp_path / "specs" / "run.py")
    environment = {**project.environment(BATCH), "SHELL": shell, "DVC_NO_ANALYTICS": "1"}
    places = str(Path(sys.executable).parent), forks().folder
    own, forked = ({**environment, "PATH": f"{place}{os.pathsep}{os.environ['PATH']}"} for place in places)
    subprocess.run(["dvc", "init", "--no-scm", "-q"], cwd=tmp_path, env=forked, check=True)
    first = subprocess.Popen(["dvc", "repro", "-q"], cwd=tmp_path, env=own)
    wait_until(lambda: len(project.segments()) > 10 or first.poll() is not None, "ten segments", every=0.002)
    (runner,) = children(first.pid, "-P", "-m", "qualm.runners")
    if victims == "both":
        runner.kill()
    os.kill(first.pid, signal.SIGKILL)  # not waited for: it stays a zombie, as under a parent that does not look
    second = subprocess.Popen(["dvc", "repro", "-q"], cwd=tmp_path, env=forked)
    wait_until(lambda: is_gone(runner), "the runner's end")
    first.wait()
    assert second.wait(TIMEOUT) == 0
    assert content(project) == content(undisturbed)
    assert sorted(project.stored()) == sorted(undisturbed.stored())
