"""Several gloo processes answer one stage: the bytes of one process, whoever starts them, and whoever of them is killed."""

import signal
import subprocess
import sys

import psutil
import pytest

from tests.support.models.tiny_models import tiny_llava
from tests.support.processes.forks import forks
from tests.support.processes.waiting import TIMEOUT, is_gone, wait_until
from tests.support.projects.tiny_project import BLUR, CLEAN, NEEDS, NOISE, Project
from tests.support.servers.remote_servers import free_port

pytestmark = pytest.mark.slow
SIZE, BATCH = 40, 2
TORCHRUN = ["torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port()), "-m"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("model"))


def make(folder, model, size=SIZE):
    project = Project(folder, model)
    project.dataset("open", size)
    project.dataset("mc", size // 2, choices=True)
    project.stage(["open", "mc"], [CLEAN, BLUR, NOISE], needs=[*NEEDS, "p_true", "draws", "logprobs_without_image"], draws=2)
    return project


@pytest.fixture(scope="module")
def alone(tmp_path_factory, model):
    project = make(tmp_path_factory.mktemp("alone"), model)
    finish(fork(project))
    return project


def start(project, **settings):
    """A process from nothing, that is the parent of those it starts, so that it can be seen who dies with whom."""
    environment = {**project.environment(BATCH), **settings}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-m", "qualm.runners", "t/infer"], cwd=project.folder, env=environment, **pipes)


def fork(project, *launcher, **settings):
    environment = {**project.environment(BATCH), **settings}
    return forks().start(*launcher, "qualm.runners", "t/infer", folder=project.folder, environment=environment)


def finish(process):
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, err
    return out


def content(project):
    return [project.output(name).read_bytes() for name in ("open", "mc")]


def until(seen, process):
    def ready():
        assert process.poll() is None, process.communicate()
        return seen()

    wait_until(ready, "so much is done")


def test_one_of_two_is_killed_and_torchrun_goes_on(tmp_path, model, alone):
    project = make(tmp_path, model)
    two = start(project, QUALM_DEVICES="2")
    until(lambda: len(project.segments()) > 6, two)
    (other,) = psutil.Process(two.pid).children()
    other.send_signal(signal.SIGKILL)
    assert two.wait(TIMEOUT) != 0 and not project.output("open").exists()
    done = sum(map(len, project.stored()))
    assert len(project.segments()) < len(alone.segments())
    said = finish(fork(project, *TORCHRUN, QUALM_DEVICES="2"))
    assert said.count("t/infer: ") == 1
    assert sum(int(words.split()[0].replace(",", "")) for words in said.partition(": ")[2].split(", ") if " stored" in words) == done
    assert content(project) == content(alone)
    assert sorted(project.stored()) == sorted(alone.stored())  # the very same batches, each once


def test_the_first_of_two_is_killed_and_one_goes_on(tmp_path, model, alone):
    project = make(tmp_path, model)
    two = start(project, QUALM_DEVICES="2")
    until(lambda: len(project.segments()) > 6, two)
    (other,) = psutil.Process(two.pid).children()
    two.kill()
    two.wait()
    wait_until(lambda: is_gone(other), "the other's end")
    finish(fork(project))
    assert content(project) == content(alone)
    assert sorted(project.stored()) == sorted(alone.stored())


@pytest.mark.parametrize(("strategy", "launcher"), [("tensor_parallel", TORCHRUN), ("fsdp", [])])
def test_one_model_on_several_devices(tmp_path, model, alone, strategy, launcher):
    """Every process takes part in every batch, and the first one stores: the answers of one device, to rounding."""
    project = make(tmp_path, model, 8)
    finish(fork(project, *launcher, QUALM_DEVICES="2", QUALM_STRATEGY=strategy))
    keys = [key for batch in project.stored() for key in batch]
    assert len(keys) == len(set(keys)) and set(keys) <= {key for batch in alone.stored() for key in batch}
    before = {(r["sample_id"], r["variant"], r["draw"]): r for r in alone.rows("open")}
    for row in project.rows("open"):
        same = before[row["sample_id"], row["variant"], row["draw"]]
        assert row["text"] == same["text"] and row["token_logprobs"] == pytest.approx(same["token_logprobs"], abs=1e-4)
        assert row["p_true"] == pytest.approx(same["p_true"], abs=1e-4)
    assert [r["option_logits"] for r in project.rows("mc")] == [
        pytest.approx(r["option_logits"], abs=1e-3) for r in alone.rows("mc")[: len(project.rows("mc"))]
    ]


def test_a_launcher_of_the_settings_starts_them_and_nothing_to_do_is_told_to_all(tmp_path, model, alone):
    (tmp_path / ".qualm").mkdir()
    project = make(tmp_path, model)
    (tmp_path / ".qualm" / "store").symlink_to(alone.folder / ".qualm" / "store")
    launcher = f"{forks().python} -m torch.distributed.run --nproc-per-node 2 --master-port {free_port()} --no-python"
    said = finish(fork(project, QUALM_DEVICES="2", QUALM_LAUNCHER=launcher))
    assert said.count("0 answers computed") == 1
    assert content(project) == content(alone)
    lost = fork(project, QUALM_DEVICES="2", QUALM_LAUNCHER="no-such-launcher")
    _, err = lost.communicate(timeout=TIMEOUT)
    assert lost.returncode == 1 and "the launcher of qualm.toml cannot be started" in err
