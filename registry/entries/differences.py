"""Differences between two versions of data: files, samples and images."""

import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.entries.card import card_names, load_card
from qualm.registry.entries.versions import Version
from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.plugins.options import parse_options
from qualm.registry.plugins.registry import get, load
from qualm.registry.sample import IMAGES, SAMPLES, Image, Sample

ProgressCallback = Callable[[str, int], None]
"""ProgressCallback (which version, samples read so far) now and then."""

PICTURE = "picture"
"""Beside the fields of a sample: its image's bytes."""

COMPARED = (*(f.name for f in fields(Sample) if f.name != "sample_id"), PICTURE)
SIZE = 8
"""Bytes of a digest."""

T = TypeVar("T")

_EVERY = 1000


@dataclass
class Changes:
    """Ids added, removed, changed and the number unchanged between two versions."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: dict[str, list[str]] = field(default_factory=dict)
    """Id -> what of it changed; empty for files."""
    same: int = 0

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def by_field(self) -> dict[str, int]:
        """Return {field: number of samples in which it changed}, largest first."""
        return dict(Counter(name for names in self.changed.values() for name in names).most_common())

    def as_json(self) -> dict[str, Any]:
        return {"added": self.added, "removed": self.removed, "changed": self.changed, "same": self.same}


@dataclass
class VersionDifferences:
    """Result of `compare`: changes of files, and of samples if readable."""

    files: Changes
    samples: Changes | None
    """None where nothing reads samples from these files."""
    why: str = ""


def compare(
    old: Version, new: Version, options: Sequence[str], beneath: Path, progress: ProgressCallback = lambda version, n: None
) -> VersionDifferences:
    """Return the changes from `old` to `new` in files and samples, read by an adapter.

    Args:
        options: parameters of the adapter, `NAME=VALUE`, over the card's own.
        beneath: folder for laying out old versions; made if missing.

    Raises:
        EntryError: a file of a version is in no store here.
        PluginError: the adapter has no such parameter.
    """
    beneath.mkdir(parents=True, exist_ok=True)
    files = _changes(old.files, new.files, lambda one, other: [])
    if not files:
        return VersionDifferences(files, Changes(same=0), "the files are the same")
    try:
        before, after = (_digests_by_sample(version, options, beneath, progress) for version in (old, new))
        return VersionDifferences(files, _changes(before, after, _fields))
    except AdapterError as error:
        return VersionDifferences(files, None, str(error))


def _changes(old: Mapping[str, T], new: Mapping[str, T], what: Callable[[T, T], list[str]]) -> Changes:
    changed = {k: what(old[k], new[k]) for k in old if k in new and old[k] != new[k]}
    return Changes([k for k in new if k not in old], [k for k in old if k not in new], changed, len(old.keys() & new.keys()) - len(changed))


def _fields(old: bytes, new: bytes) -> list[str]:
    """Return names of the fields whose digests differ between two samples."""
    return [name for i, name in enumerate(COMPARED) if old[i * SIZE : (i + 1) * SIZE] != new[i * SIZE : (i + 1) * SIZE]]


def _digests_by_sample(version: Version, options: Sequence[str], beneath: Path, progress: ProgressCallback) -> dict[str, bytes]:
    """Return {sample id: joined digests of its fields and image}, as bytes."""
    with ExitStack() as stack:
        items = _stored_records(version) if "samples.parquet" in version.files else _official(version, options, beneath, stack)
        pictures: dict[str | None, bytes] = {None: _digest(b"")}
        digests_by_sample: dict[str, bytes] = {}
        for item in items:
            if isinstance(item, Image):
                pictures[item.image_id] = _digest(item.data)
                continue
            digests = [_digest(repr(getattr(item, name)).encode()) for name in COMPARED[:-1]]
            shown = [pictures.get(name, pictures[None]) for name in picture_ids(item.image_id)]
            digests_by_sample[item.sample_id] = b"".join([*digests, shown[0] if len(shown) == 1 else _digest(b"".join(shown))])
            if len(digests_by_sample) % _EVERY == 0:
                progress(version.label, len(digests_by_sample))
    return digests_by_sample


def _stored_records(version: Version) -> Iterator[Image | Sample]:
    """Yield all images, then all samples, of a version that a `data` stage wrote."""
    import pyarrow.parquet as pq

    for name in sorted(n for n in version.files if n.startswith("images/") and n.endswith(".parquet")):
        with pq.ParquetFile(version.file(name)) as file:
            for batch in file.iter_batches(64, columns=IMAGES.names):
                for row in batch.to_pylist():
                    yield Image(row["image_id"], row["image"]["bytes"] or b"")
    with pq.ParquetFile(version.file("samples.parquet")) as file:
        for batch in file.iter_batches(4096, columns=[n for n in SAMPLES.names if n in file.schema_arrow.names]):
            for row in batch.to_pylist():
                yield Sample(**{**row, "meta": dict(row.get("meta") or ())})


def _official(version: Version, options: Sequence[str], beneath: Path, stack: ExitStack) -> Iterator[Image | Sample]:
    card = load_card(version.card) if version.card in card_names() else None
    if card is None or card.adapter is None:
        why = f"the card '{card.name}' has no adapter" if card else "no card says how to read them"
        raise AdapterError(why)
    folder = stack.enter_context(version.laid_out(beneath))
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=beneath, prefix="adapter-")))
    overrides = parse_options(get("datasets", card.adapter), options)
    yield from load("datasets", card.adapter)(AdapterContext(scratch, 0, folder), **{**card.args, **overrides})


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=SIZE).digest()
