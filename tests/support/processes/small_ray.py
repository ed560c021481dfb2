"""Ray's calls as the driver of a cluster makes them, in this process: workers answer when they are waited for, or end as a script says."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class RayError(Exception):
    """As `ray.exceptions.RayError`: a worker is gone."""


class RayTaskError(RayError):
    """As `ray.exceptions.RayTaskError`: what a worker runs has failed."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class SmallRay:
    """A cluster with a clock of its own.

    Args:
        cpus: of all machines.
        work: what a worker (by its number) does with a call: (worker, method, what it was handed) -> the reply, or an error.
        seconds: that pass at each look.
        late: looks at which nothing is ready yet.
    """

    def __init__(self, cpus: float, work: Callable[[int, str, Any], Any], seconds: float = 0.0, late: int = 0) -> None:
        self.cpus, self.work, self.seconds, self.late, self.now = cpus, work, seconds, late, 100.0
        self.objects: list[Any] = []
        self.options: list[dict[str, Any]] = []
        self.killed: list[int] = []
        self.looked = 0
        """How often somebody asked what the cluster has."""
        self.most = 0
        """Calls of one worker's `answer` that were on their way together."""
        self._waiting: dict[int, tuple[int, str, Any]] = {}
        self.cloudpickle = SimpleNamespace(register_pickle_by_value=lambda module: None)

    def install(self, monkeypatch: pytest.MonkeyPatch, driver: Any) -> None:
        """In the place of Ray and of the clock, for one test."""
        monkeypatch.setattr(driver, "connect_ray", lambda settings: self)
        monkeypatch.setattr(driver, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self._sleep))
        exceptions = ModuleType("ray.exceptions")
        exceptions.RayError, exceptions.RayTaskError = RayError, RayTaskError  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "ray.exceptions", exceptions)
        monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def cluster_resources(self) -> dict[str, float]:
        self.looked += 1
        return {"CPU": self.cpus}

    def remote(self, kind: type) -> Any:
        return SimpleNamespace(options=lambda **resources: SimpleNamespace(remote=lambda files: self._actor(resources)))

    def _actor(self, resources: dict[str, Any]) -> Any:
        self.options.append(resources)
        number = len(self.options) - 1
        methods = {name: SimpleNamespace(remote=self._method(number, name)) for name in ("missing", "fill", "open", "answer")}
        return SimpleNamespace(number=number, **methods)

    def _method(self, number: int, name: str) -> Callable[..., int]:
        def call(*handed: Any) -> int:
            self.objects.append(None)
            reference = len(self.objects) - 1
            self._waiting[reference] = (number, name, handed)
            if name == "answer":
                self.most = max(self.most, sum(entry[:2] == (number, name) for entry in self._waiting.values()))
            return reference

        return call

    def put(self, piece: bytes) -> int:
        self.objects.append(piece)
        return len(self.objects) - 1

    def wait(self, references: list[int], timeout: float) -> tuple[list[int], list[int]]:
        self.now += self.seconds
        self.late -= 1
        return ([], references) if self.late >= 0 else (references[:1], references[1:])

    def get(self, reference: int) -> Any:
        number, name, handed = self._waiting.pop(reference)
        reply = self.work(number, name, pickle.loads(handed[-1]) if name in ("open", "answer") else handed)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def kill(self, actor: Any) -> None:
        self.killed.append(actor.number)
