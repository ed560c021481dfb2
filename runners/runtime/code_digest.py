"""The digest of the code behind a result: versions of our own engine, and the content of every other file.

The stores of answers, replies and pixels key what they hold by this. Code of ours counts by the versions that
`qualm.registry.plugins.engine_versions` declares, so that an edit which moves no number computes nothing again; code of anybody else's
counts by its content, blind to comments and layout.
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
from qualm.registry.plugins.engine_versions import COMPONENTS, components, plugin
from qualm.registry.plugins.imports import module_file, roots_of
from qualm.registry.plugins.rule import ROOT
from qualm.runners.runtime.libraries import library_version, library_versions, series

OURS = "qualm"


@dataclass(frozen=True)
class Engine:
    """The code behind a module."""

    plugins: Mapping[str, int] = field(default_factory=dict)
    """Plugins of ours that it is or uses -> version."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """Components of ours that it stands on -> version."""
    content: str = ""
    """Digest of all other files; empty where there are none."""
    libraries: Mapping[str, str] = field(default_factory=dict)
    """Those that compute for it -> version; none where somebody else computes."""

    @property
    def identity(self) -> str:
        """What is the same for all versions of it: the plugins' names, and the content of what has no version."""
        return _digest([sorted(self.plugins), self.content])

    def behind(self, part: str = "") -> dict[str, int]:
        """The versions that one part of an answer depends on, or that anything does; first versions go without saying.

        So a component that is new, or newly used, changes no key before it is raised.
        """
        mine = {n: v for n, v in self.versions.items() if not part or self.content or reaches(n, part)}
        return {name: number for name, number in sorted({**self.plugins, **mine}.items()) if number != 1}

    def takes(self, part: str, versions: Mapping[str, int]) -> bool:
        """Whether a part of an answer that was computed under these versions (`behind()` of then) is what would be computed now."""
        return self.behind(part) == {n: v for n, v in versions.items() if self.content or reaches(n, part)}


def reaches(name: str, part: str) -> bool:
    """Whether a version of ours is one that a part of an answer depends on, of a model plugin of ours."""
    parts = COMPONENTS[name].parts if name in COMPONENTS else ()
    return not parts or part.partition(" ")[0].partition("/")[0] in parts


def engine(module: str) -> Engine:
    """The code behind a module.

    For a module of another package that package's own files count by their content, and the version of its distribution. A module that
    asks somebody else to compute lists by `ENGINE = [...]` the modules that shape what is asked and how replies are read; libraries
    of ours, and whatever else it imports, then do not count.

    Args:
        module: a dotted name.
    """
    named = _declared(module)
    # Who asks a server has it compute: only what shapes the question and reads the reply counts, not all that is imported.
    files = {name: _file(name) for name in named} if named else closure(module)
    plugins, versions, others = parted(files)
    rest = {name: source_digest(path) for name, path in others.items()}
    # What declares ENGINE is not among the files it names, so its own version has to be added.
    if named and (listed := plugin(module)) is not None and listed[2] is not None:
        plugins[f"{listed[0]}/{listed[1]}"] = listed[2]
    elif named:
        # Two plugins that list the same modules must not share answers.
        rest["plugin"] = module
    first = module.partition(".")[0]
    if first != OURS:
        rest |= {library: library_version(library) for library in packages_distributions().get(first, ())}
    return Engine(plugins, versions, _digest(rest) if rest else "", {} if named else library_versions())


def parted(files: Mapping[str, Path]) -> tuple[dict[str, int], dict[str, int], dict[str, Path]]:
    """Of modules and their files the plugins and components of ours with their versions, and the files that count by their content."""
    plugins: dict[str, int] = {}
    versions: dict[str, int] = {}
    rest: dict[str, Path] = {}
    for name, path in sorted(files.items()):
        # An empty `__init__.py` that comes or goes changes nothing.
        if path.name == "__init__.py" and not path.stat().st_size:
            continue
        own = plugin(name) if _is_ours(name) else None
        of_ours = components(name) if _is_ours(name) and own is None else None
        if own is not None and own[2] is not None:
            plugins[f"{own[0]}/{own[1]}"] = own[2]
        elif of_ours is not None:
            versions |= {component: COMPONENTS[component].version for component in of_ours}
        else:
            rest[name] = path
    return plugins, versions, rest


def engine_digest(module: str) -> str:
    """Digest of the code behind a module and of the libraries that compute for it, to the versions that count as the same by default."""
    own = engine(module)
    return _digest([own.identity, own.behind(), {name: series(name, number) for name, number in own.libraries.items()}])


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == OURS


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
