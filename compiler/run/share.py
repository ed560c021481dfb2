"""`qualm share`: send what a clone needs to a remote, and check that a clone would then run nothing.

It sends the objects of every lock and `.dvc` file in git's history and all records of the run cache with their objects. `dvc push -A
--run-cache` leaves out files that git keeps (`metrics.json`), without which a record restores nothing in another clone, and a relative
URL in an old commit's `.dvc/config` leads it to the root of the file system.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.markup import escape

from qualm.compiler.plan.emit import pipeline_path
from qualm.compiler.project.checkout import Project
from qualm.compiler.project.rebuilds import Forecast, forecast_clone
from qualm.compiler.project.views import console
from qualm.compiler.results.integrity import changed_results
from qualm.compiler.run.project_objects import (
    ever_tracked,
    objects_now,
    objects_of_history,
    objects_of_runs,
    records_hashes,
    tracked_files,
    with_files,
)
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.system.console import Console
from qualm.registry.system.dvc_files import cache_folder, dvc_errors, read_config, read_lock
from qualm.registry.system.dvc_objects import is_damaged, listing, object_path
from qualm.registry.system.dvc_remote import RemoteStore
from qualm.registry.system.git import git, output
from qualm.registry.text import print_json


@dataclass(frozen=True)
class ShareRequest:
    remote: str | None = None
    check: bool = False
    """Clone, pull and verify what was pushed."""
    repair: bool = False
    anyway: bool = False
    dry: bool = False
    spec: str | None = None
    """Spec that must be up to date; None for all that have run."""


@dataclass
class ShareResult:
    """Result of `qualm share`: obstacles, and objects sent and needed."""

    to: ShareTarget
    specs: list[str]
    """Specs that were checked."""
    obstacles: list[Obstacle] = field(default_factory=list)
    sent: int | None = None
    """Number of objects sent; None if sharing stopped before."""
    runs: int | None = None
    """Number of run records sent; None if the remote cannot keep any."""
    needed: int = 0
    """Number of objects that a clone of this commit needs."""
    damaged: list[str] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    checked: bool = False

    @property
    def good(self) -> bool:
        return not any(f.blocks for f in self.obstacles)

    def as_json(self) -> dict[str, Any]:
        return {
            "remote": self.to.name, "url": self.to.url, "good": self.good, "sent": self.sent, "runs": self.runs, "needed": self.needed,
            "checked": "clone" if self.checked else "names", "damaged": self.damaged, "repaired": self.repaired,
            "findings": [asdict(f) for f in self.obstacles],
        }  # fmt: skip


def share(project: Project, request: ShareRequest, as_json: bool) -> bool:
    """Send a spec's data to the remote and print obstacles; return whether none blocks a clone.

    Raises:
        ProjectError: there is no such remote.
        DvcStateError: the remote cannot be reached.
    """
    outcome = ShareResult(find_remote(project, request.remote), specs_to_share(project, request.spec))
    outcome.obstacles += obstacles(project, outcome.to, outcome.specs)
    if not request.dry and (request.anyway or outcome.good):
        with RemoteStore(project.root, outcome.to.name) as store:
            _send(project.root, store, outcome)
            if request.check or request.repair:
                with Console(stderr=True).status(say.SHARE_CLONING):
                    _rehearse(project.root, store, outcome, request.repair)
    if as_json:
        print_json(outcome.as_json())
    else:
        _show(outcome, request)
    return outcome.good


def _send(root: Path, store: RemoteStore, outcome: ShareResult) -> None:
    """Send objects that the remote lacks; record counts and obstacles in `outcome`."""
    cache, now, (history, unreadable) = cache_folder(root), objects_now(root), objects_of_history(root)
    store.get({h for h in now if h.endswith(".dir") and listing(cache, h) is None})  # listings name the needed files
    needed, before = with_files(now, cache), with_files({**objects_of_runs(root), **history}, cache)
    paths = {**before, **needed}
    there = store.has(paths)
    here = {h for h in paths.keys() - there if object_path(cache, h).is_file()}
    damaged = {h for h in here if is_damaged(object_path(cache, h), h)}
    failed = store.put(here - damaged)
    sent = here - damaged - failed
    outcome.sent, outcome.needed, outcome.runs = len(sent), len(needed), store.put_runs()
    outcome.obstacles += _unsent(damaged, failed, needed, paths, needed.keys() - there - here, outcome.to.name)
    in_git = ever_tracked(root)
    if lost := {h for h in history.keys() - there - here - needed.keys() if history[h] not in in_git}:
        what = say.SHARE_LOST_HISTORY.format(objects=say.count(len(lost), "object"), names=_named(lost, history))
        outcome.obstacles.append(Obstacle("history", what, say.SHARE_LOST_HISTORY_TODO, blocks=False))
    if unreadable:
        what = say.SHARE_UNREADABLE_HISTORY.format(files=", ".join(sorted(unreadable)))
        outcome.obstacles.append(Obstacle("history", what, say.SHARE_UNREADABLE_HISTORY_TODO, blocks=False))
    if outcome.runs is None:
        outcome.obstacles.append(Obstacle("run cache", say.SHARE_NO_RUN_CACHE, say.SHARE_NO_RUN_CACHE_TODO, blocks=False))


def _unsent(
    damaged: set[str], failed: set[str], needed: Mapping[str, str], paths: Mapping[str, str], lacking: set[str], remote: str
) -> Iterator[Obstacle]:
    if damaged:
        what = say.SHARE_DAMAGED_HERE.format(objects=say.count(len(damaged), "object"), names=_named(damaged, paths))
        yield Obstacle("damaged", what, say.SHARE_DAMAGED_HERE_TODO, blocks=bool(damaged & needed.keys()))
    if lacking:
        what = say.SHARE_MISSING.format(objects=say.count(len(lacking), "object"), names=_named(lacking, paths))
        yield Obstacle("missing", what, say.SHARE_MISSING_TODO)
    if failed:
        what = say.SHARE_UNSENT.format(objects=say.count(len(failed), "object"), names=_named(failed, paths))
        yield Obstacle("missing", what, say.SHARE_UNSENT_TODO.format(remote=remote))


def _named(hashes: Collection[str], paths: Mapping[str, str]) -> str:
    return "; ".join(sorted(f"{paths[h]} ({h})" for h in hashes)[:5])


def _rehearse(root: Path, store: RemoteStore, outcome: ShareResult, repair: bool) -> None:
    """Check the remote by a clone; with `repair` replace damaged objects; record problems."""
    outcome.checked, local_cache = True, cache_folder(root)
    (root / ".qualm").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="clone-", dir=root / ".qualm", ignore_cleanup_errors=True) as folder:
        clone = Path(folder) / "clone"
        cache = clone / ".dvc" / "cache"
        _clone(root, clone, outcome.to)
        pulled = _call(clone, "dvc", "pull", "--run-cache", "--remote", outcome.to.name)
        needed = with_files(objects_now(clone), cache, local_cache)
        lost = {h for h in needed if not object_path(cache, h).is_file()}
        if lost and repair:
            intact = {h for h in lost if object_path(local_cache, h).is_file() and not is_damaged(object_path(local_cache, h), h)}
            for md5 in store.has(intact):
                store.remove(md5)
            outcome.repaired = sorted(intact - store.put(intact))
        outcome.damaged = sorted(lost.difference(outcome.repaired))
        if outcome.damaged:
            what = say.SHARE_DAMAGED_THERE.format(objects=say.count(len(outcome.damaged), "object"), names=_named(outcome.damaged, needed))
            outcome.obstacles.append(Obstacle("damaged", what, say.SHARE_DAMAGED_THERE_TODO.format(remote=outcome.to.name)))
        elif pulled.returncode and not lost:
            what = say.SHARE_PULL_FAILED.format(error=pulled.stderr.strip())
            outcome.obstacles.append(Obstacle("clone", what, say.SHARE_PULL_FAILED_TODO.format(folder=root)))
        outcome.obstacles += () if lost else _runs(clone, outcome.specs)


def _clone(root: Path, to: Path, remote: ShareTarget) -> None:
    git(root, "clone", "--quiet", str(root), str(to))
    secrets = root / ".dvc" / "config.local"
    if secrets.is_file():
        shutil.copyfile(secrets, to / ".dvc" / "config.local")
    with dvc_errors(
        f"remote '{remote.name}': could not be set up in the temporary clone of this check", "`dvc config --list --show-origin` says more"
    ):
        from dvc.config import Config

        with Config(str(to / ".dvc")).edit("local") as settings:
            settings["cache"]["dir"] = str(to / ".dvc" / "cache")
            settings["remote"].setdefault(remote.name, {}).update(url=remote.url, verify=True)


def _runs(clone: Path, specs: list[str]) -> Iterator[Obstacle]:
    for spec in specs:
        done = _call(clone, "qualm", "plan", spec, "--json")
        if done.returncode != 0:
            what = say.SHARE_NO_PLAN.format(spec=spec, error=done.stderr.strip())
            yield Obstacle("clone", what, say.SHARE_NO_PLAN_TODO.format(spec=spec))
        elif active := [f["stage"] for f in json.loads(done.stdout) if f["action"] != "unchanged"]:
            what = say.SHARE_CLONE_RUNS.format(spec=spec, stages=", ".join(active))
            yield Obstacle("clone", what, say.SHARE_CLONE_RUNS_TODO.format(spec=spec))


def _call(folder: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", module, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", errors="replace", check=False)


def _show(outcome: ShareResult, request: ShareRequest) -> None:
    out = console()
    for finding in outcome.obstacles:
        sign = "[bold red]![/]" if finding.blocks else "[yellow]·[/]"
        out.print(f"{sign} {escape(finding.what)}\n    {escape(finding.todo)}")
    name = f"[bold]{escape(outcome.to.name)}[/] ({escape(outcome.to.url)})"
    if outcome.repaired:
        out.print(say.SHARE_REPLACED.format(remote=name, objects=say.count(len(outcome.repaired), "object")))
    if outcome.sent is None:
        if request.dry:
            out.print((say.SHARE_READY if outcome.good else say.SHARE_NOT_READY).format(remote=name))
        else:
            out.print(say.SHARE_NOT_SENT.format(remote=name))
        return
    runs = say.NO_RUN_RECORDS if outcome.runs is None else say.RUN_RECORDS.format(n=outcome.runs)
    out.print(
        say.SHARE_SENT.format(remote=name, objects=say.count(outcome.sent, "object"), runs=runs, needed=say.count(outcome.needed, "object"))
    )
    if not outcome.specs:
        out.print(say.SHARE_NO_SPEC_HAS_RUN)
    elif outcome.good:
        how = say.SHARE_CHECKED if outcome.checked else say.SHARE_THERE_BY_NAME
        out.print(say.SHARE_NOTHING_RUNS.format(specs=" ".join(outcome.specs), how=how))


SECRETS = (
    "password", "secret_access_key", "session_token", "token", "sse_customer_key", "sas_token", "account_key", "connection_string",
    "client_secret", "oss_key_secret", "gdrive_client_secret",
)  # fmt: skip
"""Settings of remotes that belong into .dvc/config.local, which git ignores."""

CHECKED_FOLDERS = ("specs", "results", "registry", "runners", "compiler", ".dvc")
"""Folders in which a file unknown to git may belong to a benchmark."""

MAX_LISTED = 8


@dataclass(frozen=True)
class Obstacle:
    kind: str
    """Before sending: uncommitted, secret, out of date, not in git, local remote, unverified, hidden remote. After: run cache,
    changed, history, missing, damaged, clone."""
    what: str
    todo: str
    blocks: bool = True
    """True if nothing is sent until it is resolved; other findings are notes."""


@dataclass(frozen=True)
class ShareTarget:
    name: str
    url: str
    is_verified: bool = False
    """True if DVC hashes what it downloads from it."""

    @property
    def folder(self) -> Path | None:
        return Path(self.url) if "://" not in self.url else None


def find_remote(project: Project, remote: str | None) -> ShareTarget:
    """Return the DVC remote of this name, or the default one; else ProjectError.

    Raises:
        ProjectError: no remote has that name, no default is set, or the remote is a folder of this repository.
    """
    settings = read_config(project.root)
    remotes = settings["remote"]
    name = remote or settings["core"].get("remote", "")
    if name not in remotes:
        raise ProjectError(
            (f"there is no remote '{name}'; " if name else "no remote is the default; ")
            + (f"there are: {', '.join(sorted(remotes))}. " if remotes else "the project has none. ")
            + ("Choose one by `dvc remote default NAME`" if remotes and not name else "Add one by `dvc remote add -d lab URL`")
            + " (docs/how-to/sharing.md has recipes)"
        )
    chosen = ShareTarget(name, remotes[name]["url"], remotes[name].get("verify", False))
    if chosen.folder is not None and _in_git(project.root, chosen.folder):
        raise ProjectError(
            f"remote '{name}' is a folder of this repository ({chosen.folder}): what is pushed there would go into git. "
            "Add a remote of your lab by `dvc remote add -d lab URL`, or name one: `qualm share REMOTE` (recipes: docs/how-to/sharing.md)"
        )
    return chosen


def obstacles(project: Project, to: ShareTarget, specs: list[str]) -> list[Obstacle]:
    return [*_uncommitted(project.root), *_settings(project.root, to), *_pipelines(project, specs)]


def specs_to_share(project: Project, spec: str | None = None) -> list[str]:
    """Return `spec` and those that it reads, or all that have run; ProjectError if it has not.

    Raises:
        ProjectError: it has not run.
    """
    default = project.run_wide.default
    ran = [s for s in project.specs() if read_lock((project.root / pipeline_path(s, default)).with_suffix(".lock"))]
    if spec is None:
        return ran
    plan = project.plan(spec)
    if plan.spec not in ran:
        raise ProjectError(f"'{plan.spec}' has not run here: there is nothing to share; `qualm run {plan.spec}`")
    return [plan.spec, *(before.spec for before in project.before(plan))]


def out_of_date(forecasts: dict[str, list[Forecast]]) -> Iterator[Obstacle]:
    """Yield up to two obstacles per spec: stages that a clone would run, and could not run."""
    messages = {"run": (say.SHARE_OUT_OF_DATE, say.SHARE_OUT_OF_DATE_TODO), "blocked": (say.SHARE_CANNOT_RUN, say.SHARE_CANNOT_RUN_TODO)}
    for spec, forecast in forecasts.items():
        for action, (what, todo) in messages.items():
            if stages := [f for f in forecast if f.action == action]:
                first = say.list_some((f"{f.stage}: {f.reasons[0]}" for f in stages), 3, separator="; ")
                stage_count = say.count(len(stages), "stage")
                yield Obstacle("out of date", what.format(spec=spec, stages=stage_count, first=first), todo.format(spec=spec))


def _uncommitted(root: Path) -> Iterator[Obstacle]:
    changed = []
    for line in git(root, "status", "--porcelain", "--no-renames", "-z").split("\0"):
        state, path = line[:2], line[3:]
        if path and (state != "??" or path.split("/")[0] in CHECKED_FOLDERS or records_hashes(path)):
            changed.append(path)
    if changed:
        yield Obstacle("uncommitted", say.SHARE_UNCOMMITTED.format(files=say.list_some(changed, MAX_LISTED)), say.SHARE_UNCOMMITTED_TODO)


def _settings(root: Path, to: ShareTarget) -> Iterator[Obstacle]:
    shared = read_config(root, shared=True)["remote"]
    for name, values in shared.items():
        if leaked := [key for key in SECRETS if key in values]:
            what = say.SHARE_LEAK.format(remote=name, settings=", ".join(leaked), verb="stands" if len(leaked) == 1 else "stand")
            yield Obstacle("secret", what, say.SHARE_LEAK_TODO.format(remote=name, setting=leaked[0]))
    if to.name not in shared:
        what, todo = say.SHARE_HIDDEN_REMOTE.format(remote=to.name), say.SHARE_HIDDEN_REMOTE_TODO.format(remote=to.name, url=to.url)
        yield Obstacle("hidden remote", what, todo, blocks=False)
    if to.folder is not None:
        what = say.SHARE_LOCAL_REMOTE.format(remote=to.name, folder=to.folder)
        yield Obstacle("local remote", what, say.SHARE_LOCAL_REMOTE_TODO, blocks=False)
    elif not to.is_verified:
        what, todo = say.SHARE_UNVERIFIED.format(remote=to.name), say.SHARE_UNVERIFIED_TODO.format(remote=to.name)
        yield Obstacle("unverified", what, todo, blocks=False)


def _pipelines(project: Project, specs: list[str]) -> Iterator[Obstacle]:
    plans = [project.plan(spec) for spec in specs]
    default = project.run_wide.default
    yield from out_of_date(forecast_clone(plans, project.root, default))
    for notice in changed_results(project.root, (out for plan in plans for stage in plan.stages for out in stage.outs)):
        yield Obstacle("changed", notice, say.SHARE_CHANGED_TODO)
    tracked = tracked_files(project.root)
    folders = {str(parent) for name in tracked for parent in Path(name).parents}
    outputs = {out for plan in plans for stage in plan.stages for out in stage.outs}
    tracked_data = {name.removesuffix(".dvc") for name in tracked if name.endswith(".dvc")}
    kept_in_git = {stage.outputs[key] for plan in plans for stage in plan.stages for key in stage.kept_in_git}
    read = {path for plan in plans for stage in plan.stages for path in stage.deps}
    lost = sorted(
        path
        for path in (read - outputs) | kept_in_git
        if path not in tracked | folders
        and not tracked_data & {path, *(p.as_posix() for p in Path(path).parents)}
        and (project.root / path).exists()
    )
    if lost:
        yield Obstacle("not in git", say.SHARE_NOT_IN_GIT.format(files=say.list_some(lost, MAX_LISTED)), say.SHARE_NOT_IN_GIT_TODO)


def _in_git(root: Path, folder: Path) -> bool:
    top = Path(git(root, "rev-parse", "--show-toplevel").strip()).resolve()
    return top in folder.resolve().parents and output(root, "check-ignore", "--no-index", str(folder)) is None
