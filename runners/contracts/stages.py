"""Kinds of stages, each declared in its own file, which compiler, forecast, graph and runner read.

`runners/stages/KIND.py` has `KIND = StageKind(...)` and `run(stage)`; `compiler/plan/make.py` plans its stages. Declarations are read from
the source without importing it: each is one call with literal keyword arguments. A kind of several parts also reads what those declare.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from qualm.registry.plugins.registry import PluginError, constants_of

if TYPE_CHECKING:
    from qualm.runners.runtime.stage import Stage

IN_GIT = (".json", ".csv")
"""Suffixes of small, readable outputs, which are in git; others are in DVC's cache."""
FOLDER = Path(__file__).parents[1] / "stages"
PACKAGE = "qualm.runners.stages"


@dataclass(frozen=True)
class StageKind:
    """Declaration of a kind of stages: what it reads and writes, and how DVC treats it."""

    title: str
    """Description in dvc.yaml; {names} are filled in."""
    writes: Mapping[str, str]
    """Key of an output -> its path below `results/SPEC/`; {names} are filled in. A stage may write only some."""
    reads: tuple[str, ...] = ()
    """Keys of possible inputs: outputs of other stages, and entries of `registry/data/`."""
    parts: tuple[str, ...] = ()
    """Folders of modules whose inputs (`READS`) the stage reads too, relative to its file."""
    colour: str = "#333333"
    """Colour in `qualm graph`."""
    seeded: bool = False
    """True if it uses random numbers: the spec's seed is then a parameter."""
    parallel: bool = False
    """True if several processes may work on one stage, started by the launcher of the settings."""
    costly: bool = False
    """True if it takes hours or money: our code then counts by declared versions (`qualm.registry.plugins.engine_versions`). Other kinds
    run again if a file behind them changes."""
    plots: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Key of an output -> how `dvc plots show` draws it."""
    shows: Mapping[str, str] = field(default_factory=dict)
    """Key of a table (Parquet) -> its caption in the report, which shows all its columns."""
    name: str = ""
    module: str = ""

    @property
    def is_single(self) -> bool:
        """Return True if a spec has at most one stage of this kind."""
        return "{" not in self.title + "".join(self.writes.values())

    def run(self) -> Callable[[Stage], None]:
        """Import the kind's module and return its function `run(stage)`."""
        run: Callable[[Stage], None] = importlib.import_module(self.module).run
        return run


@cache
def stage_kinds() -> Mapping[str, StageKind]:
    """Return name -> declaration of all kinds of stages, sorted."""
    return MappingProxyType({path.stem: stage_kind(path.stem) for path in sorted(FOLDER.glob("[!_]*.py"))})


@cache
def stage_kind(name: str) -> StageKind:
    """Return the declaration of a kind of stages; raise PluginError for an unknown name."""
    path = FOLDER / f"{name}.py"
    if not path.is_file():
        raise PluginError(f"no kind of stage is named '{name}'; there are: {', '.join(stage_kinds())}")
    kind = StageKind(**constants_of(path)[0]["KIND"], name=name, module=f"{PACKAGE}.{name}")
    files = [file for part in kind.parts for file in sorted((path.parent / part).glob("*.py"))]
    more = [key for file in files if "\nREADS = " in file.read_text(encoding="utf-8") for key in constants_of(file)[0]["READS"]]
    return replace(kind, reads=tuple(dict.fromkeys([*kind.reads, *more])))
