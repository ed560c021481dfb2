"""Inference on a real Ray cluster of two nodes on this machine: the same bytes as here alone, also where a node is killed.

What the driver decides without one, by calls of Ray's that are answered in this process.
"""

from __future__ import annotations

import hashlib
import logging
import socket
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from qualm.compiler.project.checkout import Project
from qualm.registry.system.dvc_objects import file_md5
from qualm.runners.contracts.models import Part
from qualm.runners.contracts.stages import stage_kind
from qualm.runners.data.answers import Store
from qualm.runners.inference import driver
from qualm.runners.inference.batch_plan import AnswerTask, Batch
from qualm.runners.inference.remote import server_record
from qualm.runners.inference.requests import Place, SampleVariant
from qualm.runners.inference.shards import ShardAnswers
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError, read_stage
from tests.support.processes.ray_cluster import joined, killed, ray_cluster
from tests.support.processes.small_ray import RayError, RayTaskError, SmallRay
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
    model = Served(server) if server else SimpleNamespace()
    assert driver.runs_on_cluster(Settings(cluster=cluster), model) == elsewhere


class Served:
    digest, counters, served = "", None, None

    def __init__(self, server: Any) -> None:
        self.client = SimpleNamespace(server=server)

    def render(self) -> None: ...
    def parts(self) -> None: ...


ENGINE = SimpleNamespace(identity="e", changed_versions=lambda: {"models": 1}, libraries={"torch": "2"})
FACTS = {"model": "m", "engine": "e", "versions": {"models": 1}, "libraries": {"torch": "2"}}


class Stage9:
    """A stage whose nine samples are asked in shards, each answered with its own number as text."""

    def __init__(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray: SmallRay, model: Any = None, sizes: tuple[int, ...] = (2,) * 4 + (1,)
    ):
        monkeypatch.chdir(tmp_path)
        ray.install(monkeypatch, driver)
        parcel = SimpleNamespace(files={"a": "d1", "b": "d2"}, pieces=lambda digest: iter([f"{digest} 1".encode(), f"{digest} 2".encode()]))
        monkeypatch.setattr(driver, "Parcel", lambda stage: parcel)
        self.advanced: list[int] = []
        monkeypatch.setattr(driver, "progress", self._progress)
        self.ray, self.root, self.asked, self.settings = ray, tmp_path, list[tuple[int, list[int], bool]](), list[Settings]()
        self.stage = Stage("t/infer", "t", "infer", "infer", {}, {}, {}, 7, Settings(cluster="ray", devices=3, nodes=2))
        samples = [{"sample_id": f"s{i}", "choices": None} for i in range(9)]
        self.asker = SimpleNamespace(
            stage=self.stage, model=model or SimpleNamespace(digest="m"), engine=ENGINE, datasets=[SimpleNamespace(samples=samples)],
            parts=lambda options: ("answer", "p_true", "hidden_states/-1/prompt_last"), name=lambda place: f"s{place.row}", draws=0,
            key=lambda place, part, subject: key(place.row, part),
        )  # fmt: skip
        places = iter([Place(0, row, 0, b"") for row in range(9)])
        self.shards = [Batch(("p_true",), tuple(next(places) for _ in range(size))) for size in sizes]
        self.store = Store(tmp_path / "store", "m", "e")

    @contextmanager
    def _progress(self, settings: Settings, what: str, total: int) -> Iterator[Any]:
        self.total = total
        yield self.advanced.append

    def run(self) -> None:
        driver.Answering(self.asker, self.store, self.shards, "module:opens").run()

    def reply(self, worker: int, method: str, handed: Any) -> Any:
        if method == "missing":
            return ["d1"] if worker == 0 else ["d1", "d2"]
        if method == "open":
            self.settings.append(handed[-1])
            return {**FACTS, "code": "", "process": worker}
        shard, known, proven = handed
        rows = [place.row for place in shard.places]
        self.asked.append((worker, rows, proven))
        self.known = known
        made = Store(self.root / f"worker{len(self.asked)}", "m", "e")
        made.put([key(row, "p_true") for row in rows], ["p_true"] * len(rows), [Part(f"{row}") for row in rows])
        segments = [path.read_bytes() for path in made.folder.glob("*.segment")]
        return ShardAnswers(segments, {"signals computed": len(rows)}, b"line\n" if rows == [0, 1] else b"")

    def texts(self) -> list[str]:
        return Store(self.root / "store", "m", "e").take([key(row, "p_true") for row in range(9)])["text"].to_pylist()


def key(row: int, part: str) -> bytes:
    return hashlib.sha256(f"{row} {part}".encode()).digest()


def test_shards_go_to_as_many_workers_as_there_is_room_for_two_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = SmallRay(2, lambda *call: case.reply(*call))
    case = Stage9(tmp_path, monkeypatch, ray)
    case.store.put([key(0, "answer")], ["answer"], [Part("red")])
    case.run()
    assert {proven for _, _, proven in case.asked} == {True}, "the store has an answer of it"
    assert case.texts() == [f"{row}" for row in range(9)] and sorted(rows for _, rows, _ in case.asked) == [
        [0, 1],
        [2, 3],
        [4, 5],
        [6, 7],
        [8],
    ]
    assert ray.options == [{"num_cpus": 1.0, "num_gpus": 0, "memory": None}] * 2 and ray.killed == [0, 1] and ray.most == 2
    assert {worker for worker, _, _ in case.asked} == {0, 1} and ray.looked == 2, "when it began, and at the one look"
    assert (sum(case.advanced), case.total) == (9, 9) and case.stage.counters == {"signals computed": 9}
    assert {(s.cluster, s.progress, s.devices, s.nodes, s.strategy, s.launcher, s.spec) for s in case.settings} == {
        ("", False, 1, 1, "auto", "", "")
    }
    assert [piece for piece in ray.objects if piece] == [b"d1 1", b"d1 2", b"d2 1", b"d2 2"], "each content is sent once"
    assert server_record(case.stage).read_bytes() == b"line\n"


def test_a_worker_is_told_what_is_stored_of_its_places_and_whether_the_model_has_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {}

    def work(worker: int, method: str, handed: Any) -> Any:
        if method == "answer":
            told[handed[0].places[0].row] = handed[1] and (
                handed[1]["key"].to_pylist(),
                handed[1]["part"].to_pylist(),
                handed[1]["text"].to_pylist(),
            )
        return case.reply(worker, method, handed)

    case = Stage9(tmp_path, monkeypatch, SmallRay(1, work), sizes=(2, 2, 2))
    case.run()
    assert [proven for _, _, proven in case.asked] == [False, False, True] and told == {0: None, 2: None, 4: None}
    case.store.put([key(1, "answer"), key(0, "p_true")], ["answer", "p_true"], [Part("red"), Part("0")])
    case.asked.clear()
    case.run()
    assert told == {0: ([key(1, "answer")], ["answer"], ["red"]), 2: None, 4: None}
    assert [proven for _, _, proven in case.asked] == [True] * 3


def test_what_a_lost_worker_was_sent_goes_to_others_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(worker: int, method: str, handed: Any) -> Any:
        return RayError("gone") if worker == 0 and method == "answer" else case.reply(worker, method, handed)

    case = Stage9(tmp_path, monkeypatch, SmallRay(1, work, seconds=0.6))
    case.run()
    assert [rows for _, rows, _ in case.asked] == [[0, 1], [2, 3], [4, 5], [6, 7], [8]] and case.ray.killed == [0, 1]
    assert capsys.readouterr().err == "t/infer: a worker of the cluster is gone; its batch is asked again\n"


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("answer", "3 workers of the cluster ended at the batch of samples s2, s3; the last: gone"),
        ("open", "3 workers of the cluster ended before they could begin; the last: gone"),
        ("missing", "3 workers of the cluster ended before they could begin; the last: gone"),
    ],
)
def test_a_batch_takes_three_workers_with_it_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, message: str) -> None:
    def work(worker: int, called: str, handed: Any) -> Any:
        suspect = called == method and (method != "answer" or handed[0].places[0].row == 2)
        return RayError("gone") if suspect else case.reply(worker, called, handed)

    case = Stage9(tmp_path, monkeypatch, SmallRay(1, work, seconds=2.0))
    with pytest.raises(StageError) as caught:
        case.run()
    assert str(caught.value) == message and len(case.ray.options) == 3 and case.ray.killed == [0, 1, 2]
    assert [rows for _, rows, _ in case.asked] == ([[0, 1]] if method == "answer" else [])


def test_one_that_opens_clears_those_that_could_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two end before they begin, one at its first batch, then two more before they begin: no cause has ended three."""

    def work(worker: int, method: str, handed: Any) -> Any:
        ends = {0: "open", 1: "missing", 2: "answer", 3: "open", 4: "open"}.get(worker) == method
        return RayError("gone") if ends else case.reply(worker, method, handed)

    case = Stage9(tmp_path, monkeypatch, SmallRay(1, work, seconds=2.0))
    case.run()
    assert case.texts() == [f"{row}" for row in range(9)] and len(case.ray.options) == 6


@pytest.mark.parametrize(("seconds", "looks"), [(1.0, 4), (1.5, 7)])
def test_a_cluster_is_looked_at_for_more_room_after_more_than_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, looks: int
) -> None:
    """One worker is called seven times; one more look is taken as the stage begins."""
    case = Stage9(tmp_path, monkeypatch, SmallRay(1, lambda *call: case.reply(*call), seconds=seconds))
    case.run()
    assert case.ray.looked == 1 + looks


def test_nobody_is_told_where_one_of_two_workers_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first opens after 30.3 seconds, the second after 40.4."""
    case = Stage9(tmp_path, monkeypatch, SmallRay(2, lambda *call: case.reply(*call), seconds=10.1))
    case.run()
    assert len(case.ray.options) == 2 and not capsys.readouterr().err


@pytest.mark.parametrize(("late", "notes"), [(2, 0), (3, 1), (9, 1)])
def test_a_person_is_told_once_that_no_worker_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], late: int, notes: int
) -> None:
    """After half a minute: with looks ten seconds apart, at the fourth."""
    case = Stage9(tmp_path, monkeypatch, SmallRay(0.5, lambda *call: case.reply(*call), seconds=10.0, late=late))
    case.run()
    assert capsys.readouterr().err == "t/infer: waiting for a worker with 1 CPU\n" * notes
    assert len(case.ray.options) == 1, "one at least, which may have to wait for its machine"


def test_one_worker_asks_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(SimpleNamespace(key="", price=None, batch=False))
    served.digest = "m"
    ray = SmallRay(8, lambda *call: case.reply(*call))
    case = Stage9(tmp_path, monkeypatch, ray, served)
    case.run()
    assert [resources["num_cpus"] for resources in ray.options] == [0.1]


@pytest.mark.parametrize(("concurrency", "sizes"), [(3, [8, 8, 4, 1]), (5, [10, 10, 1])])
def test_a_server_is_asked_in_shards_of_two_rounds_or_eight(concurrency: int, sizes: list[int]) -> None:
    asker = SimpleNamespace(model=Served(SimpleNamespace(concurrency=concurrency)))
    tasks = [AnswerTask(SampleVariant(Place(0, i, 0, b""), 0, "", 0, ""), ("draw 1",) if i == 3 else ("answer",)) for i in range(21)]
    shards = driver.server_shards(asker, tasks)
    assert [len(shard.places) for shard in shards] == sizes and shards[-1] == Batch(("draw 1",), (Place(0, 3, 0, b""),))


def test_errors_of_a_workers_own_and_what_would_answer_otherwise_stop_the_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for error, words in (
        (StageError("no weights"), "on a worker of the cluster: no weights"),
        (KeyError("x"), "on a worker of the cluster: 'x'"),
    ):
        failing = SmallRay(1, lambda worker, method, handed, error=error: RayTaskError(error) if method == "open" else ["d1"])
        case = Stage9(tmp_path, monkeypatch, failing)
        with pytest.raises(StageError) as caught:
            case.run()
        assert str(caught.value) == words and failing.killed == [0]
    for name in FACTS:
        other = SmallRay(1, lambda worker, method, handed, name=name: {**FACTS, name: "x"} if method == "open" else ["d1"])
        case = Stage9(tmp_path, monkeypatch, other)
        with pytest.raises(StageError, match=f"a worker of the cluster has other {name}: x; here "):
            case.run()


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
    keep, compare = driver.Answering._keep, driver.Answering._check_identity

    def kill_the_first_node(self: Any, number: int, answers: Any) -> int:
        batches.append(number)
        done = keep(self, number, answers)
        if len(batches) == 2:
            joined(cluster)  # late
            killed(cluster, cluster.workers[0])
        return done

    monkeypatch.setattr(driver.Answering, "_keep", kill_the_first_node)
    monkeypatch.setattr(driver.Answering, "_check_identity", lambda self, facts: (opened.append(facts), compare(self, facts)))
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
    compare = driver.Answering._check_identity
    monkeypatch.setattr(driver.Answering, "_check_identity", lambda self, facts: compare(self, {**facts, "libraries": {"torch": "1.0"}}))
    with pytest.raises(StageError, match=r"a worker of the cluster has other libraries: \{'torch': '1.0'\}; here .*; install the same"):
        infer(project, "refused", cluster=cluster.address)


@pytest.fixture
def joined_with(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """With what Ray is told to join a cluster."""
    told: list[dict[str, Any]] = []
    ray = SimpleNamespace(is_initialized=lambda: bool(told), init=lambda **how: told.append(how))
    monkeypatch.setitem(sys.modules, "ray", ray)
    return told


def test_ray_joins_a_cluster_once_and_says_little(joined_with: list[dict[str, Any]]) -> None:
    for address in (driver.HERE, "auto"):
        joined_with.clear()
        assert driver.connect_ray(Settings(cluster=address)) is driver.connect_ray(Settings(cluster=address)) is sys.modules["ray"]
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        assert joined_with == [{"address": None if address == driver.HERE else address, **quiet}]


def test_a_cluster_that_is_not_there(joined_with: list[dict[str, Any]]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        address = f"ray://127.0.0.1:{there.getsockname()[1]}"
        driver.connect_ray(Settings(cluster=address))
    assert [how["address"] for how in joined_with] == [address]
    joined_with.clear()
    for address in ("127.0.0.1:9", "ray://127.0.0.1:9"):
        with pytest.raises(StageError, match=rf"cluster = '{address}': Ray cannot be reached: .*refused"):
            driver.connect_ray(Settings(cluster=address))
    assert not joined_with
