"""Kinds of stages: each declared once, in its own file, from which compiler, forecast, graph and runner read what they know of it.

`runners/stages/KIND.py` holds `KIND = StageKind(...)` and `run(stage)`. The declaration is read from the source and nothing is imported,
so it is written out: one call with literals by keyword.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from qualm.registry.plugins.rule import PluginError, constants_of

IN_GIT = (".json", ".csv")
"""Suffixes of outputs that are small and readable, metrics and the points of plots: they lie in git, all others in DVC's cache."""
FOLDER = Path(__file__).parents[1] / "stages"
PACKAGE = "qualm.runners.stages"


@dataclass(frozen=True)
class StageKind:
    """What is known of the stages of one kind without running them."""

    title: str
    """What a stage of it does, as dvc.yaml describes it; {names} are filled in."""
    writes: Mapping[str, str]
    """Key of an output -> its path below `results/SPEC/`; {names} are filled in. Not every stage writes all of them."""
    reads: tuple[str, ...] = ()
    """Keys of what it may read: outputs of other stages, and entries of `registry/data/`."""
    colour: str = "#333333"
    """Of its box in `qualm graph`."""
    seeded: bool = False
    """Whether it draws at random: the spec's seed is one of its parameters then."""
    parallel: bool = False
    """Whether several processes may work on one stage: the launcher of the settings starts it then."""
    plots: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Key of an output -> how `dvc plots show` draws it."""
    name: str = ""
    """That of its file; filled in by `stage_kind`."""
    module: str = ""

    @property
    def once(self) -> bool:
        """Whether a spec has at most one stage of it."""
        return "{" not in self.title + "".join(self.writes.values())

    def run(self) -> Callable[..., None]:
        """What does the work of a stage: imports the module."""
        function: Callable[..., None] = importlib.import_module(self.module).run
        return function


@cache
def stage_kinds() -> Mapping[str, StageKind]:
    """All kinds by name, sorted."""
    return MappingProxyType({path.stem: stage_kind(path.stem) for path in sorted(FOLDER.glob("[!_]*.py"))})


@cache
def stage_kind(name: str) -> StageKind:
    """A kind by its name.

    Raises:
        PluginError: there is none of that name, or its file declares none.
    """
    path = FOLDER / f"{name}.py"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in FOLDER.glob("[!_]*.py")))
        raise PluginError(f"no kind of stage named '{name}'; there are: {known}")
    return _declared(constants_of(path)[0].get("KIND"), name, f"{PACKAGE}.{name}", path)


def _declared(declaration: Any, name: str, module: str, path: Path) -> StageKind:
    if not isinstance(declaration, Mapping):
        raise PluginError(f"{path}: expected `KIND = StageKind(...)`, written out with literals by keyword")
    try:
        return StageKind(**{**declaration, "name": name, "module": module})
    except TypeError as error:
        raise PluginError(f"{path}: KIND: {error}") from None


def in_git(paths: Iterable[str]) -> list[str]:
    """Those of these paths that lie in git."""
    return [path for path in paths if path.endswith(IN_GIT)]
