"""Compare result files with the hashes in dvc.lock, before a command shows or exports them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.project.rebuilds import differences
from qualm.compiler.spec import sentences as say
from qualm.registry.system.dvc_files import DvcStateError, read_lock
from qualm.registry.system.dvc_objects import hash_path, open_repo
from qualm.registry.text import complain

MAX_NAMES = 3
"""Files that one notice names."""


class ChangedResultsWarning(UserWarning):
    """Warning that a result file differs from its hash in dvc.lock."""


def changed_results(root: Path, paths: Iterable[str | Path]) -> list[str]:
    """Return a warning per spec whose result files differ from dvc.lock; [] if none does.

    Missing files, files that no lock records, and paths outside `results/` are not reported. Hashes of unchanged files
    are remembered.

    Args:
        root: Root of the project.
        paths: Files and folders, absolute or relative to `root`. A file in a recorded folder stands for that folder.
    """
    changed: dict[tuple[str, str], list[str]] = {}
    try:
        with ExitStack() as stack:
            repo = cache(lambda: stack.enter_context(open_repo(root)))
            for output, spec, lock, md5 in _recorded(root, paths):
                # Only folders need DVC, which remembers the hashes of their files; importing it takes half a second.
                if md5 and hash_path(root, output, repo() if md5.endswith(".dir") else None) not in (None, md5):
                    changed.setdefault((spec, lock), []).append(output)
    except DvcStateError as error:
        return [say.HASHES_NOT_COMPARED.format(error=error)]
    return [
        (say.RESULT_DIFFERS if len(outputs) == 1 else say.RESULTS_DIFFER).format(files=_named(outputs), lock=lock, spec=spec)
        for (spec, lock), outputs in changed.items()
    ]


def report_changed(root: Path, paths: Iterable[str | Path]) -> list[str]:
    """Print the sentences of `changed_results` on standard error; return them."""
    notices = changed_results(root, paths)
    for notice in notices:
        complain(notice)
    return notices


def may_publish(root: Path, paths: Iterable[str | Path], force: bool) -> bool:
    """Return whether results may be exported: unchanged, or `force`; print warnings."""
    paths = list(paths)
    if report_changed(root, paths):
        if not force:
            complain(say.PUBLISH_REFUSED)
        return force
    if outputs := [output for output, _, _, md5 in _recorded(root, paths) if not md5 and (root / output).exists()]:
        complain((say.RESULT_NOT_RECORDED if len(outputs) == 1 else say.RESULTS_NOT_RECORDED).format(files=_named(outputs)))
    return True


def edited_since(root: Path, plan: Plan, shown: PlannedStage) -> str:
    """Return a sentence if `shown` or a stage before it has edits since its run, or "".

    The stages that it reads from count too.

    Args:
        root: Root of the project.
        plan: Plan of the spec as it is now.
        shown: Stage whose outputs are shown.
    """
    lock = next((stages for _, stages in _locks(root, plan.spec) if _tracked(stages, plan.spec, shown.name)), None)
    if lock is None:
        return ""
    reads, upstream = set[str](), list[PlannedStage]()
    for stage in reversed(plan.stages):
        if stage.name == shown.name or reads & set(stage.outs):
            upstream.insert(0, stage)
            reads |= set(stage.deps)
    for stage in upstream:
        old = _tracked(lock, plan.spec, stage.name)
        edits = differences(old, {key: stage.tracked.get(key) for key in old}) if stage.name in lock else ["is new"]
        if edit := next(map(str, edits), ""):
            return say.RESULTS_OF_EARLIER_SPEC.format(spec=plan.spec, stage=stage.name, edit=edit)
    return ""


def _tracked(lock: dict[str, Any], spec: str, stage: str) -> dict[str, Any]:
    """Return {"params", "seed"} of a stage's last run from its lock; {} if not there."""
    content = lock.get(stage, {}).get("params", {}).get(f"specs/{spec}/stages/{stage}.json", {})
    return {key: content[key] for key in ("params", "seed") if key in content}


def _recorded(root: Path, paths: Iterable[str | Path]) -> Iterator[tuple[str, str, str, str]]:
    """Yield (output, spec, lock file, MD5 or "") for the outputs that hold these paths.

    Lock file and hash are "" where no lock names the output. Paths outside `results/` are left out.
    """
    locks: dict[str, dict[str, tuple[str, str]]] = {}
    seen = set[str]()
    for path in paths:
        file = root / path
        parts = file.relative_to(root).parts if file.is_relative_to(root) else ()
        if len(parts) < 3 or parts[0] != "results":
            continue
        if parts[1] not in locks:
            entries = [(name, entry) for name, lock in _locks(root, parts[1]) for entry in lock.values()]
            locks[parts[1]] = {out["path"]: (name, out.get("md5") or "") for name, entry in entries for out in entry.get("outs") or ()}
        candidates = ["/".join(parts[:n]) for n in range(len(parts), 2, -1)]
        output = next((c for c in candidates if c in locks[parts[1]]), candidates[0])
        if output not in seen:
            seen.add(output)
            yield output, parts[1], *locks[parts[1]].get(output, ("", ""))


def _locks(root: Path, spec: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (path, {stage: entry}) of dvc.lock and of the spec's own lock, if they exist."""
    for name in ("dvc.lock", f"specs/{spec}/dvc.lock"):
        file = root / name
        if file.is_file():
            status = file.stat()
            yield name, _read_lock(file, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=16)
def _read_lock(file: Path, modified: int, size: int) -> dict[str, Any]:
    return read_lock(file)


def _named(outputs: list[str]) -> str:
    """Return up to MAX_NAMES names as words, "a, b and c", and how many more."""
    if len(outputs) > MAX_NAMES:
        return say.list_some(outputs, MAX_NAMES)
    return " and ".join(filter(None, (", ".join(outputs[:-1]), outputs[-1])))
