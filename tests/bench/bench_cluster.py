"""Work side by side, in seconds of the clock: `--jobs` against one by one, a cluster whose worker and run are killed, the cost of a shard.

`python tests/bench/bench_cluster.py jobs [SAMPLES]`: eight inference stages against a server of 0.2 s a reply, `--jobs 8` and 1.
`python tests/bench/bench_cluster.py cluster [SAMPLES]`: twelve of them on a Ray cluster of four worker nodes on this machine.
`python tests/bench/bench_cluster.py shards [SHARDS]`: batches of one question to a model that answers at once, on one worker and here.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import chdir
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.end_to_end.clone import Clone, make_clone
from tests.end_to_end.test_side_by_side import answer, made
from tests.support.processes.ray_cluster import killed, ray_cluster
from tests.support.servers.small_server import Server, serving

HEAD = "qualm: 1\nname: mini\ndatasets:\n  scenes: {{card: synthetic_scenes, level: easy, format: open, test: {samples}}}\nmodels:\n"
TAIL = "inference: {max_new_tokens: 4}\njudges: [rules]\nmetrics: [accuracy]\ncompare: {interval: {bootstrap: 20}}\n"
PARROT = '''\
"""Says yes at once."""

import torch

from qualm.runners.contracts.models import Encoded, Part


class Parrot:
    digest, facts = "0" * 64, {}

    def render(self, messages):
        return str(messages)

    def encode(self, requests):
        return Encoded({})

    def load(self):
        return torch.nn.Identity()

    def answer(self, encoded, decoding):
        return [{part: Part("yes", [1]) for part in request.parts} for request in encoded.requests]


GIVES = ["text"]


def parrot(context):
    return Parrot()
'''


def clone_of(folder: Path, server: Server, models: int, samples: int) -> Clone:
    lines = "".join(f'  m{n}: {{openai: {{model: m{n}, base_url: "http://lab/v1"}}}}\n' for n in range(models))
    clone = make_clone(folder / "fresh", text=HEAD.format(samples=samples) + lines + TAIL)
    (clone.root / "qualm.toml").write_text(f'[servers."http://lab/v1"]\naddress = "{server.url}"\nconcurrency = 1\n')
    clone.dvc("repro", "data-scenes")
    return clone


def run_command(clone: Clone, jobs: int, cluster: str = "") -> list[str]:
    return [str(clone.python), "-m", "qualm", "run", "--jobs", str(jobs), *(["--on", cluster] if cluster else [])]


def run_all(clone: Clone, jobs: int, cluster: str = "") -> float:
    """Return the seconds of a whole `qualm run`."""
    start = time.monotonic()
    subprocess.run(run_command(clone, jobs, cluster), cwd=clone.root, env=clone.environment(), capture_output=True, check=True)
    return time.monotonic() - start


def processor() -> float:
    """Seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def jobs(samples: int = 100) -> None:
    with tempfile.TemporaryDirectory() as folder, serving(answer) as server:
        fresh = clone_of(Path(folder), server, 8, samples)
        print(f"8 stages of {samples} questions, {8 * samples * 0.2:.0f} s of waiting")
        truth: dict[str, bytes] = {}
        for number in (8, 1):
            clone = fresh.copy(Path(folder) / f"jobs-{number}")
            before = processor()
            seconds = run_all(clone, number)
            truth = truth or made(clone)
            same = "equal" if truth == made(clone) else "DIFFER"
            print(f"--jobs {number}: {seconds:.1f} s, {processor() - before:.1f} s of CPU; bytes {same}; {load()}", flush=True)


def cluster(samples: int = 30) -> None:
    with tempfile.TemporaryDirectory() as folder, serving(answer) as server:
        fresh = clone_of(Path(folder), server, 12, samples)
        alone = fresh.copy(Path(folder) / "alone")
        run_all(alone, 12)
        server.bodies.clear()
        asked = 12 * samples
        with ray_cluster(4) as nodes:
            clone = fresh.copy(Path(folder) / "together")
            start = time.monotonic()
            run: Any = subprocess.Popen(run_command(clone, 12, nodes.address), cwd=clone.root, env=clone.environment())
            reach(server, run, asked // 4)
            killed(nodes, nodes.workers[0])
            reach(server, run, asked // 2)
            run.kill()
            run.wait()
            first = time.monotonic() - start
            second = run_all(clone, 12, nodes.address)
        same = "equal" if made(clone) == made(alone) else "DIFFER"
        print(f"12 stages of {samples} questions, {asked * 0.2:.0f} s of waiting, 4 nodes: {first:.1f} s to half of the answers, ", end="")
        print(f"where the run is killed after a node, {second:.1f} s to the end; {len(server.bodies) - asked} asked again; bytes {same}")


def reach(server: Server, run: Any, count: int) -> None:
    while len(server.bodies) < count:
        assert run.poll() is None, "the run has ended"
        time.sleep(0.05)


def shards(count: int = 1000) -> None:
    """A project whose own model answers at once, one question a batch."""
    from qualm.compiler.project.checkout import Project
    from qualm.runners.contracts.stages import stage_kind
    from qualm.runners.inference import driver
    from qualm.runners.runtime.settings import Settings
    from qualm.runners.runtime.stage import read_stage

    with tempfile.TemporaryDirectory() as folder, chdir(folder), ray_cluster(1) as nodes:
        root = Path(folder)
        for place in ("specs", ".dvc", "registry/data", "runners/plugins/models"):
            (root / place).mkdir(parents=True)
        (root / "params.yaml").write_text("default: mini\n")
        (root / "runners/plugins/models/parrot.py").write_text(PARROT)
        (root / "specs/mini.yaml").write_text(HEAD.format(samples=count) + "  m: {parrot: {}}\n" + TAIL)
        subprocess.run(["git", "init", "-q"], check=True)
        Project().compile()
        moments: list[float] = []
        keep = driver.Answering._keep

        def noted(self: Any, *more: Any) -> int:
            moments.append(time.monotonic())
            return keep(self, *more)

        driver.Answering._keep = noted  # type: ignore[method-assign]
        for address, name in (("", "data-scenes"), (nodes.address, "infer-m-scenes")):
            settings = Settings(device="cpu", batch_size=1, progress=False, cluster=address)
            stage = read_stage(f"mini/{name}", settings)
            start = time.monotonic()
            stage_kind(stage.kind).run()(stage)
        each = (moments[-1] - moments[0]) / (len(moments) - 1)
        print(f"{len(moments):,} shards on one worker: {moments[0] - start:.1f} s to the first, then {each * 1000:.1f} ms each")


def load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    {"jobs": jobs, "cluster": cluster, "shards": shards}[sys.argv[1]](*map(int, sys.argv[2:]))
