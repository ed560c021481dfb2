"""List what stages need and only a person can provide: data, downloads, keys, readers of formats.

`qualm plan` prints it, so that a long run does not stop for want of a key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.project.extras import missing_extras
from qualm.compiler.project.rebuilds import ACTIVE, Forecast
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.plugin_ref import DATA, HUB, REVISION
from qualm.registry.entries.card import card_names, load_card
from qualm.registry.entries.entries import Entry, entries
from qualm.registry.entries.model_folders import revision_fault
from qualm.registry.parameters import nested_paths
from qualm.registry.plugins.column_names import IN_WORDS
from qualm.registry.plugins.extras import install_line, is_installed
from qualm.registry.plugins.registry import SERVER
from qualm.runners.runtime.settings import Settings

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class Need:
    kind: str
    """A key of `sentences.NEEDS`."""
    what: str
    how: str
    stages: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "what": self.what, "how": self.how, "stages": list(self.stages)}


def needs(plan: Plan, forecasts: Sequence[Forecast], root: Path, settings: Settings) -> list[Need]:
    """Return what a person must provide for the stages that would run, by kind; maybe []."""
    active = {f.stage for f in forecasts if f.action in ACTIVE}
    stages = [s for s in plan.stages if s.name in active]
    blocked = {f.stage for f in forecasts if f.action == "blocked"}
    remade = {path for s in stages for path in s.outs}
    tracked = {e.name: e for e in entries(root)}
    collected: dict[tuple[str, str], tuple[dict[str, None], set[str]]] = {}
    for stage in stages:
        for need in (
            *_inputs(stage, tracked, root),
            *(need for ref in stage.refs for need in _named_elsewhere(ref.args, stage.spec)),
            *_variables(stage, settings),
            *_misfits(stage, root, remade),
            *_adapter(stage),
            *(Need("extra", extra, f"`{install_line(extra)}`") for extra in (*missing_extras([stage]), *_of_cluster(stage, settings))),
        ):
            if need.kind == "spec" and stage.name not in blocked:
                continue  # `dvc repro` makes it first
            ways, names = collected.setdefault((need.kind, need.what), ({}, set()))
            ways[need.how] = None
            names.add(stage.name)
    order = sorted(collected.items(), key=lambda item: (list(say.NEEDS).index(item[0][0]), item[0]))
    return [Need(kind, what, "; ".join(ways), tuple(sorted(names))) for (kind, what), (ways, names) in order]


def format_needs(missing: Sequence[Need]) -> Iterator[str]:
    """Yield lines for `qualm plan`: a heading per kind, then a line per need."""
    for kind, title in say.NEEDS.items():
        mine = [n for n in missing if n.kind == kind]
        if mine:
            yield f"  {title}:"
        width = max((len(n.what) for n in mine), default=0)
        for need in mine:
            yield f"    {need.what.ljust(width)}  {need.how} ({say.count(len(need.stages), 'stage')})"


def _of_cluster(stage: PlannedStage, settings: Settings) -> Iterator[str]:
    """Yield "cluster" if a stage runs on a cluster and that extra is missing."""
    if settings.cluster and "generations" in stage.outputs and not is_installed("cluster"):
        yield "cluster"


def _inputs(stage: PlannedStage, tracked: Mapping[str, Entry], root: Path) -> Iterator[Need]:
    for path in nested_paths(stage.inputs):
        if (root / path).exists():
            continue
        parts = path.split("/")
        if path.startswith(f"{DATA}/"):
            entry = tracked.get(parts[2])
            if entry is not None and entry.where in ("cache", "remote"):
                continue  # `qualm run` fetches it
            yield Need("data", parts[2], how_to_add(stage, parts[2], entry))
        elif path.startswith("results/") and parts[1] != stage.spec and parts[2] == "models":
            yield Need("spec", "/".join(parts[3:]), say.ADD_BY_OTHER_SPEC.format(spec=parts[1]))


def how_to_add(stage: PlannedStage, name: str, entry: Entry | None) -> str:
    """Return the command or advice that brings entry `name` for a stage."""
    if entry is not None and entry.md5 is not None:
        return entry.get_advice or say.ITS_FILES
    if name in card_names() and "reviews" not in stage.inputs:
        card = load_card(name)
        if card.fetch is not None:
            fetched = say.ADD_BY_FETCH_EXCEPT if card.fetch.also else say.ADD_BY_FETCH
            return fetched.format(spec=stage.spec, what=card.fetch.also)
        return say.ADD_WITH_CARD.format(name=name, title=card.title, source=card.source)
    if "reviews" in stage.inputs:
        return say.ADD_BY_REVIEW.format(spec=stage.spec, dataset=stage.params["dataset"])
    is_data = stage.inputs.get("source") == f"{DATA}/{name}"
    return say.ADD_WITH_CARD_NAME.format(name=name, card="CARD" if is_data else "transformers_model")


def _named_elsewhere(params: Any, spec: str) -> Iterator[Need]:
    if isinstance(params, Mapping):
        if isinstance(params.get(HUB), str):
            if revision_fault(params[HUB], params.get(REVISION)):
                yield Need("hub", params[HUB], say.FETCH_PINS_COMMIT.format(spec=spec))
            else:
                yield Need("hub", params[HUB], say.FETCH_AT_COMMIT.format(spec=spec, commit=params[REVISION][:12]))
        digest = params.get("sha256")
        if isinstance(digest, str) and not _SHA256.fullmatch(digest):
            yield Need("value", "sha256", say.NO_SHA256.format(value=digest, file=params.get("artifact", "the file")))
        for value in params.values():
            yield from _named_elsewhere(value, spec)
    elif isinstance(params, list):
        for value in params:
            yield from _named_elsewhere(value, spec)


def _misfits(stage: PlannedStage, root: Path, remade: Collection[str]) -> Iterator[Need]:
    """Yield a need per dataset, built and not `remade`, whose questions do not fit the prompt.

    For other datasets the stage reports it before it loads a model.
    """
    prompts = {name: stage.params.get("prompts", {}).get(name, stage.params.get("prompt")) for name in stage.inputs.get("datasets", ())}
    for name, prompt in prompts.items():
        folder = stage.inputs["datasets"][name]
        if not prompt or folder in remade or not (root / folder / "samples.parquet").is_file():
            continue
        from qualm.runners.data.dataset import DatasetFolder
        from qualm.runners.prompts.question import Prompt
        from qualm.runners.prompts.templates import find_misfit

        in_words = "model" in stage.outputs or IN_WORDS in stage.params  # a model is trained on words
        if why := find_misfit(Prompt.read(prompt), DatasetFolder(name, root / folder), in_words):
            yield Need("prompt", name, why)


def _variables(stage: PlannedStage, settings: Settings) -> Iterator[Need]:
    for plugin, args in (use for ref in stage.refs for use in ref.uses):
        if SERVER in plugin.declares:
            url = str(args[plugin.declares[SERVER]])
            key = settings.server(url, str(args["model"])).key
            if key and not os.environ.get(key):
                yield Need("environment", key, f"the key of {url}")


def _adapter(stage: PlannedStage) -> Iterator[Need]:
    if stage.params.get("missing"):
        yield Need("adapter", stage.params["card"], f"missing: {stage.params['missing']}")
