"""Inference of one stage by the workers of a Ray cluster: planned and stored here, computed there, batch by batch.

A shard is one planned batch, so the answers equal those of a local run. Workers are Ray actors, one for each share of the resources that
the stage needs, more as machines join. If one dies, its batches go to others; if this process dies, stored answers remain and the next run
resumes.
"""

from __future__ import annotations

import hashlib
import io
import logging
import math
import os
import pickle
import re
import socket
import sys
import time
import zipfile
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import qualm
from qualm.registry.places import is_checkout, project_root
from qualm.registry.plugins.registry import KINDS, PROMPTS
from qualm.runners.contracts.models import Remote, internal_of
from qualm.runners.data.segments import parse_segment
from qualm.runners.inference import node
from qualm.runners.inference.batch_plan import AnswerTask, Batch
from qualm.runners.inference.keys import stored_keys
from qualm.runners.inference.node import BUNDLE, CODE
from qualm.runners.inference.remote import server_record
from qualm.runners.inference.resources import HERE, count_workers, worker_resources
from qualm.runners.runtime.intact import input_paths
from qualm.runners.runtime.journal import Journal
from qualm.runners.runtime.progress import progress
from qualm.runners.runtime.server_config import Server
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError

if TYPE_CHECKING:
    from qualm.runners.data.answers import Store
    from qualm.runners.inference.requests import Asker
    from qualm.runners.inference.shards import ShardAnswers

AHEAD = 2
"""Batches sent to a worker, including the one in progress, so that it need not wait."""
TRIES = 3
"""Workers that may die on one batch."""
CONNECT_WITHIN = 10.0
"""Seconds until a silent cluster counts as unreachable."""
NO_SHARD = -1
"""Shard number of calls without a shard."""
GROW, WAITED = 1.0, 30.0
"""Seconds between checks for new machines, and until a warning that no worker has begun."""


def runs_on_cluster(settings: Settings, model: Any) -> bool:
    """Return whether a cluster is set whose workers may compute the model's answers."""
    return bool(settings.cluster) and workers_can_ask(model.client.server if isinstance(model, Remote) else None)


def workers_can_ask(server: Server | None) -> bool:
    """Return true without a server, or with one that has no key, no price and no batch API."""
    return server is None or not (server.key or server.price or server.batch)


def connect_ray(settings: Settings) -> Any:
    """Connect Ray to the cluster and return the module; raise StageError if unreachable."""
    import ray

    if ray.is_initialized():
        return ray
    address = None if settings.cluster == HERE else settings.cluster
    try:
        if address is not None and (place := re.fullmatch(r"(?:ray://)?(.+):(\d+)", address)):
            socket.create_connection((place[1].strip("[]"), int(place[2])), CONNECT_WITHIN).close()  # Ray itself would try for minutes
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise StageError(
            f"cluster = {settings.cluster!r}: Ray cannot be reached: {error}; `ray status` there says whether it runs"
        ) from error
    return ray


def server_shards(asker: Asker, tasks: Sequence[AnswerTask]) -> list[Batch]:
    """Return tasks in batches of equal answer parts, at most max(8, 2 * `concurrency`) each."""
    size = max(8, 2 * asker.model.client.server.concurrency)
    alike: dict[tuple[str, ...], list[Any]] = {}
    for task in tasks:
        alike.setdefault(task.parts, []).append(task.cell.place)
    return [piece for parts, places in alike.items() for piece in Batch(parts, tuple(places)).cut(size)]


@dataclass
class _Worker:
    actor: Any
    sent: list[int] = field(default_factory=list)
    """Numbers of its shards, the first in progress."""
    is_open: bool = False


class Answering:
    """Distribution of one stage's batches (shards) over the workers of a cluster."""

    def __init__(self, asker: Asker, store: Store, shards: Sequence[Batch], opener: str) -> None:
        self.asker, self.store, self.shards, self.opener = asker, store, shards, opener
        self.ray = connect_ray(asker.stage.settings)
        self.waiting = deque(range(len(shards)))
        self.parcel, self.objects = Parcel(asker.stage), dict[str, list[Any]]()
        self.workers: list[_Worker] = []
        self.pending: dict[Any, tuple[_Worker, str, int]] = {}
        self.deaths: Counter[int] = Counter()
        self.needs = worker_resources(asker.stage, isinstance(asker.model, Remote), self.ray.cluster_resources())
        self.proven = len(store) > 0

    def run(self) -> None:
        """Have workers answer all shards, and store the answers; StageError if workers fail.

        An error of the code ends the run at once; TRIES workers may die on one shard.
        """
        begun, looked, is_noted = time.monotonic(), -math.inf, False
        total = sum(len(shard.places) for shard in self.shards)
        try:
            with progress(self.asker.stage.settings, "answering on the cluster", total) as advance:
                while self.waiting or any(worker.sent for worker in self.workers):
                    if time.monotonic() - looked > GROW:
                        looked = time.monotonic()
                        self._grow()
                    self._send()
                    if not self.pending:  # all workers are gone
                        time.sleep(0.1)
                        continue
                    for reference in self.ray.wait([*self.pending], timeout=GROW)[0]:
                        advance(self._take(reference))
                    if not is_noted and time.monotonic() - begun > WAITED and not any(worker.is_open for worker in self.workers):
                        is_noted = True
                        wish = ", ".join(f"{n:g} {name}" for name, n in self.needs.items())
                        print(f"{self.asker.stage.key}: waiting for a worker with {wish}", file=sys.stderr, flush=True)
        finally:
            for worker in self.workers:
                self.ray.kill(worker.actor)

    def _grow(self) -> None:
        most = 1 if isinstance(self.asker.model, Remote) else max(1, count_workers(self.needs, self.ray.cluster_resources()))
        for _ in range(len(self.workers), min(most, len(self.waiting))):
            self.workers.append(self._begin())

    def _begin(self) -> _Worker:
        # By value: the worker's machine need not have our package, and if it has, then perhaps another version.
        self.ray.cloudpickle.register_pickle_by_value(node)
        resources = {"num_cpus": self.needs["CPU"], "num_gpus": self.needs.get("GPU", 0), "memory": self.needs.get("memory")}
        actor = self.ray.remote(node.Node).options(**resources).remote(self.parcel.files)
        worker = _Worker(actor)
        self.pending[actor.missing.remote()] = (worker, "missing", NO_SHARD)
        return worker

    def _open(self, worker: _Worker, missing: list[str]) -> None:
        """Send a worker the files that its machine lacks, and have it open the stage."""
        for digest in missing:
            if digest not in self.objects:
                self.objects[digest] = [self.ray.put(piece) for piece in self.parcel.pieces(digest)]
        stage = self.asker.stage
        # What the driver decides is taken out: a worker that went on spreading its work would never end.
        settings = replace(stage.settings, cluster="", progress=False, devices=1, nodes=1, strategy="auto", launcher="", spec="")
        # An actor's calls run in order, so nobody waits for this one before `open`.
        worker.actor.fill.remote({digest: self.objects[digest] for digest in missing})
        reference = worker.actor.open.remote(self.opener, pickle.dumps((*pack_stage(stage), settings)))
        self.pending[reference] = (worker, "open", NO_SHARD)

    def _send(self) -> None:
        for worker in self.workers:
            while worker.is_open and self.waiting and len(worker.sent) < AHEAD:
                number = self.waiting.popleft()
                shard = pickle.dumps((self.shards[number], self._known_answers(self.shards[number]), self.proven))
                worker.sent.append(number)
                self.pending[worker.actor.answer.remote(shard)] = (worker, "answer", number)

    def _known_answers(self, shard: Batch) -> pa.Table | None:
        """Return the stored answers that a shard's signals are about, as a table; None if none."""
        named = [
            (place, part)
            for place in shard.places
            for part in self.asker.parts(len(self.asker.datasets[place.dataset].samples[place.row]["choices"] or ()))
            if part not in shard.parts and not internal_of(part)
        ]
        keys = stored_keys(self.asker, self.store, named) if named else []
        here = [n for n, stored in enumerate(self.store.has(keys)) if stored] if keys else []
        if not here:
            return None
        keys = [keys[n] for n in here]
        table = self.store.take(keys)
        first = [pa.array(keys, pa.binary(32)), pa.array([named[n][1] for n in here])]
        return pa.table([*first, *table.columns], names=["key", "part", *table.column_names])

    def _take(self, reference: Any) -> int:
        worker, what, number = self.pending.pop(reference)
        from ray.exceptions import RayError, RayTaskError

        try:
            reply = self.ray.get(reference)
        except RayTaskError as error:
            # An error of our code, which another worker would meet as well. Only where a process is gone is there reason to try again.
            raise StageError(f"on a worker of the cluster: {error.cause if isinstance(error.cause, StageError) else error}") from error
        except RayError as error:
            self._drop_worker(worker, error)
            return 0
        if what == "missing":
            self._open(worker, reply)
        elif what == "open":
            self._check_identity(reply)
            # One that opens shows that workers can: earlier deaths at the start were the machine's.
            worker.is_open, self.deaths[NO_SHARD] = True, 0
        else:
            worker.sent.remove(number)
            return self._keep(number, reply)
        return 0

    def _keep(self, number: int, answers: ShardAnswers) -> int:
        for segment in answers.segments:
            self.store.add(parse_segment(segment))
        stage = self.asker.stage
        stage.count(**answers.counters)
        if answers.served:
            Journal(server_record(stage), durable=False).append(answers.served)
        self.proven = True
        return len(self.shards[number].places)

    def _drop_worker(self, worker: _Worker, error: Exception) -> None:
        """Drop a dead worker and requeue its shards; StageError once TRIES died on the same shard."""
        if worker not in self.workers:  # another of its shards has said so
            return
        self.workers.remove(worker)
        self.ray.kill(worker.actor)
        # All its replies will be errors now; one is enough.
        self.pending = {r: entry for r, entry in self.pending.items() if entry[0] is not worker}
        # To the front and in their order: batches are planned so that images lie together.
        self.waiting.extendleft(reversed(worker.sent))
        # The first of them was at work and is the suspect; the others only waited behind it.
        at = worker.sent[0] if worker.sent else NO_SHARD
        if worker.sent or not worker.is_open:
            self.deaths[at] += 1
        if self.deaths[at] >= TRIES:
            names = ", ".join(map(self.asker.name, self.shards[at].places)) if worker.sent else ""
            where = f"at the batch of samples {names}" if names else "before they could begin"
            raise StageError(f"{TRIES} workers of the cluster ended {where}; the last: {error}")
        print(f"{self.asker.stage.key}: a worker of the cluster is gone; its batch is asked again", file=sys.stderr, flush=True)

    def _check_identity(self, facts: dict[str, Any]) -> None:
        """Raise StageError if a worker's model, engine or libraries differ from the driver's."""
        # Before the first answer: the store would take answers of another model for ours.
        own = self.asker.engine
        here = {
            "model": self.asker.model.digest,
            "engine": own.identity,
            "versions": own.changed_versions(),
            "libraries": dict(own.libraries),
        }
        for name, value in here.items():
            if facts[name] != value:
                raise StageError(f"a worker of the cluster has other {name}: {facts[name]}; here {value}; install the same there")


PIECE = 64 << 20
"""Bytes per object: a worker holds one at a time in memory."""
PACKAGES = ("project", "registry", "runners")
"""Our packages that a stage may import."""
LEFT_OUT = frozenset({"__pycache__", "data", "store"})
"""Folders of `registry` that hold data."""


class Parcel:
    """Files that workers need for a stage: code, prompts and inputs."""

    def __init__(self, stage: Stage) -> None:
        self._places = dict(_inputs(stage))
        self._bundle = _bundle()

    @cached_property
    def files(self) -> dict[str, str]:
        """Return {path in a worker's tree: SHA-256 of the file}."""
        return {BUNDLE: hashlib.sha256(self._bundle).hexdigest(), **{path: _digest(place) for path, place in self._places.items()}}

    def pieces(self, digest: str) -> Iterator[bytes]:
        """Yield the bytes of the file with this digest in order, PIECE bytes at a time."""
        path = next(path for path, other in self.files.items() if other == digest)
        if path == BUNDLE:
            yield self._bundle
            return
        with self._places[path].open("rb") as file:
            # At least one piece, also of an empty file.
            yield file.read(PIECE)
            while piece := file.read(PIECE):
                yield piece


def _digest(place: Path) -> str:
    with place.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _inputs(stage: Stage) -> Iterator[tuple[str, Path]]:
    for path in input_paths(stage.inputs):
        files = [Path(path)] if Path(path).is_file() else [f for f in sorted(Path(path).rglob("*")) if f.is_file()]
        yield from ((file.as_posix(), file) for file in files)


def _bundle() -> bytes:
    """Return all code as the bytes of a zip file; equal code gives equal bytes."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as bundle:
        for path, place in sorted(dict(_sources()).items()):
            # ZipInfo without a date, so that equal code gives an equal bundle, which workers have already.
            bundle.writestr(zipfile.ZipInfo(path), place.read_bytes(), zipfile.ZIP_DEFLATED)
    return whole.getvalue()


def _sources() -> Iterator[tuple[str, Path]]:
    package = Path(qualm.__file__).parent
    yield from ((f"{CODE}/qualm/{file.name}", file) for file in package.glob("*.py"))
    for name in PACKAGES:
        yield from ((f"{CODE}/qualm/{path}", package / path) for path in _code(package, name))
    yield from ((f"{CODE}/qualm/{PROMPTS}/{file.name}", file) for file in (package / PROMPTS).glob("*.md"))
    root = project_root()
    if root is not None:
        yield "params.yaml", root / "params.yaml"  # by which, and a folder `specs`, a project is known
        yield "specs/README", package / "__init__.py"
        yield from ((f"{PROMPTS}/{file.name}", file) for file in (root / PROMPTS).glob("*.md"))
        if not is_checkout(root):
            for folder in sorted(set(KINDS.values())):
                yield from ((path, root / path) for path in _code(root, folder))


def _code(root: Path, name: str) -> Iterator[str]:
    for folder, folders, files in os.walk(root / name, followlinks=True):
        folders[:] = sorted(set(folders) - LEFT_OUT if Path(folder).name == "registry" else set(folders) - {"__pycache__"})
        yield from ((Path(folder) / file).relative_to(root).as_posix() for file in sorted(files) if not file.endswith(".pyc"))


def pack_stage(stage: Stage) -> tuple[str, dict[str, Any]]:
    """Return (key, compiled JSON) of a stage, to be sent to a worker."""
    raw = {name: getattr(stage, name) for name in ("kind", "params", "inputs", "outputs", "seed")}
    return stage.key, raw
