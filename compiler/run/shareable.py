"""Obstacles to sharing: what a colleague's clone would lack, compute again, or reveal."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from qualm.compiler.plan.emit import pipeline_path
from qualm.compiler.project.checkout import Project
from qualm.compiler.project.rebuilds import Forecast, forecast_clone
from qualm.compiler.results.integrity import changed_results
from qualm.compiler.run.project_objects import records_hashes, tracked_files
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.system.dvc_files import read_config, read_lock
from qualm.registry.system.git import git, output

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
    """Before sending: uncommitted, secret, out of date, not in git, local remote, unverified, hidden remote. After: run cache, legacy,
    history, missing, damaged, clone."""
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


def target(project: Project, remote: str | None) -> ShareTarget:
    """Return a remote by name, or the default one.

    Raises:
        ProjectError: no remote has that name, no default is set, or the remote is a folder of this repository.
    """
    settings = read_config(project.root)
    remotes = settings["remote"]
    name = remote or settings["core"].get("remote", "")
    if name not in remotes:
        names = f"there are: {', '.join(sorted(remotes))}" if remotes else "the project has none"
        what = f"there is no remote '{name}'; {names}" if name else f"no remote is the default; {names}"
        raise ProjectError(f"{what}. Add one by `dvc remote add -d lab URL` (docs/how-to/sharing.md has recipes)")
    chosen = ShareTarget(name, remotes[name]["url"], remotes[name].get("verify", False))
    if chosen.folder is not None and _in_git(project.root, chosen.folder):
        raise ProjectError(
            f"remote '{name}' is a folder of this repository ({chosen.folder}): what is pushed there would go into git. "
            "Add a remote of your lab by `dvc remote add -d lab URL`, or name one: `qualm share REMOTE` (recipes: docs/how-to/sharing.md)"
        )
    return chosen


def obstacles(project: Project, to: ShareTarget, specs: list[str]) -> list[Obstacle]:
    return [*_uncommitted(project.root), *_settings(project.root, to), *_pipelines(project, specs)]


def shared_specs(project: Project, spec: str | None = None) -> list[str]:
    """Return the specs that have run; with `spec`, only that one and those it reads.

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
    """Yield an obstacle for each spec that a fresh clone would run."""
    for spec, stages in forecasts.items():
        if stages:
            first = "; ".join(f"{f.stage}: {f.reasons[0]}" for f in stages[:3])
            more = f" and {len(stages) - 3} more" if len(stages) > 3 else ""
            what = f"{spec}: a colleague's `dvc repro` would run {len(stages)} stages, and what follows from them ({first}{more})"
            yield Obstacle("out of date", what, f"`qualm run {spec}`, then commit its dvc.lock and results")


def _uncommitted(root: Path) -> Iterator[Obstacle]:
    changed = []
    for line in git(root, "status", "--porcelain", "--no-renames", "-z").split("\0"):
        state, path = line[:2], line[3:]
        if path and (state != "??" or path.split("/")[0] in CHECKED_FOLDERS or records_hashes(path)):
            changed.append(path)
    if changed:
        yield Obstacle("uncommitted", f"not committed: {_some(changed)}", "commit them (`git add`, `git commit`), or put them aside")


def _settings(root: Path, to: ShareTarget) -> Iterator[Obstacle]:
    shared = read_config(root, shared=True)["remote"]
    for name, values in shared.items():
        if leaked := [key for key in SECRETS if key in values]:
            todo = f"`dvc remote modify --unset {name} {leaked[0]}`, set it with --local; if it was ever committed, change it"
            yield Obstacle("secret", f"remote '{name}': {', '.join(leaked)} stands in .dvc/config, which git shares", todo)
    if to.name not in shared:
        todo = f"`dvc remote add {to.name} {to.url}` without --local, and commit .dvc/config"
        yield Obstacle("hidden remote", f"remote '{to.name}' is known on this machine only: clones will not find it", todo, blocks=False)
    if to.folder is not None:
        what = f"remote '{to.name}' is the folder {to.folder}: only machines that have it at that path can pull"
        yield Obstacle("local remote", what, "share a disk, or use ssh://, s3:// or webdavs://", blocks=False)
    elif not to.is_verified:
        what = f"remote '{to.name}' is trusted: DVC does not check what it downloads, so a damaged object goes unnoticed"
        yield Obstacle("unverified", what, f"`dvc remote modify {to.name} verify true`, and commit .dvc/config", blocks=False)


def _pipelines(project: Project, specs: list[str]) -> Iterator[Obstacle]:
    plans = [project.plan(spec) for spec in specs]
    default = project.run_wide.default
    yield from out_of_date(forecast_clone(plans, project.root, default))
    for notice in changed_results(project.root, (out for plan in plans for stage in plan.stages for out in stage.outs)):
        yield Obstacle("changed", notice, "`qualm run`; clones get what was recorded")
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
        yield Obstacle(
            "not in git", f"a clone will lack, since neither git nor DVC keeps it: {_some(lost)}", "`git add -f` it, or `dvc add` it"
        )


def _in_git(root: Path, folder: Path) -> bool:
    top = Path(git(root, "rev-parse", "--show-toplevel").strip()).resolve()
    return top in folder.resolve().parents and output(root, "check-ignore", "--no-index", str(folder)) is None


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:MAX_LISTED]) + (f" and {len(listed) - MAX_LISTED:,} more" if len(listed) > MAX_LISTED else "")
