"""`qualm run --jobs N` with real stages that ask a slow server: at the same time, with the bytes of a run one by one, also after kills."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.clone import Clone, make_clone
from tests.support.servers.small_server import Server, completion, serving

pytestmark = pytest.mark.slow

MODELS, SAMPLES = ("m1", "m2", "m3", "m4"), 6
SPEC = f"""\
qualm: 1
name: mini
datasets:
  scenes: {{card: synthetic_scenes, level: easy, format: open, test: {SAMPLES}}}
models:
{"".join(f'  {name}: {{openai: {{model: {name}, base_url: "http://lab/v1"}}}}' + chr(10) for name in MODELS)}\
inference: {{max_new_tokens: 4}}
judges: [rules]
metrics: [accuracy]
compare: {{interval: {{bootstrap: 20}}}}
"""


def answer(body: dict, nth: int) -> tuple[int, str, dict]:  # type: ignore[type-arg]
    """The same for the same question, after a while."""
    time.sleep(0.6)
    digest = hashlib.sha256(json.dumps([body["model"], body["messages"]]).encode()).hexdigest()
    return 200, completion(("yes", "no", "red")[int(digest, 16) % 3]), {}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(answer) as server:
        yield server


@pytest.fixture(scope="module")
def fresh(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    clone = make_clone(tmp_path_factory.mktemp("jobs") / "clone", text=SPEC, forked=True)
    settings = f'[servers."http://lab/v1"]\naddress = "{server.url}"\nconcurrency = 1\nretries = 0\n'
    settings += "price = {input = 1.0, output = 1.0}\nmax_spend = 1.0\n"
    (clone.root / "qualm.toml").write_text(settings)
    return clone


@pytest.fixture(scope="module")
def alone(fresh: Clone, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a run one by one makes."""
    clone = fresh.copy(tmp_path_factory.mktemp("alone") / "clone")
    clone.qualm("run")
    return made(clone)


def made(clone: Clone) -> dict[str, bytes]:
    """Locks and results, and what git would be told to ignore."""
    files = [clone.root / "dvc.lock", *(clone.root / "specs").rglob("dvc.lock"), *(clone.root / "results").rglob("*")]
    files += [*clone.root.glob("**/.gitignore")]
    return {f.relative_to(clone.root).as_posix(): f.read_bytes() for f in sorted(files) if f.is_file() and ".venv" not in f.parts}


def test_the_bytes_are_those_of_a_run_one_by_one(fresh: Clone, alone: dict[str, bytes], server: Server, tmp_path: Path) -> None:
    clone = fresh.copy(tmp_path / "clone")
    server.most, before = 0, len(server.bodies)
    done = clone.qualm("run", "--jobs", "4")
    assert server.most >= 3 and len(server.bodies) - before == len(MODELS) * SAMPLES  # one at a time of each stage
    assert {line.split("] ")[1].split(":")[0] for line in done.stdout.splitlines() if "infer-" in line} == {
        f"infer-{name}-scenes" for name in MODELS
    }
    assert made(clone) == alone and "dvc.lock" in alone
    assert "up to date" in clone.dvc("status").stdout and set(clone.forecast().values()) == {"unchanged"}
    ledger = [json.loads(line) for line in (clone.root / ".qualm/spending/mini.jsonl").read_text().splitlines()]
    assert sum("settle" in line for line in ledger) == len(MODELS) * SAMPLES  # all of them by one limit


@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_what_is_stopped_goes_on_and_ends_with_the_same_bytes(
    fresh: Clone, alone: dict[str, bytes], server: Server, tmp_path: Path, name: str
) -> None:
    before = len(server.bodies)
    clone = Clone(fresh.copy(tmp_path / "clone").root, forked=name == "SIGKILL")  # forks would not get a terminal's Ctrl-C
    command = [clone.python, "-m", "qualm", "run", "--jobs", "4"]
    outlet = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True}
    process = subprocess.Popen(command, cwd=clone.root, env=clone.environment(), **outlet)
    deadline = time.monotonic() + 120
    while len(server.bodies) - before < 10:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    if name == "SIGKILL":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGKILL if name == "SIGKILL" else 130)
    if name == "SIGINT":
        assert "interrupted; what was done is kept: run it again to go on" in output.splitlines()[-1]
        assert "infer-m1-scenes: interrupted (" in output and "failed" not in output
        answers = {s["stage"]: s["answers"] for s in json.loads(clone.qualm("plan", "--json").stdout) if s["kind"] == "infer"}
        stored = [entry["kept"].get("answers", 0) for entry in answers.values()]
        assert sum(stored) + len(MODELS) >= 10 and all(
            n + entry["to_compute_at_most"]["answers"] == SAMPLES for n, entry in zip(stored, answers.values(), strict=True)
        )
    clone.qualm("run", "--jobs", "4")
    assert made(clone) == alone
    again = len(server.bodies) - before - len(MODELS) * SAMPLES
    assert 0 <= again <= len(MODELS)  # what was on its way
    assert "up to date" in clone.dvc("status").stdout


def test_a_run_that_is_killed_at_its_start_leaves_nothing_running(fresh: Clone, server: Server, tmp_path: Path) -> None:
    clone = Clone(fresh.copy(tmp_path / "clone").root)
    command = [clone.python, "-m", "qualm", "run", "--force"]
    for seconds in (0.3, 0.7, 1.1, 1.5, 2.0, 2.5, 3.5):
        process = subprocess.Popen(command, cwd=clone.root, env=clone.environment(), stdout=subprocess.DEVNULL, start_new_session=True)
        time.sleep(seconds)
        process.kill()
        process.wait()
        deadline = time.monotonic() + 30
        while left := [p for p in psutil.process_iter(["cwd"]) if p.info["cwd"] == str(clone.root)]:
            assert time.monotonic() < deadline, [p.cmdline() for p in left]
            time.sleep(0.1)
        asked = len(server.bodies)
        time.sleep(0.5)
        assert len(server.bodies) == asked


def test_a_stage_that_fails_is_named_and_the_others_are_kept(fresh: Clone, tmp_path: Path) -> None:
    clone = fresh.copy(tmp_path / "clone")
    spec = clone.spec.read_text()
    clone.spec.write_text(spec.replace('{model: m2, base_url: "http://lab/v1"}', '{model: m2, base_url: "http://127.0.0.1:9/v1"}'))
    (clone.root / "qualm.toml").write_text((clone.root / "qualm.toml").read_text() + "[servers.default]\nretries = 0\npause = 0.01\n")
    done = clone.qualm("run", "--jobs", "4", check=False)
    assert done.returncode == 1 and "infer-m2-scenes: failed" in done.stdout
    assert "] infer-m2-scenes: qualm: stage mini/infer-m2-scenes: " in done.stdout
    actions = clone.forecast()
    assert [actions[f"infer-{name}-scenes"] for name in MODELS] == ["unchanged", "run", "unchanged", "unchanged"]
