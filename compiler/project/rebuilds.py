"""Forecast what `dvc repro` does to each stage, and why, from the plan, dvc.lock and hashes.

`dvc repro --dry` is no substitute: it reports stages as unchanged that the real run executes. A stage that reads outputs of a running
stage is `perhaps` executed: DVC skips it if those come out the same. A stage to `run` may still be restored from DVC's run cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from qualm.compiler.plan.emit import MARKER_MD5, pipeline, pipeline_path
from qualm.compiler.plan.missing_inputs import how_to_get
from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.spec import sentences as say
from qualm.registry.system.dvc_files import cache_folder, find_dvc_file, locked_outputs, read_lock
from qualm.registry.system.dvc_objects import hash_path, holds, open_repo

Action = Literal["unchanged", "restore", "run", "perhaps", "blocked"]
ACTIVE = ("run", "perhaps", "blocked")
"""Actions of stages that do something, or would if nothing was missing."""


@dataclass(frozen=True)
class Reason:
    """One reason why a stage runs: a change since the lock, or a missing input."""

    kind: Literal["new", "command", "parameter", "input", "code", "output", "missing", "waiting"]
    what: str
    old: Any = None
    new: Any = None

    follows: bool = field(default=False, compare=False)
    """It follows from the action of an earlier stage."""

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "what": self.what, "old": self.old, "new": self.new}

    def __str__(self) -> str:
        if self.kind == "parameter" and self.what.startswith("engine."):
            return f"our {self.what.removeprefix('engine.')}: version {self.old or 1} -> {self.new or 1}"
        if self.kind == "parameter":
            return f"parameter {self.what}: {_short(self.old)} -> {_short(self.new)}"
        return self.what if self.kind == "new" else f"{self.kind} {self.what}"


@dataclass(frozen=True)
class Forecast:
    stage: str
    kind: str
    action: Action
    reasons: tuple[Reason, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"stage": self.stage, "kind": self.kind, "action": self.action, "reasons": [reason.as_json() for reason in self.reasons]}


@dataclass
class _ForecastState:
    """Hashes of inputs and outputs that a forecast knows after the stages it has passed."""

    root: Path
    repo: Any
    pulled: bool = False
    """Assume that outputs and data are as recorded, without looking at the workspace."""
    hashes: dict[str, str | None] = field(default_factory=dict)
    """Output path -> its hash after the run; None if unknown before its stage runs."""
    entries: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    """Path that no stage makes -> its hash and mode as in a lock; None if it is missing."""
    blocked: dict[str, str] = field(default_factory=dict)
    """Output path -> the stage that cannot make it, since it lacks an input."""


def forecast(plan: Plan, root: Path, default: str, before: Iterable[Plan] = ()) -> list[Forecast]:
    """Return per stage of a plan what `dvc repro` would do and why, in order.

    Args:
        default: name of the default spec, whose dvc.yaml is in the root.
        before: plans of the specs whose models this one reads, in the order in which `dvc repro` runs them.
    """
    with open_repo(root) as repo:
        state, forecasts = _ForecastState(root, repo), list[Forecast]()
        for each in [*before, plan]:
            forecasts = _plan(each, root, default, state)
        return forecasts


def forecast_clone(plans: Iterable[Plan], root: Path, default: str) -> dict[str, list[Forecast]]:
    """Return {spec: forecasts of stages that run or are blocked in a clone with all pulled}.

    The list of a spec without such stages is empty.

    Outputs in this checkout are ignored, so this takes no longer than hashing code. `default` names the default spec.
    """
    plans = list(plans)
    with open_repo(root) as repo:
        state = _ForecastState(root, repo, pulled=True)
        for plan in plans:
            state.hashes.update(locked_outputs(_lock(plan, root, default)))
            state.hashes[plan.marker] = MARKER_MD5
        return {plan.spec: [f for f in _plan(plan, root, default, state) if f.action in ("run", "blocked")] for plan in plans}


def _lock(plan: Plan, root: Path, default: str) -> Path:
    return (root / pipeline_path(plan.spec, default)).with_suffix(".lock")


def _plan(plan: Plan, root: Path, default: str, state: _ForecastState) -> list[Forecast]:
    lock = read_lock(_lock(plan, root, default))
    compiled = pipeline(plan)["stages"]
    state.hashes[plan.marker] = MARKER_MD5
    return [_stage(s, compiled[s.name], plan.spec, lock.get(s.name), state) for s in plan.stages]


def _stage(stage: PlannedStage, compiled: Mapping[str, Any], spec: str, entry: Mapping[str, Any] | None, state: _ForecastState) -> Forecast:
    deps, unknown, missing = _deps(stage, compiled["deps"], spec, state)
    if missing:
        state.blocked.update(dict.fromkeys(stage.outs, stage.name))
        return Forecast(stage.name, stage.kind, "blocked", tuple(dict.fromkeys(missing)))
    never = [Reason("new", "never run here")]
    reasons = never if entry is None else list(_against_lock(stage, compiled["cmd"], f"specs/{spec}/stages/{stage.name}.json", entry, deps))
    if unknown:
        state.hashes.update(dict.fromkeys(stage.outs))
        perhaps = tuple(Reason("input", f"{path} may change", follows=True) for path in unknown)
        return Forecast(stage.name, stage.kind, "run" if reasons else "perhaps", (*reasons, *perhaps))
    if entry is not None and not reasons:
        lost = [] if state.pulled else _outputs(entry, state)
        if not lost or all(out.get("md5") and holds(cache_folder(state.root), out["md5"]) for out in entry.get("outs", [])):
            state.hashes.update({o["path"]: o.get("md5") for o in entry.get("outs", [])})
            return Forecast(stage.name, stage.kind, "restore" if lost else "unchanged", tuple(lost))
        reasons = lost
    state.hashes.update(dict.fromkeys(stage.outs))
    return Forecast(stage.name, stage.kind, "run", tuple(reasons))


def _deps(
    stage: PlannedStage, paths: Iterable[str], spec: str, state: _ForecastState
) -> tuple[dict[str, dict[str, Any] | None], list[str], list[Reason]]:
    """Return ({input: lock entry}, inputs of unknown hash, reasons that it cannot run yet).

    Inputs are paths. Their entries are kept in `state`.
    """
    entries: dict[str, dict[str, Any] | None] = {}
    unknown, missing = [], []
    for path in paths:
        if path in state.blocked:
            missing.append(Reason("waiting", say.REASON_WAITS_FOR.format(stage=state.blocked[path]), follows=True))
            continue
        if path in state.hashes:
            md5 = state.hashes[path]
            if md5 is None:
                unknown.append(path)
            entries[path] = _dep(path, state, md5) if md5 else None
            continue
        if path not in state.entries:  # what thousands of stages read is looked at once
            recorded = _tracked(path, state)
            md5 = recorded if state.pulled else None
            state.entries[path] = _dep(path, state, md5 or hash_path(state.root, path, state.repo) or recorded)
        entry = state.entries[path]
        if entry is None:
            missing.append(Reason("missing", how_to_get(path, path == stage.inputs.get("reviews"), spec)))
        entries[path] = entry
    return entries, unknown, missing


def _dep(path: str, state: _ForecastState, md5: str | None) -> dict[str, Any] | None:
    place = state.root / path
    is_executable = place.is_file() and place.stat().st_mode & 0o111
    return None if md5 is None else {"md5": md5, **({"isexec": True} if is_executable else {})}


def _tracked(path: str, state: _ForecastState) -> str | None:
    tracked = find_dvc_file(state.root, path)
    if tracked is None:
        return None
    file, md5 = tracked
    return (md5 if file == f"{path}.dvc" else None) or "pulled"


def _against_lock(
    stage: PlannedStage, cmd: str, params_file: str, entry: Mapping[str, Any], deps: Mapping[str, dict[str, Any] | None]
) -> Iterator[Reason]:
    if entry.get("cmd") != cmd:
        yield Reason("command", f"{entry.get('cmd')} -> {cmd}")
    old = entry.get("params", {}).get(params_file)
    if old != stage.tracked:
        # Versions apart from the rest: a component that is not listed is at version 1, not new.
        versions = [dict((tracked or {}).get("engine") or {}) for tracked in (old, stage.tracked)]
        tracked_params = [{k: v for k, v in (tracked or {}).items() if k != "engine"} for tracked in (old, stage.tracked)]
        yield from differences(tracked_params[0], tracked_params[1])
        for name in sorted(versions[0].keys() | versions[1].keys()):  # first versions go without saying
            if versions[0].get(name) != versions[1].get(name):
                yield Reason("parameter", f"engine.{name}", versions[0].get(name), versions[1].get(name))
    before = {d["path"]: d for d in entry.get("deps", [])}
    for path, now in deps.items():
        kind: Literal["code", "input"] = "code" if path in stage.code else "input"
        if path not in before:
            yield Reason(kind, say.REASON_NEW_INPUT.format(path=path))
        # DVC compares these two and no other field: size and file count follow from the hash.
        elif now is not None and (now.get("md5"), now.get("isexec")) != (before[path].get("md5"), before[path].get("isexec")):
            yield Reason(kind, f"{path} changed")
    for path in before.keys() - deps.keys():
        yield Reason("input", say.REASON_NOT_READ.format(path=path))
    gone = {o["path"] for o in entry.get("outs", [])} ^ set(stage.outs)
    for path in sorted(gone):
        yield Reason("new", f"new output {path}" if path in stage.outs else say.REASON_NOT_MADE.format(path=path))


def _outputs(entry: Mapping[str, Any], state: _ForecastState) -> list[Reason]:
    reasons = []
    for out in entry.get("outs", []):
        now = hash_path(state.root, out["path"], state.repo)
        if now is None:
            reasons.append(Reason("output", say.REASON_GONE.format(path=out["path"])))
        elif now != out.get("md5"):
            reasons.append(Reason("output", say.REASON_EDITED.format(path=out["path"])))
    return reasons


def differences(old: Any, new: Any, path: str = "") -> Iterator[Reason]:
    """Yield a reason per leaf in which two parameter values differ."""
    if isinstance(old, dict) and isinstance(new, dict) and (old and new):
        for key in sorted(old.keys() | new.keys(), key=str):  # YAML has keys of any type
            before, after = old.get(key), new.get(key)
            if before is None and after is None and (key in old) != (key in new):
                before, after = ("null", None) if key in old else (None, "null")  # for DVC a missing key is not one without a value
            yield from differences(before, after, f"{path}.{key}" if path else str(key))
    # By value, as DVC compares: 1, 1.0 and True are equal.
    elif old != new:
        yield Reason("parameter", path.removeprefix("params."), old, new)


def _short(value: Any) -> str:
    if value is None:
        return "(none)"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
