"""A benchmark as it was at a git revision or in a DVC experiment: what its score stage read, from git and DVC's cache.

Nothing is checked out. The lock of that commit says what the score stage read and by which hashes; links to those objects
of the cache make a folder that readers take for a checkout.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.compiler.plan.plan import PlannedStage, writers
from qualm.compiler.project.checkout import Project
from qualm.compiler.results.scores import results_in
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError, nearest
from qualm.registry.parameters import nested_paths, to_lists
from qualm.registry.system import atomic
from qualm.registry.system.dvc_files import cache_folder, parse_lock, read_config
from qualm.registry.system.dvc_objects import damaged_objects, holds, link, listing, object_path
from qualm.registry.system.dvc_remote import RemoteStore
from qualm.registry.system.git import output, refusal

if TYPE_CHECKING:
    from qualm.runners.results.results import Results

EXPERIMENTS = "refs/exps"
NOT_EXPERIMENTS = ("celery", "stash", "exec", "queue")
"""Names that DVC keeps under refs/exps beside experiments."""


@dataclass(frozen=True)
class Benchmark:
    """A spec's results and planned stages at a git revision."""

    results: Results
    stages: tuple[PlannedStage, ...]


def commit_of(project: Project, revision: str) -> str:
    """Return the full commit hash of a git revision or DVC experiment; else ProjectError.

    Raises:
        ProjectError: it stands for none, or for several experiments.
    """
    commit_line = output(project.root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if commit_line is not None:
        return commit_line.strip()
    experiments: dict[str, set[str]] = {}
    for line in (output(project.root, "for-each-ref", "--format=%(objectname) %(refname)", EXPERIMENTS) or "").splitlines():
        commit, _, ref = line.partition(" ")
        parts = ref.removeprefix(f"{EXPERIMENTS}/").split("/")
        if parts[0] not in NOT_EXPERIMENTS:
            experiments.setdefault(parts[-1], set()).add(commit)
    commits = experiments.get(revision, set())
    if len(commits) > 1:
        raise ProjectError(f"'{revision}' is the name of {len(commits)} experiments; give the commit, of {', '.join(sorted(commits))}")
    if not commits:
        if refused := refusal(project.root):
            raise ProjectError(f"'{revision}' cannot be looked up: {refused}")
        hint = f"; {nearest(revision, experiments)}" if experiments else ""
        if output(project.root, "rev-parse", "--verify", "--quiet", "HEAD") is None:
            raise ProjectError("nothing is committed yet to compare with; commit this state first: git add -A && git commit -m 'First run'")
        raise ProjectError(f"'{revision}' is neither a git revision nor a DVC experiment here{hint}")
    return commits.pop()


def specs_at(project: Project, commit: str) -> list[str]:
    listed = output(project.root, "ls-tree", "-z", "--name-only", commit, "specs/") or ""
    return sorted(Path(name).stem for name in listed.split("\0") if name.endswith(".yaml"))


def benchmark_at(project: Project, revision: str, spec: str, pull: bool = False, tables: bool = False) -> Benchmark:
    """Return a spec's results and stages at a revision, from the cache; else ProjectError.

    Args:
        project: whose revision.
        revision: of git, or the name of an experiment.
        spec: its name at that revision.
        pull: fetch objects that the cache lacks from the default remote.
        tables: include the tables that scoring wrote.

    Raises:
        ProjectError: there is no such spec, it was not scored there, or the cache lacks what it read.
    """
    commit, stages, scored, hashes = _find_score_stage(project, revision, spec)
    paths = [*nested_paths(scored.inputs), *(path for path in nested_paths(scored.outputs) if tables and path.endswith(".parquet"))]
    objects = {path: _locked_hash(path, hashes, revision) for path in paths}
    place = f"{spec}-{commit[:16]}{'-tables' if tables else ''}"
    root = _folder(project, f"{revision}:{spec}", place, objects, pull)
    return Benchmark(results_in(stages.values(), scored, spec, root), tuple(stages.values()))


def scores_at(project: Project, revision: str, spec: str, pull: bool = False) -> Path:
    """Return the path of a copy of scores.parquet as it was at a revision.

    Arguments and errors are those of `benchmark_at`.
    """
    commit, _, scored, hashes = _find_score_stage(project, revision, spec)
    path = str(scored.outputs["scores"])
    return _folder(project, f"{revision}:{spec}", f"{spec}-{commit[:16]}-scores", {path: _locked_hash(path, hashes, revision)}, pull) / path


def _find_score_stage(project: Project, revision: str, spec: str) -> tuple[str, dict[str, PlannedStage], PlannedStage, dict[str, str]]:
    """Return commit, {name: stage}, score stage, {its locked path: MD5}; else ProjectError."""
    commit = commit_of(project, revision)
    if spec not in specs_at(project, commit):
        raise ProjectError(f"{revision} has no spec '{spec}'; {nearest(spec, specs_at(project, commit))}")
    stages = _stages(project, commit, spec)
    scored = next(writers(stages.values(), "scores"), None)
    if scored is None:
        raise ProjectError(f"{revision}: '{spec}' has no compiled score stage; it has no metrics, or was never compiled there")
    locked = _lock_entries(project, commit, spec)
    if scored.name not in locked:
        raise ProjectError(
            f"{revision}: '{spec}' was compiled but not run there: its lock has no stage '{scored.name}'; name a revision with results"
        )
    entries = [entry for kind in ("deps", "outs") for entry in locked[scored.name].get(kind) or []]
    return commit, stages, scored, {entry["path"]: str(entry.get("md5")) for entry in entries}


def _stages(project: Project, commit: str, spec: str) -> dict[str, PlannedStage]:
    stages = {}
    for name in (output(project.root, "ls-tree", "-z", "--name-only", commit, f"specs/{spec}/stages/") or "").split("\0"):
        if name.endswith(".json"):
            stage = Path(name).stem
            try:
                raw = json.loads(output(project.root, "show", f"{commit}:{name}") or "{}")
                stages[stage] = PlannedStage(
                    stage, raw["kind"], "", to_lists(raw["params"]), raw["inputs"], raw["outputs"], raw["seed"], ()
                )
            except (ValueError, KeyError, TypeError) as error:
                raise ProjectError(
                    f"{commit[:10]}:{name}: not a stage as this version compiles them ({type(error).__name__}: {error}); "
                    "`qualm compare` of a checkout of that commit reads it"
                ) from None
    return stages


def _lock_entries(project: Project, commit: str, spec: str) -> Mapping[str, Any]:
    """Return {stage name: lock entry} of a spec at a commit; {} without any.

    The default spec's entries are in the lock of the root.
    """
    for place in (f"specs/{spec}/dvc.lock", "dvc.lock"):
        text = output(project.root, "show", f"{commit}:{place}")
        stages = parse_lock(text, f"{place} at {commit[:10]}")
        mine = {name: entry for name, entry in stages.items() if str(entry.get("cmd", "")).split()[-1:] == [f"{spec}/{name}"]}
        if mine:
            return mine
    return {}


def _locked_hash(path: str, hashes: Mapping[str, str], revision: str) -> tuple[str, str]:
    """Return (locked path, MD5) of `path` or its nearest locked parent; else ProjectError."""
    for candidate in (path, *(p.as_posix() for p in Path(path).parents)):
        if candidate in hashes:
            return candidate, hashes[candidate]
    raise ProjectError(
        f"{revision}: its lock does not name {path}; it was compiled after it was run: compare a commit whose lock is in step"
    )


def _folder(project: Project, name: str, place: str, objects: Mapping[str, tuple[str, str]], pull: bool) -> Path:
    """Replace .qualm/revisions/PLACE by links to cached objects; return it; else ProjectError.

    Args:
        name: of the revision and spec, for messages.
        objects: {path: (locked path, MD5)}; links lie at the locked paths.
        pull: fetch missing objects from the default remote.

    Raises:
        ProjectError: an object is not in the cache, or damaged.
    """
    cache = cache_folder(project.root)
    if pull:
        _pull(project, {md5: path for path, md5 in objects.values()})
    lacking = []
    for path, md5 in sorted(set(objects.values())):
        if not holds(cache, md5):
            lacking.append(f"{path} ({md5})")
        elif damaged := damaged_objects(project.root, md5):
            raise ProjectError(f"{name}: {path} is damaged in DVC's cache: {damaged[0]}; remove that file, and `--pull` fetches it")
    if lacking:
        some = say.list_some(lacking, 3)
        if pull:
            raise ProjectError(
                f"{name}: neither in DVC's cache here nor on the default remote: {some}; "
                "where they are, `qualm share` at that commit sends them; or `qualm run SPEC` makes them again in a clone of it"
            )
        raise ProjectError(
            f"{name}: not in DVC's cache here: {some}; `--pull` fetches them from the default remote, if they were shared (`qualm share`)"
        )
    root = atomic.scratch_folder(project.root / ".qualm" / "revisions") / place
    shutil.rmtree(root, ignore_errors=True)
    for path, md5 in set(objects.values()):
        link(cache, md5, root / path)
    return root


def _pull(project: Project, objects: Mapping[str, str]) -> None:
    cache, default = cache_folder(project.root), read_config(project.root)["core"].get("remote")
    if default is None:
        raise ProjectError("no remote is the default; `dvc remote add -d lab URL` adds one (docs/how-to/sharing.md has recipes)")
    with RemoteStore(project.root, default) as store:
        store.get(h for h in objects if not object_path(cache, h).is_file())
        inside = {h for md5 in objects if md5.endswith(".dir") for h in (listing(cache, md5) or {}).values()}
        store.get(h for h in inside if not object_path(cache, h).is_file())
