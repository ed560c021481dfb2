"""Digest the code behind a result: versions of our own engine, and contents of all other files.

The stores of answers, replies and pixels use it in their keys. Our code counts by one version per kind of answer
(`qualm.registry.plugins.engine_versions`), so that edits which change no number recompute nothing. Other code counts by its content
without comments and layout.
"""

import ast
import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from qualm.registry.plugins import imports
from qualm.registry.plugins.engine_versions import SIGNALS, split_by_version, versioned_kinds
from qualm.registry.plugins.imports import module_file, roots_of
from qualm.registry.plugins.registry import ROOT
from qualm.runners.runtime.libraries import library_version, library_versions, series

OURS = "qualm"


@dataclass(frozen=True)
class Engine:
    """Plugins, versions, files and libraries that compute a module's answers, for cache keys."""

    plugins: tuple[str, ...] = ()
    """Our own plugins in it that count by version, as `KIND/NAME`."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """Kind of answer -> version (`qualm.registry.plugins.engine_versions.VERSIONS`)."""
    content: str = ""
    """Digest of all files that count by content; empty if there are none."""
    libraries: Mapping[str, str] = field(default_factory=dict)
    """Library -> version; empty if a server computes."""

    @property
    def identity(self) -> str:
        """Return the SHA-256 of the plugins' names and the files' content digest, not of versions."""
        return _digest([sorted(self.plugins), self.content])

    def changed_versions(self, part: str = "") -> dict[str, int]:
        """Return {kind: version} of versions other than 1 that affect a part of answers ("": any)."""
        mine = {kind for kind in self.versions if not part or self.content or depends_on(part, kind)}
        return {kind: version for kind, version in sorted(self.versions.items()) if kind in mine and version != 1}

    def accepts(self, part: str, versions: Mapping[str, int]) -> bool:
        """Return whether a stored part of an answer, computed with `versions`, is still valid."""
        return self.changed_versions(part) == {
            kind: version for kind, version in versions.items() if self.content or depends_on(part, kind)
        }


def depends_on(part: str, kind: str) -> bool:
    """Return whether `part` depends on `kind`: its kind in SIGNALS, or a kind not in SIGNALS."""
    return kind not in SIGNALS.values() or SIGNALS.get(part.partition(" ")[0].partition("/")[0]) == kind


def find_engine(module: str, *kinds: str) -> Engine:
    """Return the plugins, versions, file digest and libraries that compute a module's answers.

    For a module of another package, its files count by content, and its distribution by version. A module that asks a server lists in
    `ENGINE = [...]` the modules that shape requests and replies; other imports and libraries then do not count.

    Args:
        kinds: kinds of answers that it computes, if it is no plugin.
    """
    named = _declared(module)
    files = {name: _file(name) for name in named} if named else module_files(module)
    plugins, versions, others = split_by_version([module], files, kinds)
    rest = {name: source_digest(path) for name, path in others.items()}
    if named and versioned_kinds(module) is None:
        # Plugins that list the same modules must not share answers.
        rest["plugin"] = module
    first = module.partition(".")[0]
    if first != OURS:
        rest |= {library: library_version(library) for library in _distributions(tuple(sys.path)).get(first, ())}
    return Engine(plugins, versions, _digest(rest) if rest else "", {} if named else library_versions())


def engine_digest(module: str, *kinds: str) -> str:
    """Return the SHA-256 of a module's engine; library releases of one series count as equal."""
    own = find_engine(module, *kinds)
    return _digest([own.identity, own.changed_versions(), {name: series(name, number) for name, number in own.libraries.items()}])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def imported_versions(module: str) -> dict[str, str]:
    """Return version by distribution, for all distributions that a module's files import."""
    modules = [(path, name) for name, path in module_files(module).items() if path.suffix == ".py"]
    names = {n.partition(".")[0] for path, name in modules for n in imports.read_facts(path, name)[0]}
    outside = names - {OURS} - sys.stdlib_module_names
    distributions = _distributions(tuple(sys.path))
    return {library: library_version(library) for name in sorted(outside) for library in sorted(set(distributions.get(name, ())))}


@cache
def _distributions(_path: tuple[str, ...]) -> Mapping[str, list[str]]:
    """Return distributions by the package that they install, listed once per search path."""
    return packages_distributions()


@cache
def source_digest(path: Path) -> str:
    """Return the SHA-256 of Python syntax without docstrings, or of another file's bytes."""
    if path.suffix != ".py":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    tree = ast.parse(path.read_bytes(), str(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [s for s in node.body if not _is_prose(s)]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def module_files(module: str) -> dict[str, Path]:
    """Return file by module name, for a module and all project modules and assets it needs."""
    return imports.closure([module], roots_of(module, ROOT))


def _declared(module: str) -> list[str]:
    text = _file(module).read_text(encoding="utf-8-sig")
    # A search of the text first: few modules have a list, and parsing takes longer than the rest of a digest.
    for node in ast.parse(text).body if "ENGINE" in text else ():
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "ENGINE" for t in node.targets):
            return list(ast.literal_eval(node.value))
    return []


def _file(name: str) -> Path:
    path = module_file(name, roots_of(name, ROOT))
    if path is None:
        raise ModuleNotFoundError(f"no file of the module {name}")
    return path


def _is_prose(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)
