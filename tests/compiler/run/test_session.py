"""DVC as `qualm run` drives it: what is shown, repaired and recorded. Small shell stages and DVC itself."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
import zc.lockfile

from qualm.compiler.run.session import ParallelStages, Session, visible_gpus
from qualm.registry.system.console import Console
from qualm.registry.system.dvc_files import read_lock
from qualm.registry.system.dvc_objects import object_path

PYTHON = sys.executable
ONE, MANY = "results/m/one.txt", "results/m/many"
STAGES: dict[str, dict[str, Any]] = {
    "one": {"cmd": f"mkdir -p results/m && cp in.txt {ONE}", "deps": ["in.txt"], "outs": [ONE]},
    "many": {"cmd": f"mkdir -p {MANY} && cp {ONE} {MANY}/a && cp {ONE} {MANY}/b && echo x >> {MANY}/b", "deps": [ONE], "outs": [MANY]},
}
pytestmark = pytest.mark.usefixtures("forked_python")

DAMAGED = """echo '{"event": "damaged", "path": "results/m/one.txt", "aside": "a"}' >> "$QUALM_STATUS_FILE\""""


def repro(
    root: Path, *options: str, jobs: int = 1, gpus: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
) -> tuple[int, list[dict[str, Any]], Session]:
    """Run the pipeline of a folder; return the exit status, the events and the session."""
    stages = yaml.safe_load((root / "dvc.yaml").read_text())["stages"]
    parallel = None
    if jobs > 1:
        planned = {
            f"dvc.yaml:{n}": SimpleNamespace(outs=tuple(s["outs"]), deps=tuple(s.get("deps", ()))) for n, s in stages.items() if n != "spec"
        }
        parallel = ParallelStages(planned, jobs, gpus)  # type: ignore[arg-type]
    outputs = {name: tuple(stage["outs"]) for name, stage in stages.items()}
    base = {**os.environ, "DVC_NO_ANALYTICS": "true", **(environment or {})}
    with Session(root, base, Console(file=StringIO()), outputs, verbose=False) as session:
        code = session.reproduce("dvc.yaml", options, parallel)
    return code, [json.loads(line) for line in (root / ".qualm/logs/run.events").read_text().splitlines()], session


def told(events: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [tuple(str(e[k]) for k in ("event", "stage", "how", "path") if k in e) for e in events if e["event"] != "output"]


def ran(stage: str, how: str) -> list[tuple[str, ...]]:
    return [("begin", stage), ("end", stage, how)]


def make_pipeline(root: Path, stages: Mapping[str, Any]) -> Path:
    (root / ".dvc").mkdir(parents=True)
    (root / ".dvc/config").write_text("[core]\n    analytics = false\n")
    (root / ".dvcignore").write_text(".qualm/\n")
    spec = {"cmd": "touch compiled", "deps": ["in.txt"], "outs": ["compiled"]}
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"spec": spec, **stages}}, sort_keys=False))
    (root / "in.txt").write_text("in\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_pipeline(tmp_path_factory.mktemp("repro") / "root", STAGES)
    code, events, _ = repro(root)
    assert (code, told(events)) == (0, ran("one", "ran") + ran("many", "ran"))
    return root


@pytest.fixture
def root(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "copy", symlinks=True)
    return tmp_path / "copy"


def cached(root: Path, stage: str) -> Path:
    return object_path(root / ".dvc/cache", read_lock(root / "dvc.lock")[stage]["outs"][0]["md5"])


def spoil(file: Path) -> None:
    """Write other bytes, read-only as DVC trusts them."""
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.chmod(0o644)
    file.write_bytes(data)
    file.chmod(0o444)


@pytest.mark.slow
def test_nothing_is_done_twice(root: Path) -> None:
    before = (root / "dvc.lock").read_bytes()
    code, events, _ = repro(root)
    assert (code, told(events)) == (0, ran("one", "unchanged") + ran("many", "unchanged"))
    assert (root / "dvc.lock").read_bytes() == before
    assert "Data and pipelines are up to date" in (root / ".qualm/logs/run.dvc.log").read_text()


def test_an_output_is_restored_from_the_cache(root: Path) -> None:
    (root / ONE).unlink()
    shutil.rmtree(root / MANY)
    code, events, _ = repro(root)
    assert (code, told(events)) == (0, ran("one", "restored") + ran("many", "restored"))
    assert (root / MANY / "b").read_text() == "in\nx\n"


def test_a_stage_whose_input_changed_runs(root: Path) -> None:
    (root / "in.txt").write_text("other\n")
    code, events, _ = repro(root)
    assert (code, told(events)) == (0, ran("one", "ran") + ran("many", "ran")) and (root / MANY / "a").read_text() == "other\n"


@pytest.mark.slow
def test_a_damaged_object_is_set_aside_and_made_again(root: Path) -> None:
    spoil(cached(root, "one"))
    (root / ONE).unlink()
    code, events, _ = repro(root)
    assert code == 0 and [e["aside"] for e in events if e["event"] == "damaged"] == [".qualm/damaged/results__m__one.txt"]
    assert told(events)[-4:] == ran("one", "ran") + ran("many", "unchanged")
    assert (root / ONE).read_text() == "in\n" == cached(root, "one").read_text()
    assert (root / ".qualm/damaged/results__m__one.txt/one.txt").is_file()


def test_a_damaged_list_of_a_folder_restores_nothing(root: Path) -> None:
    listed = cached(root, "many")
    text = listed.read_text()
    listed.chmod(0o644)
    listed.write_text(text.replace('"a"', '"c"'))
    listed.chmod(0o444)
    shutil.rmtree(root / MANY)
    code, events, _ = repro(root)
    assert code == 0 and told(events)[-1] == ("end", "many", "ran") and {f.name for f in (root / MANY).iterdir()} == {"a", "b"}


@pytest.mark.slow
def test_a_damaged_file_of_a_folder_is_made_again(root: Path) -> None:
    spoil(object_path(root / ".dvc/cache", hashlib.md5(b"in\nx\n", usedforsecurity=False).hexdigest()))
    shutil.rmtree(root / MANY)
    code, events, _ = repro(root)
    assert code == 0 and ("damaged", MANY) in told(events) and told(events)[-1] == ("end", "many", "ran")
    assert (root / MANY / "b").read_text() == "in\nx\n"


@pytest.mark.slow
def test_a_damaged_input_that_a_stage_reports_is_made_again(root: Path) -> None:
    find = f"test -e seen || {{ touch seen; rm {ONE}; {DAMAGED}; false; }}"
    stages = STAGES | {"many": {**STAGES["many"], "cmd": f"{find} && {STAGES['many']['cmd']}"}}
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    code, events, _ = repro(root)
    assert code == 0 and told(events).count(("damaged", ONE)) == 1 and ("failed", "many") in told(events)
    assert told(events)[-4:] == ran("one", "restored") + ran("many", "ran")


@pytest.mark.slow
def test_damage_that_does_not_end_gives_up(root: Path) -> None:
    stages = STAGES | {"many": {**STAGES["many"], "cmd": f"{DAMAGED}; false"}}
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    code, events, _ = repro(root)
    assert code != 0 and told(events).count(("damaged", ONE)) == 5


@pytest.mark.slow
def test_what_neither_cache_nor_remote_holds_is_made_again(root: Path) -> None:
    """As `dvc gc`, or a disk that was full when outputs went into the cache, leaves it."""
    (root / "remote").mkdir()
    with (root / ".dvc/config").open("a") as config:
        config.write("    remote = r\n['remote \"r\"']\n    url = ../remote\n")
    cached(root, "one").unlink()
    (root / ONE).unlink()
    code, events, _ = repro(root)
    assert code == 0 and ("end", "one", "ran") in told(events) and cached(root, "one").read_text() == "in\n"


def test_a_failed_stage_is_named_with_dvcs_error(root: Path) -> None:
    stages = {**STAGES, "one": {**STAGES["one"], "cmd": "echo no; false"}}
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    code, events, session = repro(root)
    assert code != 0 and not session.is_locked and told(events) == [("begin", "one"), ("failed", "one"), ("error",)]
    assert "failed to reproduce 'one': failed to run: echo no; false" in events[-1]["error"]
    assert "no" in (root / ".qualm/logs/run.stages.log").read_text()


def test_an_interrupted_stage_has_not_failed(root: Path) -> None:
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": {**STAGES, "one": {**STAGES["one"], "cmd": "exit 130"}}}))
    assert ("interrupted", "one") in told(repro(root)[1])


@pytest.mark.slow
def test_another_dvc_at_work(root: Path) -> None:
    (root / "in.txt").write_text("other\n")
    lock = zc.lockfile.LockFile(str(root / ".dvc/tmp/lock"))
    try:
        code, events, session = repro(root)
    finally:
        lock.close()
    assert code != 0 and session.is_locked and told(events) == []


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


def test_a_path_that_another_dvc_uses(root: Path, sleeper: subprocess.Popen[bytes]) -> None:
    (root / "in.txt").write_text("other\n")
    file = root / ".dvc/tmp/rwlock"
    file.write_text(json.dumps({"write": {str(root / ONE): {"pid": sleeper.pid, "cmd": "dvc repro"}}}))
    code, _, session = repro(root)
    assert code != 0 and session.is_locked
    assert json.loads(file.read_text())["write"][str(root / ONE)]["pid"] == sleeper.pid


@pytest.mark.slow
def test_tracked_data_is_fetched(root: Path) -> None:
    with (root / ".dvc/config").open("a") as config:
        config.write("    remote = r\n['remote \"r\"']\n    url = ../remote\n")
    (root / "data").write_text("some\n")
    for command in (["add", "-q", "data"], ["push", "-q", "data.dvc"]):
        subprocess.run([sys.executable, "-m", "dvc", *command], cwd=root, check=True)
    (root / "data").unlink()
    shutil.rmtree(root / ".dvc/cache")
    with Session(root, {**os.environ, "DVC_NO_ANALYTICS": "true"}, Console(file=StringIO()), {}, verbose=False) as session:
        assert session.fetch(["data"]) == 0 and session.fetch(["gone"]) != 0
    assert (root / "data").read_text() == "some\n"
    told_events = [json.loads(line) for line in (root / ".qualm/logs/run.events").read_text().splitlines()]
    assert told(told_events)[:2] == ran("data.dvc", "fetched")


# Parallel stages.

WAIT = "n=0; until {condition}; do n=$((n+1)); [ $n -lt 1000 ] || exit 7; sleep 0.02; done"
MEET = "touch here-{me}; " + WAIT.format(condition="test -e here-{other}")
"""Succeeds only if the other stage runs at the same time."""


def stage(command: str, out: str, *deps: str) -> dict[str, Any]:
    return {"cmd": command, "deps": [*deps], "outs": [out]}


def diamond(first: str = "true", second: str = "true") -> dict[str, dict[str, Any]]:
    return {
        "left": stage(f"{first} && echo 1 > left.txt", "left.txt", "in.txt"),
        "right": stage(f"{second} && echo 2 > right.txt", "right.txt", "in.txt"),
        "both": stage("cat left.txt right.txt > both.txt", "both.txt", "left.txt", "right.txt"),
    }


def outcomes(events: list[dict[str, Any]]) -> dict[str, str]:
    return {e["stage"]: e.get("how", e["event"]) for e in events if e["event"] in ("end", "failed", "interrupted")}


@pytest.mark.slow
def test_independent_stages_run_at_the_same_time(tmp_path: Path) -> None:
    stages = diamond(MEET.format(me="left", other="right"), MEET.format(me="right", other="left"))
    root = make_pipeline(tmp_path / "parallel", stages)
    code, events, _ = repro(root, jobs=2)
    assert code == 0 and (root / "both.txt").read_text() == "1\n2\n"
    made = [e["stage"] for e in events if e["event"] == "end" and e["how"] == "ran"]
    assert sorted(made) == ["both", "left", "right"] and made[-1] == "both"
    alone = make_pipeline(tmp_path / "alone", stages)
    for name in ("here-left", "here-right"):
        (alone / name).touch()
    assert repro(alone)[0] == 0
    assert yaml.safe_load((root / "dvc.lock").read_text()) == yaml.safe_load((alone / "dvc.lock").read_text())


@pytest.mark.slow
def test_after_a_failure_nothing_more_begins_and_finished_stages_are_kept(tmp_path: Path) -> None:
    begun, failed = "test -e right-begun", "grep -q '\"failed\"' .qualm/logs/run.events"
    left, right = f"{WAIT.format(condition=begun)}; false", f"touch right-begun; {WAIT.format(condition=failed)}"
    stages = {**diamond(left, right), "third": stage("touch third.txt", "third.txt", "right.txt")}
    root = make_pipeline(tmp_path / "root", stages)
    code, events, _ = repro(root, jobs=2)
    assert code != 0 and outcomes(events) == {"left": "failed", "right": "ran"} and not (root / "third.txt").exists()
    (root / "dvc.yaml").write_text((root / "dvc.yaml").read_text().replace("; false", ""))
    code, events, _ = repro(root, jobs=2)
    assert code == 0 and (root / "both.txt").exists() and outcomes(events)["right"] == "unchanged"


@pytest.mark.slow
def test_keep_going_leaves_out_what_depends_on_a_failure(tmp_path: Path) -> None:
    stages = {**diamond("false"), "third": stage("touch third.txt", "third.txt", "right.txt")}
    root = make_pipeline(tmp_path / "root", stages)
    code, events, _ = repro(root, "--keep-going", jobs=2)
    assert code != 0 and outcomes(events) == {"left": "failed", "right": "ran", "third": "ran"} and not (root / "both.txt").exists()


@pytest.mark.slow
def test_each_parallel_stage_has_a_gpu_and_a_file_for_its_output(tmp_path: Path) -> None:
    def meeting(me: str, other: str) -> dict[str, Any]:
        return stage(f"{MEET.format(me=me, other=other)}; echo word of {me}; echo $CUDA_VISIBLE_DEVICES > {me}.txt", f"{me}.txt", "in.txt")

    root = make_pipeline(tmp_path / "root", {"a": meeting("a", "b"), "b": meeting("b", "a")})
    code, events, _ = repro(root, jobs=2, gpus=("3", "5"))
    assert code == 0 and sorted((root / f"{name}.txt").read_text() for name in "ab") == ["3\n", "5\n"]
    assert {e["stage"]: Path(e["path"]).read_text() for e in events if e["event"] == "output"} == {"a": "word of a\n", "b": "word of b\n"}


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [("0,1", ["0", "1"]), (" 2 ,, 0", ["2", "0"]), ("", []), ("GPU-a", ["GPU-a"]), ("-1", []), ("1,-1,0", ["1"])],
)
def test_visible_gpus(monkeypatch: pytest.MonkeyPatch, visible: str, gpus: list[str]) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert visible_gpus() == gpus


# Signals.


@pytest.fixture
def heeded_signals() -> Iterator[None]:
    """Set signals as on a terminal: tests that run in the background, or below nohup, have them ignored."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def unforked_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start processes that signals reach, and that are below this one."""
    monkeypatch.setattr(sys, "executable", PYTHON)


@pytest.mark.usefixtures("unforked_python", "heeded_signals")
@pytest.mark.parametrize(
    ("jobs", "numbers"),
    [
        pytest.param(1, (signal.SIGINT,), marks=pytest.mark.slow),
        (1, (signal.SIGTERM,)),
        pytest.param(1, (signal.SIGHUP,), marks=pytest.mark.slow),  # handled in one place with SIGTERM
        pytest.param(1, (signal.SIGINT, signal.SIGINT), marks=pytest.mark.slow),
        (2, (signal.SIGINT,)),
    ],
)
def test_a_signal_ends_dvc_and_its_stage(tmp_path: Path, numbers: tuple[int, ...], jobs: int) -> None:
    """The stage ignores nothing; a second Ctrl-C comes while the first is at work."""
    root = make_pipeline(tmp_path / "root", diamond("echo $$ > pid; sleep 100", "true"))

    def send() -> None:
        while not (root / "pid").exists():
            time.sleep(0.05)
        for number in numbers:
            if ended.is_set():  # the handlers of the run are gone, and the signal would end the tests
                return
            os.kill(os.getpid(), number)
            ended.wait(0.3)

    ended = threading.Event()
    sender = threading.Thread(target=send)
    sender.start()
    code, events, session = repro(root, jobs=jobs)
    ended.set()
    sender.join()
    assert session.is_interrupted and code != 0 and not (root / "both.txt").exists()
    assert "both" not in outcomes(events)
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_an_ignored_signal_stays_ignored(root: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        code, _, session = repro(root)
        assert code == 0 and not session.is_interrupted and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
