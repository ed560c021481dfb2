"""Compile a plan to the text of dvc.yaml, stages/*.json and ignore files; write only what changed.

The text is a pure function of the plan, sorted and stable, so that it can be reviewed in a diff and checked by `compile --check`.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from qualm.compiler.plan import launcher
from qualm.compiler.plan.compiled_files import HEADER, Leftover, owner
from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.plan.plot_templates import templates
from qualm.compiler.spec.canonical_json import canonical
from qualm.registry import SPEC_STAGE
from qualm.registry.system import atomic
from qualm.runners.contracts.stages import stage_kind

LAUNCHER = "specs/run.py"
MARKER = "All stages of this pipeline depend on this file, which is always the same, so that the stage `spec` runs first.\n"
MARKER_MD5 = hashlib.md5(MARKER.encode(), usedforsecurity=False).hexdigest()
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def plot_templates() -> dict[str, str]:
    """Return {path from the root: text} of the plot templates for DVC."""
    return {f".dvc/plots/{name}": text for name, text in templates().items()}


def pipeline_path(spec: str, default: str) -> str:
    """Return "dvc.yaml" if `default` is the spec's name, else "specs/SPEC/dvc.yaml"."""
    return "dvc.yaml" if spec == default else f"specs/{spec}/dvc.yaml"


def stage_address(spec: str, stage: str, default: str) -> str:
    """Return a stage's name in DVC: "STAGE" of the default spec, else "PATH/dvc.yaml:STAGE"."""
    place = pipeline_path(spec, default)
    return stage if place == "dvc.yaml" else f"{place}:{stage}"


def how_to_make(spec: str, stages: Iterable[str], default: str) -> str:
    """Return "in the project's root: `qualm compile SPEC && dvc repro --pull STAGES`"."""
    addresses = " ".join(stage_address(spec, stage, default) for stage in stages)
    return f"in the project's root: `qualm compile {spec} && dvc repro --pull {addresses}`"


def compiled_texts(plan: Plan, default: str) -> dict[str, str]:
    """Return {path from the root: text} of a plan's files; `default` names the default spec."""
    by_path = {f"specs/{plan.spec}/stages/{s.name}.json": canonical(s.as_json()) for s in plan.stages}
    place = pipeline_path(plan.spec, default)
    by_path[place] = HEADER.format(spec=plan.spec) + _dump(pipeline(plan, up="" if place == "dvc.yaml" else "../../"))
    by_path[f"results/{plan.spec}/.gitignore"] = _ignore_block(plan)
    return by_path


def pipeline(plan: Plan, up: str = "") -> dict[str, Any]:
    """Return the content of dvc.yaml as a dict; `up` is the path to the root ("../../")."""
    content: dict[str, Any] = {"stages": {SPEC_STAGE: _spec_stage(plan, up), **{s.name: _stage(plan, s, up) for s in plan.stages}}}
    if plan.artifacts:
        content["artifacts"] = {
            re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-"): {
                "path": f"{up}{path}",
                "type": "model",
                "desc": f"{name}, trained by {plan.spec}",
            }
            for name, path in sorted(plan.artifacts.items())
        }
    return content


def _spec_stage(plan: Plan, up: str) -> dict[str, Any]:
    """Return the dvc.yaml entry of stage `spec`, which compiles the spec first.

    See `qualm.compiler.project.spec_stage`; `up` is the path to the root ("../../").
    """
    # The compiled parameters are inputs too, so that edits by hand are undone.
    return {
        **_command(plan.spec, up),
        "desc": f"Compile specs/{plan.spec}.yaml",
        "params": [{"params.yaml": None}],
        "deps": [f"specs/{plan.spec}/stages", *plan.sources],
        "outs": [plan.marker],
    }


def _command(argument: str, up: str) -> dict[str, Any]:
    return {"cmd": f"python3 {LAUNCHER} {argument}", **({"wdir": up.rstrip("/")} if up else {})}


def _stage(plan: Plan, stage: PlannedStage, up: str) -> dict[str, Any]:
    content: dict[str, Any] = _command(f"{plan.spec}/{stage.name}", up)
    content["desc"] = stage.desc
    # Parameters are in a file, not in `cmd`, so that DVC reports which of them changed.
    content["params"] = [{f"specs/{plan.spec}/stages/{stage.name}.json": list(stage.tracked)}]
    content["deps"] = [plan.marker, *stage.deps]
    in_git = {stage.outputs[key] for key in stage.kept_in_git}
    content["outs"] = [p for p in stage.outs if p not in in_git]
    # Not among `outs`: with `cache: false` an output would disable the run cache of the stage.
    metrics = sorted(p for p in in_git if p.endswith(".json"))
    if metrics:
        content["metrics"] = [{p: {"cache": False}} for p in metrics]
    styles = stage_kind(stage.kind).plots
    plots = {p: styles[k] for k, p in sorted(stage.outputs.items()) if k in styles}
    if plots:
        content["plots"] = [{p: {"cache": False, **style}} for p, style in plots.items()]
    content["meta"] = {"qualm": {"kind": stage.kind, "spec": plan.spec}}
    return content


def _dump(content: dict[str, Any]) -> str:
    text: str = yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True, default_flow_style=False)
    return text


def _ignore_block(plan: Plan) -> str:
    """Return the text of results/SPEC/.gitignore: the outputs that DVC keeps.

    DVC forgets its own entries if a stage fails.
    """
    base = f"results/{plan.spec}/"
    in_git = {s.outputs[k] for s in plan.stages for k in s.kept_in_git}
    cached = {plan.marker.removeprefix(base), *(o.removeprefix(base) for s in plan.stages for o in s.outs if o not in in_git)}
    return HEADER.format(spec=plan.spec) + "".join(f"/{line}\n" for line in sorted({c.split("/")[0] for c in cached}))


@dataclass
class FileChanges:
    """Files that `write` changed, or would change in a dry run, and leftovers of old specs."""

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    moved: list[tuple[str, str]] = field(default_factory=list)
    pruned: dict[str, list[str]] = field(default_factory=dict)
    unchanged: int = 0
    leftovers: list[Leftover] = field(default_factory=list)
    """Files of deleted specs, which only the user removes."""
    plans: list[Plan] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.written or self.removed or self.moved or self.pruned)


def write(
    root: Path, plans: Iterable[Plan], default: str, extra: dict[str, str] | None = None, dry: bool = False, locks: bool = True
) -> FileChanges:
    """Write compiled files that differ, delete stale ones; return the changes.

    Args:
        default: name of the default spec, whose dvc.yaml is in the root.
        extra: further files, {path from the root: text}.
        dry: write nothing, only find what is out of date.
        locks: arrange dvc.lock too; not while DVC is running.
    """
    changes = FileChanges()
    for plan in plans:
        expected = compiled_texts(plan, default)
        _move_pipeline(root, plan, default, changes, dry)
        for path, text in expected.items():
            _write(root, path, text, changes, dry)
        for stale in sorted((root / f"specs/{plan.spec}/stages").glob("*.json")):
            path = stale.relative_to(root).as_posix()
            if path not in expected:
                changes.removed.append(path)
                if not dry:
                    stale.unlink()
        if locks:
            _arrange_lock(root, plan, default, changes, dry)
    shared = {LAUNCHER: Path(launcher.__file__).read_text(encoding="utf-8"), **(extra or {})}
    for path, text in shared.items():
        _write(root, path, text, changes, dry)
    return changes


def _write(root: Path, path: str, text: str, changes: FileChanges, dry: bool) -> None:
    target = root / path
    # An unchanged file keeps its times, by which DVC, editors and `make` detect changes.
    if target.is_file() and target.read_bytes() == text.encode():
        changes.unchanged += 1
        return
    changes.written.append(path)
    if dry:
        return
    atomic.write_text(target, text)


def _move_pipeline(root: Path, plan: Plan, default: str, changes: FileChanges, dry: bool) -> None:
    here = root / pipeline_path(plan.spec, default)
    for there in (root / "dvc.yaml", root / f"specs/{plan.spec}/dvc.yaml"):
        # A dvc.yaml written by hand has no owner and stays.
        if there == here or owner(there) != plan.spec:
            continue
        changes.removed.append(there.relative_to(root).as_posix())
        locks = (there.with_suffix(".lock"), here.with_suffix(".lock"))
        if locks[0].is_file():
            changes.moved.append((locks[0].relative_to(root).as_posix(), locks[1].relative_to(root).as_posix()))
        if not dry:
            here.parent.mkdir(parents=True, exist_ok=True)
            # Evicted first, since the lock below would overwrite that of the previous default.
            if here.name == "dvc.yaml" and here.parent == root and (other := owner(here)) and other != plan.spec:
                _evict(root, here, other)
            if locks[0].is_file():
                atomic.publish(*locks)
            there.unlink()


def _evict(root: Path, here: Path, other: str) -> None:
    home = root / "specs" / other
    home.mkdir(parents=True, exist_ok=True)
    for suffix in (".yaml", ".lock"):
        if here.with_suffix(suffix).is_file():
            atomic.publish(here.with_suffix(suffix), home / f"dvc{suffix}")


def arrange_lock(text: str, names: Iterable[str]) -> str:
    r"""Return a dvc.lock's text with only the entries in `names` that exist, in their order.

    It edits the text: parsing a long lock takes a second, and formatting could change other bytes.

    >>> print(arrange_lock("schema: '2.0'\nstages:\n  b:\n    cmd: y\n  a:\n    cmd: x\n  c:\n    cmd: z\n", ["a", "b"]), end="")
    schema: '2.0'
    stages:
      a:
        cmd: x
      b:
        cmd: y
    """
    top, entries, after = list[str](), dict[str, list[str]](), list[str]()
    lines = top
    for line in text.splitlines(keepends=True):
        if (name := _entry_name(line)) is not None:
            lines = entries.setdefault(name, [])
        # A line at the left margin is a key beside `stages`, such as `schema`.
        elif not line.startswith(" ") and lines is not top:
            lines = after
        lines.append(line)
    return "".join(line for part in (top, *(entries.get(name, []) for name in names), after) for line in part)


def _entry_name(line: str) -> str | None:
    entry = re.match(r"^  ([^\s:#][^:]*):\s*$", line)
    return entry.group(1).strip("'\"") if entry else None


def _arrange_lock(root: Path, plan: Plan, default: str, changes: FileChanges, dry: bool) -> None:
    path = (root / pipeline_path(plan.spec, default)).with_suffix(".lock")
    if not path.is_file():
        return
    names = [SPEC_STAGE, *(stage.name for stage in plan.stages)]
    before = path.read_text(encoding="utf-8")
    after = arrange_lock(before, names)
    if after == before:
        return
    gone = [name for line in before.splitlines() if (name := _entry_name(line)) is not None and name not in names]
    place = path.relative_to(root).as_posix()
    if gone:
        changes.pruned[place] = gone
    elif not dry:  # an ordinary `dvc repro` appends new entries
        changes.written.append(place)
    if not dry:
        atomic.write_text(path, after)
