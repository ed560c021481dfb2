"""The cluster of a run: whose address stages are given, and what they are told of their memory."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from qualm.compiler.run import cluster
from qualm.compiler.run.cluster import open_cluster, save_memory_estimates
from qualm.compiler.spec.errors import ProjectError
from qualm.runners.runtime.settings import Settings


def test_an_address_is_passed_on_and_none_needs_no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "is_installed", lambda extra: False)
    with open_cluster("") as address:
        assert address == ""
    with pytest.raises(ProjectError, match="Ray is not installed"), open_cluster("head:6379"):
        pass
    monkeypatch.setattr(cluster, "is_installed", lambda extra: True)
    with open_cluster("head:6379") as address:
        assert address == "head:6379"


def test_stages_find_what_a_worker_of_theirs_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    estimates = [
        SimpleNamespace(stage="infer-a", memory=SimpleNamespace(total=5e9)),
        SimpleNamespace(stage="infer-b", memory=None),  # whose size is not known
    ]
    monkeypatch.setattr(cluster, "estimate", lambda *_: iter(estimates))
    save_memory_estimates(SimpleNamespace(spec="t"), [], tmp_path, Settings())  # type: ignore[arg-type]
    assert json.loads((tmp_path / ".qualm/cluster/t.json").read_text()) == {"infer-a": 5_000_000_000}


def test_of_the_main_memory_workers_divide_what_the_object_store_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray keeps three tenths of it for its objects."""
    monkeypatch.setattr(cluster, "visible_gpus", lambda: ["0", "1"])
    monkeypatch.setattr(cluster, "total_memory", lambda: 10_240_000_000)
    monkeypatch.setattr(cluster, "usable_cores", lambda: 3)
    assert cluster.cluster_resources(cluster.HERE, Settings()) == {"CPU": 3.0, "GPU": 2.0, "memory": pytest.approx(7_168_000_000)}


def test_what_a_cluster_elsewhere_has(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    ray = SimpleNamespace(cluster_resources=lambda: {"CPU": 8, "memory": 5}, shutdown=lambda: ended.append("ended"))
    asked: list[str] = []
    monkeypatch.setattr("qualm.runners.inference.driver.connect_ray", lambda settings: asked.append(settings.cluster) or ray)
    monkeypatch.setattr(cluster, "is_installed", lambda extra: extra == "cluster")
    assert cluster.cluster_resources("head:6379", Settings()) == {"CPU": 8.0, "memory": 5.0} and (asked, ended) == (
        ["head:6379"],
        ["ended"],
    )
    monkeypatch.setattr(cluster, "is_installed", lambda extra: extra != "cluster")
    with pytest.raises(ProjectError, match="--on head:6379: Ray is not installed: "):
        cluster.cluster_resources("head:6379", Settings())


@pytest.mark.parametrize("on", ["", " "])
def test_an_empty_address_is_refused(on: str) -> None:
    with pytest.raises(ProjectError, match="expected `ray`, `ray://HOST:10001` or `HOST:6379`, got nothing"):
        cluster.check_address(on)
    cluster.check_address(None)
    cluster.check_address("ray")
