"""`qualm share`: sends what a clone needs to a remote, and checks whether a clone would then have to run anything.

It sends the objects of every lock and `.dvc` file in git's history and of every record of the run cache, and the records. `dvc push
-A --run-cache` sends less and may send it elsewhere: it leaves out files that git keeps (`metrics.json`), without which a record
restores nothing in another clone, and a relative URL in an old commit's `.dvc/config` leads it to the root of the file system.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from qualm.compiler.project.checkout import Project
from qualm.compiler.sharing.shareable import Obstacle, ShareTarget, obstacles, shared_specs, target
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.terminal.views import console
from qualm.registry.dvc import objects
from qualm.registry.dvc.config import cache_folder
from qualm.registry.dvc.state import held, listing
from qualm.registry.terminal.console import Console
from qualm.registry.text import print_json

if TYPE_CHECKING:
    from qualm.registry.dvc.remote import RemoteStore


@dataclass(frozen=True)
class ShareRequest:
    """What `qualm share` was asked for."""

    remote: str | None = None
    check: bool = False
    """Clone, pull and verify what was pushed."""
    repair: bool = False
    """Replace objects of the remote that are damaged."""
    anyway: bool = False
    """Push in spite of what speaks against it."""
    dry: bool = False
    spec: str | None = None
    """The one that has to be in order; None for all that have run."""


@dataclass
class ShareResult:
    to: ShareTarget
    obstacles: list[Obstacle] = field(default_factory=list)
    sent: int | None = None
    """Objects that the remote lacked and has now; None where nothing was sent."""
    runs: int | None = None
    needed: int = 0
    """Objects that a clone of this commit needs."""
    damaged: list[str] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    checked: bool = False

    @property
    def good(self) -> bool:
        """A clone can rebuild everything by pulling alone."""
        return not any(f.blocks for f in self.obstacles)

    def as_json(self) -> dict[str, Any]:
        return {
            "remote": self.to.name, "url": self.to.url, "good": self.good, "sent": self.sent, "runs": self.runs, "needed": self.needed,
            "checked": "clone" if self.checked else "names", "damaged": self.damaged, "repaired": self.repaired,
            "findings": [f.as_json() for f in self.obstacles],
        }  # fmt: skip


def share(project: Project, request: ShareRequest, as_json: bool) -> bool:
    """`qualm share`. True where a clone of this commit would find everything and run nothing.

    Raises:
        ProjectError: there is no such remote, or it cannot be reached.
    """
    from qualm.registry.dvc.remote import RemoteError, RemoteStore

    outcome = ShareResult(target(project, request.remote))
    specs = shared_specs(project, request.spec)
    outcome.obstacles += obstacles(project, outcome.to, specs)
    try:
        if not request.dry and (request.anyway or outcome.good):
            with RemoteStore(project.root, outcome.to.name) as store:
                _send(project.root, store, outcome)
                if request.check or request.repair:
                    with Console(stderr=True).status("cloning this commit, pulling and hashing all that it needs..."):
                        _rehearse(project, store, outcome, request.repair, specs)
    except RemoteError as error:
        raise ProjectError(f"{error}. `dvc push -r {outcome.to.name} -v` says more; docs/how-to/sharing.md has recipes") from error
    if as_json:
        print_json(outcome.as_json())
    else:
        _show(outcome, request)
    return outcome.good


def _send(root: Path, store: RemoteStore, outcome: ShareResult) -> None:
    """Everything that is here and not there; then what a clone of this commit still lacks."""
    cache, now, then = cache_folder(root), objects.present(root), objects.past(root)
    store.get({h for h in now.paths if h.endswith(".dir") and listing(cache, h) is None})  # or nobody knows which files are needed
    needed, before = now.with_files(cache), {**then.with_files(cache), **objects.recorded(root).with_files(cache)}
    here = held(cache, {**before, **needed})
    there = store.has({*here, *needed})
    damaged = here - there - held(cache, here - there, hashed=True)
    here -= damaged
    if damaged:
        what = f"damaged in DVC's cache and not sent: {_objects(len(damaged))}: {_named(damaged, {**before, **needed})}"
        todo = "`qualm data verify --set-aside`, `qualm run`, which makes them anew, and `qualm share` again"
        outcome.obstacles.append(Obstacle("damaged", what, todo, blocks=bool(damaged & needed.keys())))
    failed = store.put(here - there)
    outcome.sent, outcome.needed, outcome.runs = len(here - there - failed), len(needed), store.put_runs()
    if lacking := needed.keys() - there - (here - failed):
        what = f"neither here nor at the remote: {_objects(len(lacking))} that a clone needs: {_named(lacking, needed)}"
        outcome.obstacles.append(Obstacle("missing", what, "`dvc pull` where they still are and `qualm share` from there, or `qualm run`"))
    if unsent := failed - needed.keys():
        what = f"could not be sent: {_objects(len(unsent))} of earlier commits or runs: {_named(unsent, before)}"
        outcome.obstacles.append(Obstacle("missing", what, f"`qualm share` again; `dvc push -A -r {outcome.to.name} -v` says more"))
    outcome.obstacles += _history(root, store, then, then.paths.keys() - here - needed.keys() - there)
    if outcome.runs is None:
        what = "this kind of remote keeps no run cache: clones can pull this commit, but run again what was run before it"
        outcome.obstacles.append(Obstacle("run cache", what, "use a folder, ssh://, s3:// or webdavs://", blocks=False))
    if now.legacy:
        what = f"{len(now.legacy):,} outputs were recorded by DVC 2 and not sent: {', '.join(sorted(now.legacy)[:5])}"
        outcome.obstacles.append(Obstacle("legacy", what, f"`dvc push -r {outcome.to.name}` sends them", blocks=True))


def _history(root: Path, store: RemoteStore, then: objects.Objects, gone: set[str]) -> Iterator[Obstacle]:
    """What of earlier commits is lost; `gone` is what is neither needed nor here."""
    tracked = objects.ever_tracked(root) if gone else set()
    if lost := {h for h in gone - store.has(gone) if then.paths[h] not in tracked}:
        what = f"neither here nor at the remote: {_objects(len(lost))} of earlier commits: {_named(lost, then.paths)}"
        todo = "nothing, unless somebody needs those commits: they cannot be checked out in full"
        yield Obstacle("history", what, todo, blocks=False)
    if then.unreadable:
        names = ", ".join(sorted(then.unreadable))
        what = f"cannot be read in some earlier commits, so that the objects they name were not checked: {names}"
        yield Obstacle("history", what, "nothing, unless somebody needs those commits", blocks=False)


def _objects(n: int) -> str:
    return f"{n:,} object{'' if n == 1 else 's'}"


def _named(hashes: Iterable[str], paths: Mapping[str, str]) -> str:
    return "; ".join(sorted(f"{paths[h]} ({h})" for h in hashes)[:5])


def _rehearse(project: Project, store: RemoteStore, outcome: ShareResult, repair: bool, specs: list[str]) -> None:
    """Clone this commit, pull with every object hashed anew, and ask the clone what it would run."""
    outcome.checked = True
    place = project.root / ".qualm"
    place.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="clone-", dir=place))
    try:
        clone = _clone(project.root, folder / "clone", outcome.to)
        failure = _dvc(clone, "pull", "--run-cache", "--remote", outcome.to.name)
        cache = clone / ".dvc" / "cache"
        needed = objects.present(clone).with_files(cache, cache_folder(project.root))
        lost = sorted(needed.keys() - held(cache, needed))
        if lost and repair:
            outcome.repaired = _replace(project.root, store, lost)
        outcome.damaged = [h for h in lost if h not in outcome.repaired]
        if outcome.damaged:
            what = f"damaged or gone at the remote: {_objects(len(outcome.damaged))}: {_named(outcome.damaged, needed)}"
            todo = "`qualm share --repair`, run where they are still intact, sends them again"
            outcome.obstacles.append(Obstacle("damaged", what, todo))
        elif failure and not lost:
            outcome.obstacles.append(
                Obstacle("clone", f"`dvc pull` in a clone failed: {failure}", f"`git clone {project.root} ELSEWHERE` and try")
            )
        if not lost:
            outcome.obstacles += _runs(clone, specs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _clone(root: Path, to: Path, remote: ShareTarget) -> Path:
    """A clone of the commit with a cache of its own that hashes what it pulls, and this checkout's credentials."""
    objects.git(root, "clone", "--quiet", str(root), str(to))
    secrets = root / ".dvc" / "config.local"
    if secrets.is_file():
        shutil.copyfile(secrets, to / ".dvc" / "config.local")
    for option, value in (
        ("core.remote", remote.name),
        ("cache.dir", str(to / ".dvc" / "cache")),
        (f"remote.{remote.name}.url", remote.url),
        (f"remote.{remote.name}.verify", "true"),
    ):
        if failure := _dvc(to, "config", "--local", option, value):
            raise ProjectError(f"{option} could not be set in a clone: {failure}")
    return to


def _replace(root: Path, store: RemoteStore, lost: list[str]) -> list[str]:
    """Put whole objects in the place of lost ones; those that could be."""
    cache = cache_folder(root)
    whole = {h for h in lost if held(cache, [h], hashed=True)}
    for md5 in store.has(whole):
        store.remove(md5)
    return sorted(whole - store.put(whole))


def _runs(clone: Path, specs: list[str]) -> list[Obstacle]:
    """What the clone, by its own code, says that it would run."""
    active_stages = []
    for spec in specs:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "qualm", "plan", spec, "--json"],
            cwd=clone,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            active_stages.append(Obstacle("clone", f"{spec} cannot be planned in a clone: {done.stderr.strip()}", f"`qualm plan {spec}`"))
            continue
        active = [f["stage"] for f in json.loads(done.stdout) if f["action"] != "unchanged"]
        if active:
            what = f"{spec}: a clone that pulled everything would still run or restore {', '.join(active)}"
            active_stages.append(Obstacle("clone", what, f"`qualm run {spec}`, commit, share again"))
    return active_stages


def _dvc(folder: Path, *arguments: str) -> str:
    """Run DVC; what it said where it failed, else nothing."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "dvc", *arguments], cwd=folder, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def _show(outcome: ShareResult, request: ShareRequest) -> None:
    out = console()
    for finding in outcome.obstacles:
        sign = "[bold red]![/]" if finding.blocks else "[yellow]·[/]"
        out.print(f"{sign} {escape(finding.what)}\n    {escape(finding.todo)}")
    name = f"[bold]{escape(outcome.to.name)}[/] ({escape(outcome.to.url)})"
    if outcome.repaired:
        out.print(f"replaced at {name}: {_objects(len(outcome.repaired))}")
    if outcome.sent is None:
        if request.dry:
            out.print(f"{name}: {'ready to share' if outcome.good else 'not ready'}; nothing was sent")
        else:
            out.print(f"nothing was sent to {name}; `--anyway` sends it as it is")
        return
    runs = "no records of runs" if outcome.runs is None else f"{outcome.runs:,} records of runs"
    out.print(f"{name}: {_objects(outcome.sent)} sent, {runs}; a clone needs {_objects(outcome.needed)}")
    if outcome.good:
        how = "cloned, pulled and verified" if outcome.checked else "all there by name; `--check` clones, pulls and verifies"
        out.print(f"[green]a clone of this commit runs nothing[/] ({how}). A colleague types: git clone ..., qualm run")
