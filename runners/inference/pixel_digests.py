"""Cache of digests and sizes of the pixels that a variant makes of an encoded image.

It lets a run with nothing to do finish without decoding images. A key digests all that the pixels depend on: encoded bytes, code and
libraries that decode and perturb, arguments, seed, sample.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa

from qualm.registry.formats import pictures
from qualm.runners.data import answers
from qualm.runners.data import dataset as inputs
from qualm.runners.data.dataset import Variant
from qualm.runners.data.segments import Segments
from qualm.runners.runtime.code_digest import engine_digest, imported_versions
from qualm.runners.runtime.stage import LOCAL

ROOT = LOCAL / "seen"
SCHEMA = pa.schema(
    [("key", pa.binary(32)), ("pixels", pa.string()), ("width", pa.int32()), ("height", pa.int32()), ("question", pa.string())]
)
MANY_FILES, MANY_ENTRIES = 8, 500_000


@dataclass(frozen=True, slots=True)
class InputDigest:
    """Digest and size of a sample's images under one variant, and its question if perturbed."""

    pixels: str
    """See `qualm.runners.data.answers.pixels_digest`."""
    size: tuple[int, int]
    """(width, height); for several images (total number of pixels, 1)."""
    question: str | None
    """Question of a cross-modal perturbation; None for other variants."""


class PixelDigestCache:
    """Cache of the image digests of one dataset's samples under its variants."""

    def __init__(self, dataset: Path, variants: list[Variant], seed: int) -> None:
        self._segments = Segments(ROOT / hashlib.sha256(str(dataset).encode()).hexdigest()[:16], SCHEMA)
        self._codes = [_code(variant, seed) for variant in variants]
        self._stored: dict[bytes, InputDigest] = {}
        self._new: dict[bytes, InputDigest] = {}
        self._used: set[bytes] = set()
        self._names = self._segments.names()
        for name in self._names:
            table = self._segments.read(name)
            for row in table.to_pylist() if table is not None else ():
                self._stored[row["key"]] = InputDigest(row["pixels"], (row["width"], row["height"]), row["question"])

    def key(self, variant: int, encoded: bytes, sample_id: str, question: str) -> bytes | None:
        """Return the cache key of a sample under variant number `variant`; None if not cacheable."""
        if (behind := self._codes[variant]) is None:
            return None
        code, random, reads = behind
        return hashlib.sha256(code + encoded + json.dumps([sample_id if random else None, question if reads else None]).encode()).digest()

    def get(self, key: bytes | None) -> InputDigest | None:
        sight = self._stored.get(key) if key is not None else None
        if sight is not None and key is not None:
            self._used.add(key)
        return sight

    def add(self, key: bytes | None, sight: InputDigest) -> None:
        if key is not None:
            self._stored[key] = self._new[key] = sight
            self._used.add(key)

    def save(self) -> None:
        """Write new entries to a file; merge many files into one, if large without unused entries."""
        if not self._new:
            return
        # Each run adds a file; where there are many, reading them would cost more than writing one.
        if len(self._names) < MANY_FILES:
            self._write(self._new)
            return
        small = len(self._stored) <= MANY_ENTRIES
        self._write(self._stored if small else {key: self._stored[key] for key in self._used})
        for name in self._names:
            # After the new file is written. Others that have listed the old ones lose entries, never correctness.
            (self._segments.folder / name).unlink(missing_ok=True)

    def _write(self, entries: dict[bytes, InputDigest]) -> None:
        rows = [{"key": k, "pixels": s.pixels, "width": s.size[0], "height": s.size[1], "question": s.question} for k, s in entries.items()]
        self._segments.write(pa.Table.from_pylist(rows, schema=SCHEMA))


@cache
def _code_digest(module: str, *kinds: str) -> str:
    """Return JSON text of the digest of a module's code and the versions of its imports."""
    return json.dumps([engine_digest(module, *kinds), imported_versions(module)], sort_keys=True)


def _code(variant: Variant, seed: int) -> tuple[bytes, bool, bool] | None:
    """Return (digest of what makes a variant's pixels, depends on ids, depends on questions).

    Its perturbation's code is in the digest only if that changes images; else both flags are False. None for a perturbation of images
    without a module. "ids" are sample ids.
    """
    decoding = [answers.FORMAT.decode(), _code_digest(pictures.__name__, "datasets"), engine_digest(inputs.__name__, "variants")]
    if variant.modality not in ("image", "cross") or variant.folders is not None:  # pixels are those of the file
        return hashlib.sha256(json.dumps(decoding).encode()).digest(), False, False
    # A perturbation without a module, as in tests, has no code to make a digest of.
    if not variant.module:
        return None
    material = json.dumps(
        [decoding, _code_digest(variant.module), variant.name, variant.modality, dict(variant.args or {}), seed],
        sort_keys=True,
        default=str,
    )
    return hashlib.sha256(material.encode()).digest(), True, variant.modality == "cross"
