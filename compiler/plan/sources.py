"""What the source files behind stages import, remembered by their content: to parse some 300 of them takes most of a second.

`.qualm/imports.json`, local and never an input of anything. A file's entry is found by the digest of its bytes and its module's name, so
that no clock and no edit can make it wrong; the file as a whole holds for the code and the Python that parsed.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from qualm.registry.formats import atomic, textfiles
from qualm.registry.plugins import imports

FILE = Path(".qualm", "imports.json")
MANY = 5_000
"""Entries beyond which those that the last command did not need are dropped."""

_PARSED: dict[str, imports.Facts] = {}
"""What this process has parsed, by the same digests."""


class Sources:
    """Closures of modules (`qualm.registry.plugins.imports`), each file looked at once."""

    def __init__(self, file: Path | None = None) -> None:
        """
        Args:
            file: where to remember; None remembers nothing.
        """
        self._path = file
        self._known = _read(file)
        self._used: dict[str, imports.Facts] = {}
        self._named: dict[tuple[Path, str], imports.Facts] = {}
        self._places: dict[tuple[str, Path | None], Path | None] = {}
        self._closures: dict[tuple[frozenset[str], Path], dict[str, Path]] = {}

    def closure(self, modules: Iterable[str], root: Path) -> dict[str, Path]:
        """The modules and all that they import: name -> file.

        Args:
            modules: dotted names, of ours or of other packages.
        """
        key = frozenset(modules), root
        if key not in self._closures:
            # Together, not module by module: they share most of what they import.
            roots = {first: place for name in sorted(key[0]) for first, place in imports.roots_of(name, root).items()}
            self._closures[key] = imports.closure(sorted(key[0]), roots, self._of, self._place)
        return self._closures[key]

    def save(self) -> None:
        """Write what was new, where there is a place for it that can be written."""
        if self._path is None or self._used.keys() <= self._known.keys():
            return
        entries = {**self._known, **self._used} if len(self._known) < MANY else self._used
        with suppress(OSError):
            atomic.write_text(self._path, json.dumps({"by": _parser(), "files": entries}, sort_keys=True))
        self._known = entries

    def _place(self, name: str, roots: Mapping[str, Path]) -> Path | None:
        key = name, roots.get(imports.package_of(name))
        if key not in self._places:
            self._places[key] = imports.module_file(name, roots)
        return self._places[key]

    def _of(self, path: Path, name: str) -> imports.Facts:
        if (path, name) not in self._named:
            raw = textfiles.read_bytes(path)
            # The module's name counts, since relative imports are resolved against it; so does whether the file is an `__init__.py`.
            digest = hashlib.sha256(f"{name}\0{path.name}\0".encode() + raw).hexdigest()[:32]
            facts = self._known.get(digest) or _PARSED.get(digest)
            if facts is None:
                facts = _PARSED[digest] = imports.facts(textfiles.decoded(raw, path), path, name)
            self._named[path, name] = self._used[digest] = facts
        return self._named[path, name]


def _read(file: Path | None) -> dict[str, imports.Facts]:
    """The entries of a file; none of one that is not as it was written, or that other code or another Python wrote."""
    try:
        raw = json.loads(textfiles.read_bytes(file, 1 << 26)) if file is not None else {}
        if raw.get("by") != _parser():
            return {}
        return {str(key): (tuple(map(str, names)), tuple(map(str, assets))) for key, (names, assets) in raw["files"].items()}
    except (textfiles.TextFileError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}  # a memory, nothing more: it is made anew


@cache
def _parser() -> str:
    """What reads sources: our code and the Python."""
    return hashlib.sha256(Path(imports.__file__).read_bytes() + sys.version.encode()).hexdigest()[:32]
