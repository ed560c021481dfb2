"""The plan of a spec: its stages, each with parameters, inputs, outputs and the files that implement it.

Whatever shows, runs, prices or compiles a benchmark reads it; only `qualm.compiler.plan` makes it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from qualm.compiler.spec.plugin_ref import HUB, REVISION, Ref
from qualm.registry.parameters import nested_paths, to_mappings
from qualm.runners.contracts.stages import IN_GIT


@dataclass(frozen=True)
class PlannedStage:
    """A stage of a plan: parameters, inputs, outputs, code, seed."""

    name: str
    kind: str
    desc: str
    params: dict[str, Any]
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    seed: int
    code: tuple[str, ...]
    package: str = ""
    """SHA-256 of the installed files that implement it, a parameter; empty if there are none."""
    folders: frozenset[str] = frozenset()
    """Folders that stand for the paths within them, so that hundreds of files are one line to DVC."""
    refs: tuple[Ref, ...] = ()
    engine: Mapping[str, int] = field(default_factory=dict)
    """Versions above 1 of our code behind a costly stage, a parameter."""

    @property
    def spec(self) -> str:
        return next(iter(nested_paths(self.outputs))).split("/")[1]

    @property
    def kept_in_git(self) -> frozenset[str]:
        """Return the keys of the outputs that git keeps, not DVC."""
        return frozenset(key for key, path in self.outputs.items() if isinstance(path, str) and path.endswith(IN_GIT))

    @property
    def deps(self) -> tuple[str, ...]:
        return tuple(sorted({*map(self._displayed, nested_paths(self.inputs)), *self.code}))

    @property
    def outs(self) -> tuple[str, ...]:
        return tuple(sorted({*map(self._displayed, nested_paths(self.outputs))}))

    def _displayed(self, path: str) -> str:
        folder = path.rpartition("/")[0]
        return folder if folder in self.folders else path

    @property
    def tracked(self) -> dict[str, Any]:
        """Return the values that DVC tracks as a stage's parameters: params, seed, code versions."""
        code = {name: value for name, value in (("package", self.package), ("engine", dict(self.engine))) if value}
        return {"params": to_mappings(self.params), "seed": self.seed, **code}

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "inputs": self.inputs, "outputs": self.outputs, **self.tracked}


@dataclass(frozen=True)
class Plan:
    """All stages of one spec, each after those it reads."""

    spec: str
    title: str
    stages: tuple[PlannedStage, ...]
    artifacts: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    """Project files that determine the stages, from its root."""

    @property
    def marker(self) -> str:
        return marker(self.spec)

    @property
    def reads(self) -> frozenset[str]:
        """Return the names of the other specs whose models this plan reads."""
        parts = (path.split("/") for stage in self.stages for path in stage.deps)
        return frozenset(p[1] for p in parts if p[0] == "results" and p[1] != self.spec)

    def stage(self, name: str) -> PlannedStage:
        return next(s for s in self.stages if s.name == name)

    def writers(self, key: str) -> tuple[PlannedStage, ...]:
        return tuple(writers(self.stages, key))

    @property
    def makers(self) -> dict[str, PlannedStage]:
        """Return {dataset: first stage with it as output `dataset`}, so before any review."""
        first: dict[str, PlannedStage] = {}
        for stage in self.writers("dataset"):
            first.setdefault(stage.params["dataset"], stage)
        return first


def marker(spec: str) -> str:
    """Return the path of stage `spec`'s output, on which all other stages depend."""
    return f"results/{spec}/compiled"


def writers(stages: Iterable[PlannedStage], key: str) -> Iterator[PlannedStage]:
    """Yield the stages that have an output of this key, in their order."""
    return (stage for stage in stages if key in stage.outputs)


def hub_models(stages: Iterable[PlannedStage]) -> list[tuple[str, str | None]]:
    """Return sorted (name, revision or None) of the hub models that stages read."""
    uses = (args for stage in stages for ref in stage.refs for _, args in ref.uses)
    return sorted({(args[HUB], args.get(REVISION)) for args in uses if args.get(HUB) and REVISION in args}, key=str)
