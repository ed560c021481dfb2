"""Inference on a real Ray cluster of two nodes on this machine: the same bytes as here alone, also where a node is killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir
from types import SimpleNamespace
from typing import Any

import pytest

from qualm.compiler.project.checkout import Project
from qualm.registry.dvc.state import file_md5
from qualm.runners.contracts.stages import stage_kind
from qualm.runners.inference.cluster import driver
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError, read_stage
from tests.support.processes.ray_cluster import joined, killed, ray_cluster
from tests.support.projects.asked_project import INFER, PARTS, asked_project


@pytest.mark.parametrize(
    ("cluster", "server", "elsewhere"),
    [
        ("", None, False),
        ("ray", None, True),
        ("ray", SimpleNamespace(key="", price=None, batch=False), True),
        ("ray", SimpleNamespace(key="KEY", price=None, batch=False), False),
        ("ray", SimpleNamespace(key="", price=None, batch=True), False),
        ("ray", SimpleNamespace(key="", price=1, batch=False), False),
    ],
)
def test_keys_and_spending_stay_here(cluster: str, server: Any, elsewhere: bool) -> None:
    class Served:
        digest, counters, served = "", None, None
        client = SimpleNamespace(server=server)

        def render(self) -> None: ...
        def parts(self) -> None: ...

    model = Served() if server else SimpleNamespace()
    assert driver.goes_elsewhere(Settings(cluster=cluster), model) == elsewhere


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return asked_project(tmp_path_factory.mktemp("cluster") / "project")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray")
    with ray_cluster(1) as cluster:
        yield cluster


def infer(project: Project, store: str, **settings: Any) -> Stage:
    with chdir(project.root):
        own = Settings(device="cpu", batch_size=2, workers=2, progress=False, store=store, **settings)
        stage = read_stage(f"t/{INFER}", own)
        stage_kind(stage.kind).run()(stage)
    return stage


def made(project: Project) -> str:
    return file_md5(project.root / "results/t/generations/base/scenes.parquet")


@pytest.mark.slow
def test_the_bytes_are_those_of_this_machine_alone_and_a_node_that_dies_loses_a_batch(
    project: Project, cluster: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = infer(project, "alone")
    truth, batches = made(project), []
    opened: list[dict[str, Any]] = []
    keep, compare = driver.Answering._keep, driver.Answering._compare

    def kill_the_first_node(self: Any, number: int, answers: Any) -> int:
        batches.append(number)
        done = keep(self, number, answers)
        if len(batches) == 2:
            joined(cluster)  # late
            killed(cluster, cluster.workers[0])
        return done

    monkeypatch.setattr(driver.Answering, "_keep", kill_the_first_node)
    monkeypatch.setattr(driver.Answering, "_compare", lambda self, facts: (opened.append(facts), compare(self, facts)))
    (project.root / "results/t/generations/base/scenes.parquet").unlink()
    stage = infer(project, "together", cluster=cluster.address)
    assert made(project) == truth
    assert sorted(batches) == list(range(6))  # 12 prompts in twos, each batch once
    assert len(opened) >= 2 and len({facts["process"] for facts in opened}) >= 2
    assert all("/qualm-cluster-" in facts["code"] for facts in opened)  # not this checkout
    assert "a worker of the cluster is gone; its batch is asked again" in capsys.readouterr().err
    assert {k: n for k, n in stage.counters.items() if "computed" in k} == {f"{kind} computed": n for kind, n in PARTS.items()}
    assert {k: n for k, n in alone.counters.items() if "computed" in k} == {f"{kind} computed": n for kind, n in PARTS.items()}


@pytest.mark.slow
def test_a_worker_that_would_answer_otherwise_is_refused(project: Project, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compare = driver.Answering._compare
    monkeypatch.setattr(driver.Answering, "_compare", lambda self, facts: compare(self, {**facts, "libraries": {"torch": "1.0"}}))
    with pytest.raises(StageError, match=r"a worker of the cluster has other libraries: \{'torch': '1.0'\}; here .*; install the same"):
        infer(project, "refused", cluster=cluster.address)


def test_a_cluster_that_is_not_there() -> None:
    pytest.importorskip("ray").shutdown()  # or the connection of a test before would be taken
    for address in ("127.0.0.1:9", "ray://127.0.0.1:9"):
        with pytest.raises(StageError, match=rf"cluster = '{address}': Ray cannot be reached: .*refused"):
            driver.connected(Settings(cluster=address))
