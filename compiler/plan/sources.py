"""Remember the imports of source files by their content, as parsing some 300 files takes most of a second.

They are in `.qualm/imports.json`, which is local and no input of anything. Entries are found by the digest of a file's bytes and its
module's name; the file is ignored if other code or another Python wrote it.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from qualm.registry.plugins import imports
from qualm.registry.system import atomic, textfiles

FILE = Path(".qualm", "imports.json")
MAX_KEPT_ENTRIES = 5_000
"""Number of entries above which unused ones are dropped."""

_PARSED: dict[str, imports.Facts] = {}
"""Facts parsed in this process, by the same digests."""


class Sources:
    """Finder of the files behind modules, with a cache on disk of what each imports.

    Args:
        file: memory between commands; None for none.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._path = file
        self._known = _read(file)
        self._used: dict[str, imports.Facts] = {}
        self._named: dict[tuple[Path, str], imports.Facts] = {}
        self._closures: dict[tuple[frozenset[str], Path], dict[str, Path]] = {}
        self._needs: dict[frozenset[tuple[str, Path]], tuple[dict[str, imports.ModuleNeeds | None], dict[str, Path | None]]] = {}

    def closure(self, modules: Iterable[str], root: Path) -> dict[str, Path]:
        """Return {name: file} of modules, assets and all that they import in our packages."""
        key = frozenset(modules), root
        if key not in self._closures:
            # In one go, since modules share most of their imports.
            roots = {first: place for name in sorted(key[0]) for first, place in imports.roots_of(name, root).items()}
            self._closures[key] = imports.closure(sorted(key[0]), roots, self._finder(roots))
        return self._closures[key]

    def save(self) -> None:
        """Write newly read files' imports to the cache file; ignore disk errors."""
        if self._path is None or self._used.keys() <= self._known.keys():
            return
        entries = {**self._known, **self._used} if len(self._known) < MAX_KEPT_ENTRIES else self._used
        with suppress(OSError):
            atomic.write_text(self._path, json.dumps({"by": _parser(), "files": entries}, sort_keys=True))
        self._known = entries

    def _finder(self, roots: Mapping[str, Path]) -> Callable[[str, Mapping[str, Path]], imports.ModuleNeeds | None]:
        """Return `imports.module_needs` with a cache; it leaves out modules that have no file."""
        known, places = self._needs.setdefault(frozenset(roots.items()), ({}, {}))

        def place(name: str, roots: Mapping[str, Path]) -> Path | None:
            if name not in places:
                parent = places.get(name.rpartition(".")[0])
                # `from a import b` where a is a file: b is no module, and most imported names are such.
                in_file = parent is not None and parent.name != "__init__.py"
                places[name] = None if in_file else imports.module_file(name, roots)
            return places[name]

        def find(name: str, roots: Mapping[str, Path]) -> imports.ModuleNeeds | None:
            if name not in known:
                found = imports.module_needs(name, roots, self._facts, place)
                # The closures of a plan share most modules, and most of the names that these import are no modules of ours.
                if found is not None:
                    found = imports.ModuleNeeds(found.path, tuple(n for n in found.modules if place(n, roots)), found.assets)
                known[name] = found
            return known[name]

        return find

    def _facts(self, path: Path, name: str) -> imports.Facts:
        if (path, name) not in self._named:
            raw = textfiles.read_bytes(path)
            # By name too, since it resolves relative imports; `__init__.py` resolves them differently.
            digest = hashlib.sha256(f"{name}\0{path.name}\0".encode() + raw).hexdigest()[:32]
            facts = self._known.get(digest) or _PARSED.get(digest)
            if facts is None:
                facts = _PARSED[digest] = imports.facts(textfiles.decoded(raw, path), path, name)
            self._named[path, name] = self._used[digest] = facts
        return self._named[path, name]


def _read(file: Path | None) -> dict[str, imports.Facts]:
    try:
        raw = json.loads(textfiles.read_bytes(file, 1 << 26)) if file is not None else {}
        if raw.get("by") != _parser():
            return {}
        return {str(key): (tuple(map(str, names)), tuple(map(str, assets))) for key, (names, assets) in raw["files"].items()}
    except (textfiles.TextFileError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}  # a memory, nothing more: it is made anew


@cache
def _parser() -> str:
    return hashlib.sha256(Path(imports.__file__).read_bytes() + sys.version.encode()).hexdigest()[:32]
