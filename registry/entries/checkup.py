"""What `qualm data verify` looks at: entries, results, and the objects of both in DVC's cache, every byte read anew."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from qualm.registry.dvc.damage import Recorded, content, damaged_objects, locked_outputs, set_aside
from qualm.registry.entries.entries import Entry, Verdict, entries, find, verify


def check_entries(root: Path, names: Sequence[str] | None) -> dict[str, Verdict]:
    """Verdicts on the named entries, on all that are here if none is named."""
    chosen = (
        [find(root, n) for n in names if not n.startswith("results/")]
        if names
        else [e for e in entries(root) if e.where in ("here", "broken")]
    )
    return {entry.name: _with_objects(entry) for entry in chosen}


def _with_objects(entry: Entry) -> Verdict:
    verdict = verify(entry)
    record = Recorded(entry.path.relative_to(entry.root).as_posix(), entry.md5) if entry.md5 else None
    objects = _objects(entry.root, record) if record else ()
    return replace(verdict, problems=(*verdict.problems, *objects))


def results(root: Path) -> dict[str, list[Recorded]]:
    """`results/SPEC` -> what its stages made, by the locks."""
    outputs: dict[str, list[Recorded]] = {}
    for lock in (root / "dvc.lock", *sorted((root / "specs").glob("*/dvc.lock"))):
        for path, md5 in locked_outputs(lock).items():
            outputs.setdefault("/".join(path.split("/")[:2]), []).append(Recorded(path, md5))
    return outputs


def check_results(root: Path, names: Sequence[str] | None, aside: bool) -> dict[str, Verdict]:
    """Verdicts on the results of the named specs (`results/SPEC`), of all if nothing is named.

    Args:
        root: of the checkout.
        names: what was asked for; names of entries among them are left alone.
        aside: set what is damaged aside.
    """
    folders = [n.rstrip("/") for n in names or () if n.startswith("results/")]
    return {name: _results(root, records, aside) for name, records in results(root).items() if name in folders or not names}


def _results(root: Path, records: list[Recorded], aside: bool) -> Verdict:
    damaged, problems = [], list[str]()
    for record in records:
        actual, objects = content(root, record.path), _objects(root, record)
        problems += objects
        if actual not in (None, record.md5):
            damaged.append(record.path)
        if aside and (objects or record.path in damaged):
            set_aside(root, record, tree=actual != record.md5)
    return Verdict(len(records), tuple(damaged), (), (), tuple(problems))


def _objects(root: Path, record: Recorded) -> list[str]:
    files = (f.relative_to(root) if f.is_relative_to(root) else f for f in damaged_objects(root, record.md5))
    return [f"damaged in DVC's cache: {file}, of {record.path}" for file in files]
