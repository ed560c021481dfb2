"""Kinds of stages: each declared once, in its own file, from which compiler, forecast, graph and runner read what they know of it.

The kinds that are built in stand in `runners/stages/KIND.py`, with `KIND = StageKind(...)` and `run(stage)`, and `compiler/plan/make.py`
plans their stages from the sections of a spec. A kind of one's own is a plugin that a spec names under `stages:`. Its contract, `NAME.py`:

    KIND = StageKind(title="Summary of the scores", reads=("scores",), writes={"summary": "{stage}.parquet"}, colour="#1f77b4")

    def NAME(stage: Stage, *, parameter: type = default) -> None

- `stage.inputs[key]` is there for every key of `reads`: what stages of the spec write, as a path or a mapping of paths. `datasets` are
  by name, `generations` by model and data set, outputs of other kinds of one's own by the name of their stage.
- It writes below `stage.scratch` and hands every output of `writes` to `stage.publish(file, stage.outputs[key])`, tables with
  `stage.provenance`. `{stage}` in `title` and in paths is the stage's name, which tells the points of a sweep apart.
- What it writes follows from inputs, parameters and, where the kind is `seeded`, `stage.seed`, and from nothing else.
- `stage.count(rows=n)` is printed at the end; a `StageError` says what was expected, what came and what to do.

Declarations are read from the source and nothing is imported, so each is written out: one call with literals by keyword.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from qualm.registry.plugins import rule
from qualm.registry.plugins.rule import Plugin, PluginError, constants_of

if TYPE_CHECKING:
    from qualm.runners.runtime.stage import Stage

IN_GIT = (".json", ".csv")
"""Suffixes of outputs that are small and readable, metrics and the points of plots: they lie in git, all others in DVC's cache."""
FOLDER = Path(__file__).parents[1] / "stages"
PACKAGE = "qualm.runners.stages"
_PATH = re.compile(r"[A-Za-z0-9{][A-Za-z0-9{}_.-]*(/[A-Za-z0-9{][A-Za-z0-9{}_.-]*)*")


@dataclass(frozen=True)
class StageKind:
    """What is known of the stages of one kind without running them."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic where a plugin's declaration is checked

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
    with_polars: bool = False
    """Whether its module imports Polars, which may not be there in a process that is forked: each such stage imports it for itself."""
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
        if self.module == f"{PACKAGE}.{self.name}":
            built_in: Callable[[Stage], None] = importlib.import_module(self.module).run
            return built_in
        function = rule.load("stages", self.name)
        return lambda stage: function(stage, **stage.params["args"])


@cache
def stage_kinds() -> Mapping[str, StageKind]:
    """The kinds that are built in, by name, sorted."""
    return MappingProxyType({path.stem: stage_kind(path.stem) for path in sorted(FOLDER.glob("[!_]*.py"))})


def stage_kind(name: str) -> StageKind:
    """A kind by its name.

    Raises:
        PluginError: no kind has that name, or its declaration is not valid.
    """
    return _built_in(name) or own_kind(rule.get("stages", name))


@cache
def _built_in(name: str) -> StageKind | None:
    path = FOLDER / f"{name}.py"
    return StageKind(**constants_of(path)[0]["KIND"], name=name, module=f"{PACKAGE}.{name}") if path.is_file() else None


def own_kind(plugin: Plugin) -> StageKind:
    """The kind that a plugin declares.

    Raises:
        PluginError: it declares none that a spec can have beside those that are built in.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        kind = TypeAdapter(StageKind).validate_python({**plugin.declares["KIND"], "name": plugin.name, "module": plugin.module})
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
    else:
        faults = _faults(kind)
    if faults:
        raise PluginError(f"{plugin.path}: KIND: {'; '.join(faults)}")
    return kind


def _faults(kind: StageKind) -> list[str]:
    """Everything in which a kind of one's own would be in the way of those that are built in, or cannot be planned."""
    owners = {key: other.name for other in stage_kinds().values() for key in other.writes}
    faults = [f"'{kind.name}' is the name of a built-in kind; rename yours"] if kind.name in stage_kinds() else []
    for key, path in kind.writes.items():
        if key in owners:
            faults.append(f"writes: '{key}' is what `{owners[key]}` writes; choose another key")
        if not _PATH.fullmatch(path):
            faults.append(f"writes.{key}: expected a path below results/SPEC/, got {path!r}")
    for key in kind.shows:
        if not kind.writes.get(key, "").endswith(".parquet"):
            faults.append(f"shows: expected a key of a table that it writes, a .parquet file, got '{key}'")
    for text in (kind.title, *kind.writes.values(), *kind.shows.values()):
        if set("{}") & set(text.replace("{stage}", "")):
            faults.append(f"title, writes and shows: expected no place to be filled in but {{stage}}, got {text!r}")
    return faults
