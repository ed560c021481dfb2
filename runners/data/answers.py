"""Sample-level store of answers, keyed by the content that determines them.

Lost without it: everything a killed run had done, and the difference between adding one sample and computing all.
What it must never do is return an answer to another question. So the key of each part of an answer (`qualm.runners.contracts.models.PARTS`)
is a digest over the whole of what that part depends on, and nothing is keyed by position or name.

One folder holds the parts that one model gave under one release and one set of libraries, as segments (`qualm.runners.data.segments`): one
batch in one segment, one part in one row. A store reads all folders of its model whose libraries count as today's
(`qualm.runners.runtime.libraries`) and that are not refused, and writes to one of its own. Where a key occurs twice, the first written
counts, whoever looks, now and ever after. Signals about an answer have it in their key, so that no signal is about another.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from qualm import __version__
from qualm.registry.formats.plausible import MIN_LOGPROB, ROUNDING_TOLERANCE
from qualm.registry.system import atomic
from qualm.registry.system.atomic import create_folder
from qualm.runners.contracts.models import Part
from qualm.runners.data.refusal import REFUSED
from qualm.runners.data.segments import Segments, write_time
from qualm.runners.runtime.key_index import KeyIndex, Keys, Places, copy_key_words
from qualm.runners.runtime.libraries import MINOR, are_equal_versions
from qualm.runners.runtime.prefetch import map_ahead

if TYPE_CHECKING:
    import PIL.Image

FORMAT = b"qualm parts 3\n"
"""Format version, part of every key."""
VALUES = pa.schema(
    [
        ("text", pa.string()),
        ("tokens", pa.list_(pa.int32())),
        ("logprobs", pa.list_(pa.float32())),
        ("entropies", pa.list_(pa.float32())),
        ("numbers", pa.list_(pa.float64())),
        ("states", pa.list_(pa.float16())),
        ("thinking", pa.string()),
    ]
)
SCHEMA = pa.schema([("key", pa.binary(32)), ("part", pa.string()), *VALUES])
ABOUT, USED = "about.json", "used"
"""Files in a store's folder: its model and engine, and its uses."""
STATES = "states"
OPTIONAL = (STATES, "thinking")
"""Columns of hidden states and attention, and of a server's thinking; segments without any lack them."""

MAX_ATTEMPTS = 5
"""Maximum listings of a folder: one that others change may be listed incompletely."""


class LostError(Exception):
    """Error that stored answers have disappeared."""


def base_key(model: str, engine: str, prompt: str, pixels: str | None, question: str) -> bytes:
    """Return the SHA-256 of the inputs that all parts of an answer share.

    Args:
        model: digest of weights, config, processor and dtype.
        engine: the code that answers, without its versions (`qualm.runners.runtime.code_digest.Engine.identity`).
        prompt: as rendered.
        pixels: `pixels_digest` of the images, None where there is none.
        question: as the prompt has it, for the prompts that are made of it.
    """
    material = json.dumps([model, engine, prompt, pixels, question], separators=(",", ":"))
    # Neither seed nor decoding is in here: they belong to a part, so that greedy answers are found again whatever the draws.
    return hashlib.sha256(FORMAT + material.encode()).digest()


def decoding_bytes(part: str, decoding: Mapping[str, Any], versions: Mapping[str, int] = MappingProxyType({})) -> bytes:
    """Return the inputs of one part of an answer (name, decoding, versions) as JSON bytes.

    Args:
        part: its name (`qualm.runners.contracts.models.PARTS`, or `draw K`).
        decoding: method and limits.
        versions: of our own engine, as far as this part depends on it and they are not the first (`Engine.behind`).
    """
    return json.dumps([part, dict(decoding), dict(versions)], sort_keys=True, separators=(",", ":")).encode()


def part_key(base: bytes, how: bytes, stream: int, subject: bytes = b"") -> bytes:
    """Return the SHA-256 of all inputs of one part of an answer.

    Args:
        base: see `base_key`.
        how: see `decoding_bytes`.
        stream: what seeds a draw.
        subject: of a signal, the answer that it is about (see `subject_digest`).
    """
    # Unambiguous without separators: base and stream have fixed lengths, a subject is 32 bytes or none, and `how` is JSON text.
    return hashlib.sha256(base + stream.to_bytes(16, "big") + subject + how).digest()


def subject_digest(answer: Part, sampled_answers: Sequence[str] = ()) -> bytes:
    """Return the SHA-256 of the greedy answer and sampled answers that a signal is about."""
    return hashlib.sha256(json.dumps([answer.text, answer.tokens, list(sampled_answers)], separators=(",", ":")).encode()).digest()


def pixel_digest(image: PIL.Image.Image) -> str:
    """Return the SHA-256 of an image's mode, size and pixels."""
    total = hashlib.sha256(f"{image.mode} {image.width} {image.height}\n".encode())
    total.update(image.tobytes())
    return total.hexdigest()


def pixels_digest(images: Sequence[PIL.Image.Image]) -> str:
    """Return one digest of several images in order; of one, its `pixel_digest`; "" of none."""
    own = [pixel_digest(image) for image in images]
    return own[0] if len(own) == 1 else hashlib.sha256("\n".join(["pictures", *own]).encode()).hexdigest() if own else ""


def open_segments(folder: Path, touch: bool = True) -> Segments:
    """Open a folder of segments; only valid rows are read, `touch` sets damaged files aside."""
    return Segments(folder, SCHEMA, touch, drop_invalid, OPTIONAL)


class StoredAnswers(ABC):
    """Store of answers' parts in some folders, by key; taking a missing one raises LostError.

    Opening checks all segments and keeps 40 bytes per part in memory.

    The answers stay on disk and are mapped into memory while they are read.
    """

    def __init__(self, folder: Path, sources: dict[str, Segments], workers: int = 0) -> None:
        """Index the segments of all `sources`; for repeated keys, `folder` takes precedence.

        Args:
            folder: preferred for repeated keys.
            sources: the folders' segments, by the name of the folder.
            workers: threads that read; 0 = one per core.
        """
        self.folder, self._sources, self._workers = folder, sources, workers
        self._open()

    def __len__(self) -> int:
        """Return the number of distinct keys, each of one stored part of an answer."""
        return self._index.count()

    @property
    def damaged(self) -> int:
        """Return the number of damaged segments in all folders."""
        return sum(source.damaged for source in self._sources.values())

    def has(self, keys: Sequence[bytes]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return a mask (n,) of the keys under which a part of an answer is stored."""
        return self._index.find(keys) >= 0

    def take(self, keys: Sequence[bytes]) -> pa.Table:
        """Return the stored parts of these keys, in order, as `VALUES`; LostError if any is gone."""
        for attempt in range(MAX_ATTEMPTS):
            if attempt:  # others may have merged what we knew into what we do not know yet
                time.sleep(0.02 * attempt)
                self._open()
            places = self._index.find(keys)
            table = None if (places < 0).any() else self._gather(places)
            if table is not None:
                return table
        raise LostError(f"{self.folder}: {int((places < 0).sum())} of {len(keys)} answers are not stored (any more)")

    def parts(self, keys: Sequence[bytes]) -> list[Part]:
        return [Part(**row) for row in self.take(keys).to_pylist()]

    @abstractmethod
    def put(self, keys: Sequence[bytes], names: Sequence[str], parts: Sequence[Part]) -> None:
        """Store parts of answers under their keys; `names`: each part's name, such as `answer`."""

    def origins(self, keys: Sequence[bytes]) -> list[str]:
        """Return by key the name of the store folder that holds its part; "" if none does."""
        return [self._names[place >> 32][1] if place >= 0 else "" for place in self._index.find(keys).tolist()]

    def _listed(self) -> list[tuple[str, str]]:
        return [(name, folder) for folder, source in self._sources.items() for name in source.names()]

    def _ordered(self, names: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Sort (segment, folder) names by precedence for repeated keys: `self.folder` first."""
        return sorted(names, key=lambda name: (name[1] != self.folder.name, name))

    def _read(self, name: tuple[str, str]) -> pa.Table | None:
        return self._sources[name[1]].read(name[0])

    def _open(self) -> None:
        """Index all segments, listing again until none is new, since others may merge meanwhile."""
        keys: dict[tuple[str, str], Keys] = {}
        # Most rounds end after the second listing; a merge that falls between listing and reading costs one more.
        while new := [name for name in self._listed() if name not in keys]:
            for name, table in zip(new, map_ahead(self._read, new, self._workers), strict=True):
                keys[name] = copy_key_words(table["key"]) if table is not None else np.empty((0, 4), np.uint64)
        self._names = self._ordered(keys)
        self._index = KeyIndex([keys[name] for name in self._names])

    def _gather(self, places: Places) -> pa.Table | None:
        """Return stored parts by places in the index, in order; None if a segment has disappeared."""
        # Sorted, each segment is opened once and read front to back; `back` then restores the order that was asked for.
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        # starts[0] is 0: to split there too would yield an empty first piece.
        segments, starts = np.unique(ordered >> 32, return_index=True)
        pieces = [VALUES.empty_table()]
        for segment, rows in zip(segments, np.split(ordered & 0xFFFFFFFF, starts[1:]), strict=False):
            table = self._read(self._names[segment])
            if table is None:
                return None
            pieces.append(table.select(VALUES.names).take(pa.array(rows)))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        # `back` undoes the sorting: row k of the pieces is what was asked for at place `order[k]`.
        return pa.concat_tables(pieces).combine_chunks().take(pa.array(back))


class Store(StoredAnswers):
    """Store of one model's answers: writes to one folder, reads all compatible ones."""

    def __init__(
        self,
        root: Path,
        model: str,
        engine: str,
        about: Mapping[str, Any] | None = None,
        stage: str = "",
        workers: int = 0,
        libraries: Mapping[str, str] = MappingProxyType({}),
        versions: Mapping[str, int] = MappingProxyType({}),
        policy: str = MINOR,
        durable: bool = True,
    ) -> None:
        """Create the folder to write to, and index all compatible folders under `root`.

        Args:
            root: of all stores.
            model: digest of weights, config, processor and dtype.
            engine: the code that answers, without its versions.
            about: what `qualm cache du` says of these answers: label and plugin of the model.
            stage: who opens it, kept as its last use.
            workers: threads that read; 0 = one per core.
            libraries: versions of those that compute here.
            versions: of our own engine (`Engine.behind`).
            policy: when answers that were computed with others are used (`qualm.runners.runtime.libraries`).
            durable: whether what is stored survives a power cut, not only a kill.
        """
        self._root, self._policy = root, policy
        self._libraries = dict(libraries)
        self._own = {"model": model, "engine": engine, "qualm": __version__, "libraries": self._libraries, "versions": dict(versions)}
        folder = self._writable()
        create_folder(folder)
        self._segments = open_segments(folder)
        self._segments.durable = durable
        self._note(folder, {**self._own, **(about or {})}, stage)
        super().__init__(folder, {folder.name: self._segments}, workers)

    def put(self, keys: Sequence[bytes], names: Sequence[str], parts: Sequence[Part]) -> None:
        """Store named parts of answers under `keys`, durably; impossible numbers become null."""
        self.add(to_rows(keys, names, parts))

    def add(self, whole: pa.Table) -> None:
        """Store a table of parts of answers as `to_rows` makes it, such as another store's."""
        whole = self._segments.complete(whole)
        # Hidden states go into a segment of their own: who takes answers alone neither maps nor hashes their megabytes.
        inside = whole[STATES].is_valid()
        for table in (whole.filter(pc.invert(inside)), whole.filter(inside)):
            if table.num_rows:
                self._names.append((self._segments.write(table), self.folder.name))
                self._index.add(table["key"], len(self._names) - 1)
        self._mark.parent.mkdir(exist_ok=True)
        self._mark.touch()

    def refresh(self) -> None:
        """Index the segments again if other processes have written or merged some."""
        if self._listed() != sorted(self._names):
            self._open()

    def forget(self, keys: Sequence[bytes]) -> int:
        """Remove the parts of these keys from all folders; return the number of keys found.

        A kill leaves each part as it was or removed. Segments without the parts take the places of those with them.
        """
        found = int((self._index.find(keys) >= 0).sum()) if keys else 0
        while keys and (places := self._index.find(keys)).max() >= 0:  # again: another folder may have the same key
            for number in np.unique(places[places >= 0] >> 32).tolist():
                name, folder = self._names[number]
                table = self._sources[folder].read(name)
                if table is not None:
                    kept = table.filter(pc.invert(pc.is_in(table["key"], pa.array(keys, pa.binary(32)))))
                    if kept.num_rows:
                        self._sources[folder].write(kept, write_time(name))
                    self._sources[folder].retire(name)
            self._open()
        return found

    def _ordered(self, names: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Sort (segment, folder) names by time of writing, the same for every reader."""
        return sorted(names)

    def _writable(self) -> Path:
        """Return the path of the folder to write to; a refused folder is never chosen again.

        Its name is a hash of model, engine and versions, with a number if folders of that name were refused.
        """
        name = hashlib.sha256(f"3 {json.dumps(self._own, sort_keys=True)}".encode()).hexdigest()[:32]
        # A refused folder is never written to again: new answers beside bad ones would be refused with them.
        numbers = (self._root / (f"{name}-{number}" if number else name) for number in itertools.count())
        return next(folder for folder in numbers if not (folder / REFUSED).exists())

    def _listed(self) -> list[tuple[str, str]]:
        for folder in self._root.iterdir():
            if folder.name not in self._sources and self._is_usable(folder):
                self._sources[folder.name] = open_segments(folder)
        return sorted((name, folder) for folder, source in self._sources.items() for name in source.names())

    def _is_usable(self, folder: Path) -> bool:
        """Return whether a folder's answers fit in model, engine, libraries, and are not refused."""
        about = read_about(folder)
        if any(about.get(name) != self._own[name] for name in ("model", "engine")) or (folder / REFUSED).exists():
            return False
        libraries = about.get("libraries")
        return isinstance(libraries, dict) and are_equal_versions(self._policy, libraries, self._libraries)

    def _note(self, folder: Path, about: Mapping[str, Any], stage: str) -> None:
        place = folder / ABOUT
        # Two processes may both write it; what they write differs in the label at most, and a rename decides.
        if not place.exists():
            atomic.write_text(place, json.dumps(about, sort_keys=True) + "\n")
        self._mark = folder / USED / (stage.replace("/", " ") or "unknown")
        self._mark.parent.mkdir(exist_ok=True)
        self._mark.touch()


def read_about(folder: Path) -> dict[str, Any]:
    """Return the metadata of a folder's answers; {} if missing or invalid."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


def undefine_invalid(part_name: str, part: Part) -> tuple[Part, str]:
    """Return (part, each field with an impossible number set to None; what was wrong or "")."""
    table = _table([bytes(32)], [part_name], [part])
    bad = [field for field, mask in find_invalid(table).items() if mask[0]]
    if not bad:
        return part, ""
    names = {"logprobs": "log-probabilities", "entropies": "entropies", "numbers": "numbers"}
    return replace(part, **dict.fromkeys(bad)), f"impossible {' and '.join(names[field] for field in bad)}"


def to_rows(keys: Sequence[bytes], names: Sequence[str], parts: Sequence[Part]) -> pa.Table:
    """Return parts of answers as a SCHEMA table; fields with impossible numbers become null."""
    return nullify_invalid(_table(keys, names, parts))


def _table(keys: Sequence[bytes], names: Sequence[str], parts: Sequence[Part]) -> pa.Table:
    columns = [list(keys), list(names), *([getattr(part, field) for part in parts] for field in VALUES.names)]
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


MAX_ENTROPY = 30.0
"""Maximum entropy in nats; no vocabulary has so many tokens."""
_PROBABILITIES = ("p_yes", "p_true", "p_true_sampling")
_DIVERGENCES = ("image_divergence", "uniform_divergence")
_Mask = np.ndarray[Any, np.dtype[np.bool_]]


def find_invalid(table: pa.Table) -> Mapping[str, _Mask]:
    """Return {"logprobs", "entropies", "numbers": mask of rows with impossible values}."""
    divergence, probability = _is_in(table["part"], *_DIVERGENCES), _is_in(table["part"], *_PROBABILITIES)
    # A divergence may be any number from 0 up; a log-probability lies between a plausible least and 0.
    least, most = (np.where(divergence, *ends) for ends in ((-ROUNDING_TOLERANCE, MIN_LOGPROB), (np.inf, ROUNDING_TOLERANCE)))
    low, high = (np.where(probability, *ends) for ends in ((-ROUNDING_TOLERANCE, -np.inf), (1 + ROUNDING_TOLERANCE, np.inf)))
    none, largest = (np.full(table.num_rows, bound) for bound in (-ROUNDING_TOLERANCE, MAX_ENTROPY))
    tokens, entropies = (_lengths(table[name]) for name in ("logprobs", "entropies"))
    return {
        "logprobs": _out_of_bounds(table["logprobs"], least, most),
        # Log-probabilities and entropies are of the same tokens, so where both are there their counts must agree.
        "entropies": _out_of_bounds(table["entropies"], none, largest) | ((tokens >= 0) & (entropies >= 0) & (tokens != entropies)),
        "numbers": _out_of_bounds(table["numbers"], low, high),
    }


def drop_invalid(table: pa.Table) -> pa.Table:
    """Return stored parts of answers without the rows that hold impossible numbers."""
    bad = np.logical_or.reduce(list(find_invalid(table).values()))
    return table.filter(pa.array(~bad)) if bad.any() else table


def nullify_invalid(table: pa.Table) -> pa.Table:
    """Return stored parts of answers, with null for fields that hold impossible numbers."""
    for name, mask in find_invalid(table).items():
        if mask.any():
            at = table.schema.get_field_index(name)
            table = table.set_column(at, table.schema.field(at), pc.if_else(pa.array(mask), None, table[name]))
    return table


def _is_in(column: pa.ChunkedArray, *words: str) -> _Mask:
    mask: _Mask = pc.is_in(column, pa.array(words)).to_numpy()
    return mask


def _lengths(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Return the length of each list; -1 for null."""
    lengths: np.ndarray[Any, Any] = pc.fill_null(pc.list_value_length(column), -1).to_numpy()
    return lengths


def _out_of_bounds(column: pa.ChunkedArray, low: np.ndarray[Any, Any], high: np.ndarray[Any, Any]) -> _Mask:
    """Return a mask of rows with a list value outside [low[row], high[row]] or not finite."""
    rows = pc.list_parent_indices(column).to_numpy()
    values = pc.list_flatten(column).to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        # ROUNDING_TOLERANCE lies in the bounds: rounding may push a probability a hair above 1, and such an answer is not wrong.
        bad = ~np.isfinite(values) | (values < low[rows]) | (values > high[rows])
    mask = np.zeros(len(low), bool)
    mask[rows[bad]] = True
    return mask
