"""Check of every record of a dataset with its adapter, listing all invalid ones."""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qualm.registry.adapters import AdapterContext, AdapterError, ImageConversionCounts, count_processes, find_problem
from qualm.registry.entries.card import Card, CardError
from qualm.registry.entries.entries import EntryError, Verdict, entries, find, verify
from qualm.registry.plugins.registry import REQUIRED, get, load
from qualm.registry.sample import Image
from qualm.registry.system.dvc_files import RecordedOutput, locked_outputs
from qualm.registry.system.dvc_objects import damaged_objects, hash_path, set_aside

PROGRESS_EVERY = 100
"""Samples between two words about progress."""


@dataclass
class Checked:
    """Result of `check_records`: samples per split, images, problems, notes."""

    splits: Counter[str] = field(default_factory=Counter)
    images: int = 0
    problems: list[str] = field(default_factory=list)
    """Problems of single records with file and line, then the problem that ended the reading, if any. Includes missing parts that stop no
    stage, such as reference options and images of a log, with what to add."""
    notes: list[str] = field(default_factory=list)
    """Counted changes to what models are shown that are no problem."""


def check_records(source: Path | None, card: Card, args: Mapping[str, Any], progress: Callable[[int], None] = lambda n: None) -> Checked:
    """Read all that an adapter yields; return counts and every problem; else CardError.

    Args:
        source: the official files; None for a generator.
        args: others, before the card's.
    """
    if card.adapter is None:
        raise CardError(f"'{card.name}' has no adapter; missing: {card.missing or 'a model and reviews have no records'}")
    arguments = {**card.args, **args}
    lacking = [p.name for p in get("datasets", card.adapter).parameters if p.default is REQUIRED and p.name not in arguments]
    if lacking:
        raise CardError(f"'{card.name}': its adapter {card.adapter} needs {', '.join(lacking)}; give it by -O {lacking[0]}=VALUE")
    if source is not None and not source.is_dir():
        what = "is a file; an archive has to be unpacked first" if source.exists() else "does not exist"
        raise CardError(f"{source}: {what}; expected the folder with the official files")
    report = Checked()
    shown = ImageConversionCounts()
    unanswered: list[str] = []
    images: set[str | None] = set()
    samples: set[str] = set()
    with tempfile.TemporaryDirectory() as scratch:
        context = AdapterContext(
            Path(scratch),
            source=source,
            workers=count_processes(0),
            bad=lambda error: report.problems.append(str(error)),
            note=report.problems.append,
        )
        try:
            for item in load("datasets", card.adapter)(context, **arguments):
                at = f" (at {context.place[0]})" if context.place else ""
                if isinstance(item, Image):
                    if item.image_id in images:
                        report.problems.append(f"image '{item.image_id}' comes twice; image ids must be unique{at}")
                    images.add(item.image_id)
                    if problem := shown.add(item):
                        report.problems.append(f"{problem}{at}")
                elif problem := find_problem(item, images, samples):
                    report.problems.append(f"sample '{item.sample_id}'{problem}{at}")
                else:
                    samples.add(item.sample_id)
                    if item.answerable and not item.references and item.answer_index is None:
                        unanswered.append(f"'{item.sample_id}'{at}")
                    report.splits[item.split] += 1
                    if len(samples) % PROGRESS_EVERY == 0:
                        progress(len(samples))
        except AdapterError as error:
            report.problems.append(str(error))
    report.images = len(images)
    report.notes = shown.notes()
    if unanswered and arguments.get("answer", "") is not None:
        report.problems.insert(0, _unanswered(unanswered, report.splits.total()))
    return report


def _unanswered(sample_ids: Sequence[str], total: int) -> str:
    """Return the problem's text for samples, of `total`, that have no reference answer."""
    return (
        f"{len(sample_ids):,} of {total:,} questions have no reference answer and are not declared unanswerable, so that they cannot be "
        f"scored; the first is {sample_ids[0]}. Name the column that says so by `answerable` or `unanswerable`, or correct `answer`"
    )


def check_entries(root: Path, names: Sequence[str] | None) -> dict[str, Verdict]:
    named = [find(root, n) for n in names or () if not n.startswith("results/")]  # an unknown name ends it before any file is hashed
    verdicts = {}
    for entry in named if names else (e for e in entries(root) if e.where in ("here", "broken")):
        verdict = verify(entry)
        record = RecordedOutput(entry.path.relative_to(entry.root).as_posix(), entry.md5) if entry.md5 else None
        objects = _objects(entry.root, record) if record else ()
        verdicts[entry.name] = replace(verdict, problems=(*verdict.problems, *objects))
    return verdicts


def recorded_results(root: Path) -> dict[str, list[RecordedOutput]]:
    """Return {"results/SPEC": outputs with MD5} of the root's and every spec's dvc.lock."""
    outputs: dict[str, list[RecordedOutput]] = {}
    for lock in (root / "dvc.lock", *sorted((root / "specs").glob("*/dvc.lock"))):
        for path, md5 in locked_outputs(lock).items():
            outputs.setdefault("/".join(path.split("/")[:2]), []).append(RecordedOutput(path, md5))
    return outputs


def check_results(root: Path, names: Sequence[str] | None, aside: bool) -> dict[str, Verdict]:
    """Return {"results/SPEC": verdict} of `names`, or all; `aside` moves damaged files away.

    Names of entries are left alone. Raise EntryError if no dvc.lock records such results.
    """
    recorded = recorded_results(root)
    folders = [n.rstrip("/") for n in names or () if n.startswith("results/")]
    if unknown := [name for name in folders if name not in recorded]:
        raise EntryError(f"{unknown[0]}: no dvc.lock records it; there are: {', '.join(recorded) or 'none'}")
    return {name: _results(root, records, aside) for name, records in recorded.items() if name in folders or not names}


def _results(root: Path, records: list[RecordedOutput], aside: bool) -> Verdict:
    damaged, problems, absent = [], list[str](), 0
    for record in records:
        actual, objects = hash_path(root, record.path), _objects(root, record)
        problems += objects
        absent += actual is None
        if actual not in (None, record.md5):
            damaged.append(record.path)
        if aside and (objects or record.path in damaged):
            set_aside(root, record, tree=actual != record.md5)
    return Verdict(len(records) - absent, tuple(damaged), (), (), tuple(problems), absent)


def _objects(root: Path, record: RecordedOutput) -> list[str]:
    files = (f.relative_to(root) if f.is_relative_to(root) else f for f in damaged_objects(root, record.md5))
    return [f"damaged in DVC's cache: {file}, of {record.path}" for file in files]
