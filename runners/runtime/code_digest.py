"""The digest of the code behind a result: versions of our own engine, and the content of every other file.

The stores of answers, replies and pixels key what they hold by this. Code of ours counts by one version for each kind of answer
(`qualm.registry.plugins.engine_versions`), so that an edit which moves no number recomputes nothing; any other code counts by its content,
blind to comments and layout.
"""

import ast
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from qualm.registry.plugins import imports
from qualm.registry.plugins.engine_versions import FOLDERS, SIGNALS, VERSIONS, plugin_of, versioned
from qualm.registry.plugins.imports import module_file, roots_of
from qualm.registry.plugins.rule import ROOT
from qualm.runners.runtime.libraries import library_version, library_versions, series

OURS = "qualm"


@dataclass(frozen=True)
class Engine:
    """The code behind a module."""

    plugins: tuple[str, ...] = ()
    """Plugins of ours for which versions stand, as `KIND/NAME`."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """Kinds of answers that it computes -> version (`qualm.registry.plugins.engine_versions.VERSIONS`)."""
    content: str = ""
    """Digest of all files that count by their content; empty where there are none."""
    libraries: Mapping[str, str] = field(default_factory=dict)
    """Libraries that compute for it -> version; none where a server computes."""

    @property
    def identity(self) -> str:
        """Digest of what all versions have in common: names of plugins, and content."""
        return _digest([sorted(self.plugins), self.content])

    def behind(self, part: str = "") -> dict[str, int]:
        """Return the versions above 1 that a part of an answer depends on; of all parts by default."""
        mine = {kind for kind in self.versions if not part or self.content or reaches(kind, part)}
        return {kind: version for kind, version in sorted(self.versions.items()) if kind in mine and version != 1}

    def takes(self, part: str, versions: Mapping[str, int]) -> bool:
        """Return whether a part of an answer that was computed under these versions (`behind()` of then) still counts."""
        return self.behind(part) == {kind: version for kind, version in versions.items() if self.content or reaches(kind, part)}


def reaches(kind: str, part: str) -> bool:
    """Return whether a part of an answer, of a model plugin of ours, depends on the version of a kind of answer."""
    return kind not in SIGNALS.values() or SIGNALS.get(part.partition(" ")[0].partition("/")[0]) == kind


def engine(module: str, *kinds: str) -> Engine:
    """Return the versions and content digests of the code behind a module's answers.

    For a module of another package that package's own files count by their content, and the version of its distribution. A module that
    asks a server to compute lists by `ENGINE = [...]` the modules that shape what is asked and how replies are read; libraries
    of ours, and whatever else it imports, then do not count.

    Args:
        kinds: of answers that it computes, where it is no plugin.
    """
    named = _declared(module)
    # A plugin that asks a server depends only on what shapes requests and reads replies, not on all that it imports.
    files = {name: _file(name) for name in named} if named else closure(module)
    plugins, versions, others = parted([module], files, kinds)
    rest = {name: source_digest(path) for name, path in others.items()}
    if named and versioned(module) is None:
        # Two plugins that list the same modules must not share answers.
        rest["plugin"] = module
    first = module.partition(".")[0]
    if first != OURS:
        rest |= {library: library_version(library) for library in packages_distributions().get(first, ())}
    return Engine(plugins, versions, _digest(rest) if rest else "", {} if named else library_versions())


def parted(
    modules: Iterable[str], files: Mapping[str, Path], kinds: Iterable[str] = ()
) -> tuple[tuple[str, ...], dict[str, int], dict[str, Path]]:
    """Separate the code that versions stand for from the files that count by their content.

    Args:
        modules: the plugins and stages that compute. Without a plugin of a kind in `FOLDERS`, all files count by content.
        files: name -> file of the modules behind them.
        kinds: of answers that they compute beside those of plugins.

    Returns:
        plugins of ours as `KIND/NAME`, kinds of answers with their versions, and the remaining files.
    """
    # An empty `__init__.py` that comes or goes changes nothing.
    files = {name: path for name, path in sorted(files.items()) if path.name != "__init__.py" or path.stat().st_size}
    asked = [(module, plugin) for module in sorted({*modules, *files}) if (plugin := plugin_of(module)) and plugin[0] in FOLDERS]
    kinds = {*kinds, *(kind for module, (folder, _) in asked for kind in versioned(module) or FOLDERS[folder])}
    if not kinds:
        return (), {}, files
    plugins = tuple("/".join(plugin) for module, plugin in asked if versioned(module) and not plugin[1].startswith("_"))
    return plugins, {kind: VERSIONS[kind] for kind in sorted(kinds)}, {n: path for n, path in files.items() if versioned(n) is None}


def engine_digest(module: str, *kinds: str) -> str:
    """Digest of the code behind a module and of the libraries that compute for it, to the versions that count as the same by default."""
    own = engine(module, *kinds)
    return _digest([own.identity, own.behind(), {name: series(name, number) for name, number in own.libraries.items()}])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def imported_versions(module: str) -> dict[str, str]:
    """Version of every distribution whose packages the module or anything of ours behind it imports."""
    modules = [(path, name) for name, path in closure(module).items() if path.suffix == ".py"]
    names = {n.partition(".")[0] for path, name in modules for n in imports.named(path, name)[0]}
    outside = names - {OURS} - sys.stdlib_module_names
    distributions = packages_distributions()
    return {library: library_version(library) for name in sorted(outside) for library in sorted(set(distributions.get(name, ())))}


@cache
def source_digest(path: Path) -> str:
    """SHA-256 of a module's syntax tree without docstrings; comments and layout are not in the tree. Of an asset, of its bytes."""
    if path.suffix != ".py":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    # Docstrings go, wherever they stand; comments never were in the tree.
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [s for s in node.body if not _is_prose(s)]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def closure(module: str) -> dict[str, Path]:
    """The module and all that implements it, by `qualm.registry.plugins.imports`: name -> file; of another package's, its files too."""
    return imports.closure([module], roots_of(module, ROOT))


def _declared(module: str) -> list[str]:
    """What a module declares by `ENGINE`."""
    for node in ast.parse(_file(module).read_text(encoding="utf-8")).body:
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
