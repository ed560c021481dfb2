"""Batches of answers that are computed together, planned once and kept in a file until the stage ends.

The other prompts of a batch shift log-probabilities in the last digits. A resumed run, in one process or many, therefore uses the planned
batches and ends with the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qualm.registry.system import atomic
from qualm.runners.contracts.models import ANSWER, SHOWN_DRAWS, Part, Request, draw_of, draw_part, internal_of, subjects_of
from qualm.runners.inference.keys import UNKNOWN, stored_keys
from qualm.runners.inference.requests import Place
from qualm.runners.runtime.stage import LOCAL, Stage

if TYPE_CHECKING:
    from qualm.runners.data.answers import StoredAnswers
    from qualm.runners.inference.requests import Asker, SampleVariant

PLANS = LOCAL / "plans"
WINDOW = 32
"""Batches of prompts that are sorted by length together: neighbours in a dataset, whose images are close on disk."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Sample variants (places) for which a model computes the same answer parts in one batch."""

    parts: tuple[str, ...]
    places: tuple[Place, ...]

    @property
    def kind(self) -> str:
        return ", ".join(self.parts)

    def cut(self, size: int) -> list[Batch]:
        """Return this batch split into batches of at most `size` sample variants, in order."""
        return [Batch(self.parts, self.places[at : at + size]) for at in range(0, len(self.places), size)]


@dataclass
class Work:
    """Batches to compute, with the batch sizes that memory allows."""

    batches: Sequence[Batch]
    limits: dict[str, int] = field(default_factory=dict)
    """Kind of batch -> places that fit into memory, if fewer than planned."""
    notes: Path | None = None
    """File that keeps the limits for a resumed run."""
    again: bool = False
    """Recompute stored answers."""

    def limit(self, batch: Batch) -> int:
        return self.limits.get(batch.kind, len(batch.places))

    def halve(self, batch: Batch) -> None:
        """Limit batches of this kind to half of this batch's size, at least 1; save it to `notes`."""
        self.limits[batch.kind] = max(1, len(batch.places) // 2)
        if self.notes is not None:
            _write(self.notes, self.limits)


@dataclass(frozen=True, slots=True)
class AnswerTask:
    """One sample variant, and the parts of its answer that are missing."""

    cell: SampleVariant
    parts: tuple[str, ...]


@dataclass
class Lookup:
    """Missing parts of a stage's answers as tasks; counts of stored and of repeated parts."""

    missing: list[AnswerTask]
    """In the order of the tables, each part once."""
    stored: dict[str, int]
    """Part -> number of sample variants that have it."""
    repeats: int
    """Parts that are computed for another sample variant too."""


def look_up(asker: Asker, cells: Sequence[SampleVariant], store: StoredAnswers) -> Lookup:
    """Return tasks for missing parts of samples' answers, and counts of stored and repeated.

    A repeated part is one that a task above computes.
    """
    lookup = Lookup([], {}, 0)
    taken: set[bytes] = set()
    # Some at a time: each lookup is one vectorised search, and the keys of a whole benchmark need not be in memory at once.
    for start in range(0, len(cells), 4096):
        some = cells[start : start + 4096]
        needed = [(cell, part) for cell in some for part in asker.parts(cell.options)]
        keys = stored_keys(asker, store, [(cell.place, part) for cell, part in needed])
        lacking: dict[int, list[str]] = {}
        again: dict[int, list[str]] = {}
        for (cell, part), key, here in zip(needed, keys, store.has(keys), strict=True):
            # A signal whose answer is not stored has no key yet; what it will be computed from tells repeats apart all the same.
            computation = asker.key(cell.place, part, part.encode() if internal_of(part) else b"") if key == UNKNOWN else key
            if here:
                lookup.stored[part] = lookup.stored.get(part, 0) + 1
            elif computation in taken:
                again.setdefault(id(cell), []).append(part)
            else:
                taken.add(computation)
                lacking.setdefault(id(cell), []).append(part)
        for cell in some:
            own, others = lacking.get(id(cell), []), again.get(id(cell), [])
            about = {one for part in own for one in subjects_of(part)}
            for one in [one for one in others if one in about]:  # made once more, so that no batch has to wait for another
                own.insert(0, one)
                others.remove(one)
            lookup.repeats += len(others)
            if own:
                lookup.missing.append(AnswerTask(cell, tuple(own)))
    return lookup


def make_requests(asker: Asker, store: StoredAnswers, places: Sequence[Place], parts: Sequence[str]) -> list[Request]:
    """Return a request per place (sample, variant) for these answer parts, in order."""
    answers: Sequence[Part | None] = [None] * len(places)
    about = {one for part in parts for one in subjects_of(part)} - {*parts}
    if ANSWER in about:
        answers = store.parts([asker.key(place, ANSWER) for place in places])
    draw_parts = {draw_of(one): store.parts([asker.key(place, one) for place in places]) for one in sorted(about - {ANSWER})}
    draws = range(1, asker.draws + 1) if SHOWN_DRAWS.intersection(parts) else ()
    stored_draws = [draw for draw in draws if draw_part(draw) not in parts]
    texts = [part.text or "" for part in store.parts([asker.key(place, draw_part(draw)) for place in places for draw in stored_draws])]
    drawn = [dict(zip(stored_draws, texts[at * len(stored_draws) :], strict=False)) for at in range(len(places))]
    by_draw = [{draw: own[at] for draw, own in draw_parts.items()} for at in range(len(places))]
    return [
        asker.request(place, parts, answer, texts_by_draw, own)
        for place, answer, texts_by_draw, own in zip(places, answers, drawn, by_draw, strict=True)
    ]


Sizes = Callable[[Sequence[AnswerTask]], int]
"""Function that returns the batch size for tasks of one kind."""


def make_batches(tasks: Iterable[AnswerTask], batch_size_of: Sizes) -> list[Batch]:
    """Return batches of tasks with equal parts and number of images, of similar length.

    Questions with options and open ones are kept apart.

    Questions on one image stay together, and so do variants that do not change it: the engine encodes it once.
    """
    kinds: dict[Any, list[AnswerTask]] = {}
    for task in tasks:
        kinds.setdefault((task.cell.pictures or bool(task.cell.pixels), task.cell.options > 0, task.parts), []).append(task)
    batches = []
    for (_, _, parts), alike in kinds.items():
        size = batch_size_of(alike)
        # Sorted within windows, not over all: padding falls nearly as much, and images are still read from disk in order.
        for start in range(0, len(alike), WINDOW * size):
            for some in _pack(alike[start : start + WINDOW * size], size):
                batches.append(Batch(parts, tuple(task.cell.place for task in some)))
    return batches


def _pack(tasks: Sequence[AnswerTask], size: int) -> list[list[AnswerTask]]:
    """Return tasks in lists of at most `size`, longest prompts first, same images adjacent."""
    pictures: dict[str, list[AnswerTask]] = {}
    for number, task in enumerate(tasks):
        # Pixel digests are 64 hex digits, so a number never equals one.
        pictures.setdefault(task.cell.pixels or str(number), []).append(task)
    ranked = sorted(pictures.values(), key=lambda group: -max(task.cell.length for task in group))  # stable: equals keep their order
    line = [task for group in ranked for task in group]
    return [line[at : at + size] for at in range(0, len(line), size)]


class PlanFile:
    """File with the planned batches of one stage, which a resumed run finds again."""

    def __init__(self, asker: Asker, cells: Sequence[SampleVariant]) -> None:
        """Name the file by all requests and the batch size: other requests get another plan."""
        # Not the computed batch sizes: memory may measure differently after a kill, and the plan must be found again.
        total = hashlib.sha256(f"plan 1 {asker.stage.settings.batch_size}\n".encode())
        for cell in cells:
            total.update(cell.place.base + repr((asker.decoding, asker.parts(cell.options))).encode())
        self.folder = plan_folder(asker.stage)
        self.path = self.folder / f"{total.hexdigest()[:32]}.json"
        self.notes = self.path.with_suffix(".limits")

    def remaining_work(self, asker: Asker, tasks: list[AnswerTask], store: StoredAnswers, sizes: Sizes) -> Work:
        """Return incomplete batches as Work, with size limits from disk; add new ones to the plan."""
        batches = self._batches(asker, tasks, store, sizes)
        try:
            limits = json.loads(self.notes.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            limits = {}
        return Work(batches, limits, self.notes)

    def _batches(self, asker: Asker, tasks: list[AnswerTask], store: StoredAnswers, sizes: Sizes) -> list[Batch]:
        """Return the plan's incomplete batches and new ones for tasks it lacks; save these in it.

        A batch with a missing part is computed as a whole.
        """
        planned = self._read()
        # Whole batches, though a part of them may be stored: a smaller batch could give other last digits.
        rest = [batch for batch in planned if not stored_parts(asker, batch, store).all()]
        covered = {(place.base, part) for batch in rest for place in batch.places for part in batch.parts}
        new = [task for task in tasks if not all((task.cell.place.base, part) in covered for part in task.parts)]
        if new:
            rest += (added := make_batches(new, sizes))
            self._write([*planned, *added])
        return rest

    def _read(self) -> list[Batch]:
        try:
            raw = json.loads(self.path.read_text(encoding="utf-8"))
            return [Batch(tuple(b["parts"]), tuple(Place(d, r, v, bytes.fromhex(key)) for d, r, v, key in b["places"])) for b in raw]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError) as error:  # it was written whole or not at all
            print(f"{self.path}: not readable as a plan ({error}); missing batches are planned again", file=sys.stderr, flush=True)
            return []

    def _write(self, batches: Sequence[Batch]) -> None:
        # Plans of other wishes are of no use any more: one stage runs at a time.
        for other in self.folder.iterdir() if self.folder.is_dir() else ():
            if other not in (self.path, self.notes):
                other.unlink()
        rows = [{"parts": b.parts, "places": [[p.dataset, p.row, p.variant, p.base.hex()] for p in b.places]} for b in batches]
        _write(self.path, rows)


def _write(path: Path, value: Any) -> None:
    atomic.write_text(path, json.dumps(value, separators=(",", ":")), durable=True)


def plan_folder(stage: Stage) -> Path:
    """Return the folder of a stage's plan files."""
    return PLANS / f"{stage.spec}.{stage.name}"


def remove_plan(stage: Stage) -> None:
    """Remove a stage's plan folder, if there is one; to be called when the stage ends."""
    place = plan_folder(stage)
    for path in place.iterdir() if place.is_dir() else ():
        path.unlink()
    if place.is_dir():
        place.rmdir()


def stored_parts(asker: Asker, batch: Batch, store: StoredAnswers) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return a mask (places * parts,) of stored answer parts, all parts of a place in turn."""
    return store.has(stored_keys(asker, store, [(place, part) for place in batch.places for part in batch.parts]))
