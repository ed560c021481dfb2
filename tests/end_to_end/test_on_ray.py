"""`qualm run --on` a real Ray cluster of two worker nodes on this machine, whose models are behind a slow server.

A node is killed, then the run itself; the next run ends with the bytes of a run without a cluster.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.clone import Clone, make_clone
from tests.end_to_end.test_side_by_side import answer, made
from tests.support.processes.ray_cluster import killed, ray_cluster
from tests.support.servers.small_server import Server, serving

pytestmark = pytest.mark.slow
pytest.importorskip("ray")

MODELS, SAMPLES = ("m1", "m2"), 24
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


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(answer) as server:
        yield server


@pytest.fixture
def cluster() -> Iterator[Any]:
    with ray_cluster(2) as cluster:
        yield cluster


def reach(server: Server, count: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while len(server.bodies) < count:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)


def test_killed_workers_and_a_killed_run_end_with_the_bytes_of_a_run_here(cluster: Any, server: Server, tmp_path: Path) -> None:
    fresh = make_clone(tmp_path / "fresh", text=SPEC, forked=True)
    (fresh.root / "qualm.toml").write_text(f'[servers."http://lab/v1"]\naddress = "{server.url}"\nconcurrency = 2\nretries = 0\n')
    alone = fresh.copy(tmp_path / "alone")
    alone.qualm("run", "--jobs", "2")
    truth = made(alone)
    server.bodies.clear()

    clone = Clone(fresh.copy(tmp_path / "together").root)
    command = [clone.python, "-m", "qualm", "run", "--jobs", "2", "--on", cluster.address]
    outlet = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True}
    process = subprocess.Popen(command, cwd=clone.root, env=clone.environment(), **outlet)
    reach(server, 10, process)
    killed(cluster, cluster.workers[0])
    reach(server, 30, process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    done = clone.qualm(*command[3:])
    assert "up to date" in done.stdout
    assert made(clone) == truth and "up to date" in clone.dvc("status").stdout
    asked = len(MODELS) * SAMPLES
    batch = 8  # of a server of this concurrency
    assert asked <= len(server.bodies) <= asked + 4 * batch  # two stages lost a worker and their run: a batch each time
    # one of the two may have been through when the run was killed, and has not begun again
    assert any(clone.counters(f"infer-{model}-scenes")["answers stored"] for model in MODELS)
