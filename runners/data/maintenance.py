"""Size, clean-up and merging of the answer store, for `qualm cache`.

Merging keeps to one order of events, so that a kill at any moment and any number of runs and merges at the same time
lose nothing: the merged segment is whole and on disk before what it was made of is retired, and retired files are removed
only after those who had begun to read them have finished.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from qualm.runners.data.answers import SCHEMA, USED, open_segments, read_about
from qualm.runners.data.refusal import refusal
from qualm.runners.data.segments import Segments, leftovers, write_time
from qualm.runners.runtime.key_index import copy_key_words

Mask = np.ndarray[Any, np.dtype[np.bool_]]

MERGED_BYTES = 64 * 2**20
"""Bytes of a merged segment; segments of half this size are not merged."""
MAX_SEGMENTS = 1000
"""Maximum segments of a folder; more are merged when a stage ends."""
GRACE_SECONDS = 10.0
"""Seconds before a retired segment is removed, for readers on other machines."""
BUSY_SECONDS = 15 * 60
"""Seconds after its last use in which a store is not removed."""
DAY_SECONDS = 24 * 3600


@dataclass
class Holding:
    """Size, contents and last use of one folder of the answer store."""

    folder: Path
    about: dict[str, Any]
    """See `qualm.runners.data.answers.read_about`."""
    segments: int = 0
    bytes: int = 0
    parts: Counter[str] = field(default_factory=Counter)
    """Number of distinct parts by kind: answer, options, draw, p_yes..."""
    repeats: int = 0
    """Rows that repeat an earlier row's key."""
    damaged: int = 0
    leftover_bytes: int = 0
    """Bytes of damaged, retired and stale partial files."""
    last_use: float = 0.0
    """Seconds since the epoch."""
    stages: list[str] = field(default_factory=list)

    @property
    def engine(self) -> str:
        return str(self.about.get("engine", ""))

    @property
    def refusal(self) -> str:
        """Return why these answers are refused; "" if they are not."""
        return refusal(self.folder)


def list_holdings(root: Path) -> list[Holding]:
    """Check every folder of the store; return Holdings, latest use first; [] without a store."""
    return sorted((_measure_folder(folder) for folder in _folders(root)), key=lambda h: -h.last_use)


@dataclass
class CollectResult:
    """Numbers and folders that `collect` merged, dropped or removed, or would with `dry`."""

    merged: int = 0
    """Number of merged segments."""
    into: int = 0
    repeats: int = 0
    """Number of dropped rows with repeated keys."""
    leftovers: int = 0
    """Number of damaged and stale partial files."""
    removed: list[Holding] = field(default_factory=list)
    busy: list[Holding] = field(default_factory=list)
    """Unwanted folders that were kept because they are in use."""
    freed: int = 0
    """Bytes."""


def collect(
    root: Path,
    older_than: float | None = None,
    unused: Callable[[Holding], bool] | None = None,
    dry: bool = False,
    grace: float | None = None,
) -> CollectResult:
    """Remove unwanted folders, leftovers and repeated rows; merge segments; return the counts.

    After a merge it sleeps `grace` seconds, then deletes the retired segments.

    Args:
        root: folder of all stores.
        older_than: remove answers that no run has used for this number of days.
        unused: remove answers for which this is true; combined with `older_than` by "and".
        dry: change and merge nothing, only count.
        grace: seconds for which a retired segment stays; `GRACE_SECONDS` by default.
    """
    done, grace = CollectResult(), GRACE_SECONDS if grace is None else grace
    # Measured, not summed up: others may write and merge meanwhile. A dry run can only reckon.
    before = sum(map(_size, _folders(root)))
    gained = 0
    for holding in list_holdings(root):
        if _is_unwanted(holding, older_than, unused):
            # A stage that is running may have taken note of these answers and not read them yet.
            if time.time() - holding.last_use < BUSY_SECONDS:
                done.busy.append(holding)
            else:
                done.removed.append(holding)
                gained += _size(holding.folder)
                if not dry:
                    shutil.rmtree(holding.folder, ignore_errors=True)
                continue
        gained += _merge(open_segments(holding.folder, touch=not dry), done, dry)
    # One wait for all folders, not one after each merge.
    if done.into and not dry:
        time.sleep(grace)
    for folder in _folders(root):
        for path in leftovers(folder, grace):
            done.leftovers += path.suffix != ".retired"
            gained += _size(path)
            if not dry:
                path.unlink(missing_ok=True)
    done.freed = gained if dry else before - sum(map(_size, _folders(root)))
    return done


def tidy(folder: Path) -> bool:
    """Delete leftovers, merge a folder's segments if too many; return whether it merged.

    Merged segments stay on disk until the next call.
    """
    own = open_segments(folder)
    for path in leftovers(folder, GRACE_SECONDS):
        path.unlink(missing_ok=True)
    if len(own.names()) < MAX_SEGMENTS:
        return False
    done = CollectResult()
    _merge(own, done, dry=False)
    return bool(done.into)


def _folders(root: Path) -> list[Path]:
    return [p for p in root.iterdir() if p.is_dir()] if root.is_dir() else []


def _size(path: Path) -> int:
    """Return the bytes on disk of a file or folder; 0 for one that was just removed."""
    try:
        return sum(map(_size, path.iterdir())) if path.is_dir() else path.stat().st_size
    except FileNotFoundError:
        return 0


def _is_unwanted(holding: Holding, older_than: float | None, unused: Callable[[Holding], bool] | None) -> bool:
    if older_than is None and unused is None:
        return False
    old = older_than is None or time.time() - holding.last_use > older_than * DAY_SECONDS
    return old and (unused is None or unused(holding))


def _merge(segments: Segments, done: CollectResult, dry: bool) -> int:
    """Merge small neighbouring segments without repeated rows; return in-memory bytes saved.

    If `dry`, only count in `done` and return what would be saved.

    A merged segment takes the place of its earliest source in the order of names, so that of two answers under one key the
    same one counts before and after.
    """
    firsts = _first_rows(segments)
    groups: list[list[str]] = [[]]
    size = 0
    for name, fresh in firsts.items():
        weight = _size(segments.folder / name)
        # A big segment ends a group: a merged one counts as old as its first, and no row should move further in time than it must.
        if weight >= MERGED_BYTES // 2 and fresh.all():
            groups.append([])
            size = 0
            continue
        if size + weight > MERGED_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(name)
        size += weight
    saved = 0
    for group in groups:
        repeats = sum(int((~firsts[name]).sum()) for name in group)
        if len(group) > 1 or repeats:
            saved += _merge_group(segments, group, firsts, dry)
            done.merged += len(group)
            done.into += 1
            done.repeats += repeats
    return saved


def _merge_group(segments: Segments, group: list[str], firsts: Mapping[str, Mask], dry: bool) -> int:
    """Merge rows of segments where `firsts` is True into one; return in-memory bytes saved."""
    tables = {name: table for name in group if (table := segments.read(name)) is not None}
    merged = pa.concat_tables([table.filter(pa.array(firsts[name])) for name, table in tables.items()] or [SCHEMA.empty_table()])
    saved: int = sum(table.nbytes for table in tables.values()) - merged.nbytes
    if not dry:
        if merged.num_rows:
            # Before anything is retired: a kill here leaves rows twice, which readers tolerate, and never not at all.
            segments.write(merged, write_time(group[0]))
        for name in tables:
            segments.retire(name)
    return saved


def _first_rows(segments: Segments) -> dict[str, Mask]:
    """Return, by segment name, a mask of its rows whose keys occur for the first time."""
    keys = {name: copy_key_words(table["key"]) for name in segments.names() if (table := segments.read(name)) is not None}
    every = np.concatenate([np.empty((0, 4), np.uint64), *keys.values()])
    # Ties by position last (lexsort reads its keys from the end), so that of equal keys the earliest row comes first.
    order = np.lexsort((np.arange(len(every)), *every.T))
    ordered = every[order]
    first = np.ones(len(every), bool)
    first[order[1:]] = (ordered[1:] != ordered[:-1]).any(axis=1)
    ends = np.cumsum([len(k) for k in keys.values()])
    return dict(zip(keys, np.split(first, ends[:-1]), strict=True)) if keys else {}


def _measure_folder(folder: Path) -> Holding:
    holding = Holding(folder, read_about(folder))
    own = open_segments(folder, touch=False)
    for name, fresh in _first_rows(own).items():
        table = own.read(name)
        if table is None:  # merged or set aside a moment ago
            continue
        holding.segments += 1
        holding.bytes += _size(folder / name)
        holding.last_use = max(holding.last_use, int(write_time(name)) / 1e9)
        holding.repeats += int((~fresh).sum())
        holding.parts.update(str(n).partition(" ")[0] for n in table["part"].filter(pa.array(fresh)).to_pylist())
    holding.damaged = own.damaged + sum(1 for _ in folder.glob("*.damaged"))
    holding.leftover_bytes = sum(map(_size, leftovers(folder, 0.0)))
    used = folder / USED
    for mark in sorted(used.iterdir()) if used.is_dir() else ():
        holding.stages.append(mark.name.replace(" ", "/"))
        holding.last_use = max(holding.last_use, mark.stat().st_mtime)
    return holding
