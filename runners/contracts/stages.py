"""Kinds of stages: each declared once, in its own file, from which compiler, forecast, graph and runner read what they know of it.

A kind stands in `runners/stages/KIND.py`, with `KIND = StageKind(...)` and `run(stage)`; `compiler/plan/make.py` plans its stages from the
sections of a spec. Declarations are read from the source and nothing is imported: each is one call with literals by keyword.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from qualm.registry.plugins.rule import PluginError, constants_of

if TYPE_CHECKING:
    from qualm.runners.runtime.stage import Stage

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
    costly: bool = False
    """Whether it takes hours or money: code of ours counts by its declared versions then (`qualm.registry.plugins.engine_versions`), not
    by its content. All other kinds run again when a file behind them changed."""
    plots: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Key of an output -> how `dvc plots show` draws it."""
    shows: Mapping[str, str] = field(default_factory=dict)
    """Key of a table (Parquet) -> its caption in the report, which shows it with its columns as they are."""
    name: str = ""
    """That of its file; filled in by `stage_kind`."""
    module: str = ""

    @property
    def once(self) -> bool:
        """Whether a spec has at most one stage of it."""
        return "{" not in self.title + "".join(self.writes.values())

    def run(self) -> Callable[[Stage], None]:
        """What does the work of a stage: imports the module."""
        run: Callable[[Stage], None] = importlib.import_module(self.module).run
        return run


@cache
def stage_kinds() -> Mapping[str, StageKind]:
    """Return all stage kinds by name, sorted."""
    return MappingProxyType({path.stem: stage_kind(path.stem) for path in sorted(FOLDER.glob("[!_]*.py"))})


@cache
def stage_kind(name: str) -> StageKind:
    """Return a kind by its name; raise PluginError for an unknown one."""
    path = FOLDER / f"{name}.py"
    if not path.is_file():
        raise PluginError(f"no kind of stage is named '{name}'; there are: {', '.join(stage_kinds())}")
    return StageKind(**constants_of(path)[0]["KIND"], name=name, module=f"{PACKAGE}.{name}")
