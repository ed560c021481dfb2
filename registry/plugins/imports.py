"""Files that implement a module: its own and those of all modules it imports, found in their source without importing.

Stages depend on these files and stored answers are keyed by them. Both must use the same closure: otherwise a rerun stage could find the
answers of older code.
"""

import ast
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from qualm.registry.places import project_root
from qualm.registry.plugins.registry import KINDS
from qualm.registry.system import textfiles

PROJECT = "qualm.project"
"""The package of a project's own plugins: `qualm.project.metrics.NAME`."""
PACKAGES = ("qualm.registry", "qualm.runners")
"""Our packages whose files count; the compiler makes pipelines but no results."""

Facts = tuple[tuple[str, ...], tuple[str, ...]]

IMPORTERS = ("import_module", "__import__")
STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)

EXECUTION = frozenset(
    {
        "qualm.runners.__main__",
        "qualm.runners.contracts.stages",
        "qualm.runners.runtime.settings",
        "qualm.runners.servers.client",
        "qualm.runners.runtime.server_config",
        "qualm.runners.servers.rate_limits",
        "qualm.runners.servers.transport",
    }
)
"""Modules that schedule, or change speed only; neither they nor what only they import count."""


def roots_of(module: str, root: Path) -> dict[str, Path]:
    """Return {package: folder that its path starts from} for `qualm.*` and `module`'s package.

    The keys of Qualm are `PACKAGES`. A project's plugin brings every `qualm.project.KIND`. A package that is not installed is left out.
    """
    first = package_of(module)
    roots = dict.fromkeys(PACKAGES, root)
    if first.startswith(PROJECT) and (project := project_root()) is not None:
        roots |= {f"{PROJECT}.{folder.name}": project / folder.parent for folder in map(Path, KINDS.values())}
    if first not in roots and (spec := find_spec(first)) is not None:  # of a package without a dot, which runs nothing
        places = list(spec.submodule_search_locations or ())
        if places or spec.origin:
            roots[first] = Path(places[0] if places else str(spec.origin)).parent
    return roots


def module_file(name: str, roots: Mapping[str, Path]) -> Path | None:
    """Return the .py file of module `name` below its package in `roots`, or None."""
    root = roots.get(package_of(name))
    if root is None:
        return None
    base = f"{root}/{name.removeprefix(f'{PROJECT}.').removeprefix('qualm.').replace('.', '/')}"
    return next((Path(file) for file in (f"{base}/__init__.py", f"{base}.py") if textfiles.is_file(file)), None)


def read_facts(path: Path, name: str) -> Facts:
    """Return (imported module names, asset paths) of a file, cached until it changes."""
    # The stamp is part of the cache's key: a long-lived process (tests, `qualm view`) sees edits.
    state = path.stat()
    return _read_facts(path, name, state.st_mtime_ns, state.st_size)


@cache
def _read_facts(path: Path, name: str, *_stamp: int) -> Facts:
    return facts(textfiles.read_text(path), path, name)


def facts(text: str, path: Path, name: str) -> Facts:
    """Return (imported module names, asset paths) from a module's source text."""
    tree = ast.parse(text, str(path))
    # A search of the text first: reading every expression of every module takes most of a second, and few import by name.
    calls = any(name in text for name in IMPORTERS)
    return imported(tree, name if path.name == "__init__.py" else name.rpartition(".")[0], calls), _assets(tree)


class ModuleNeeds(NamedTuple):
    """File, imported modules and asset files of one module, not followed recursively."""

    path: Path
    modules: tuple[str, ...]
    """Dotted names that it imports, among them names in modules, and the package above it."""
    assets: Mapping[str, Path]
    """File by path from the root, of what it names in `ASSETS`."""


def closure(
    modules: Iterable[str], roots: Mapping[str, Path], find: Callable[[str, Mapping[str, Path]], ModuleNeeds | None] | None = None
) -> dict[str, Path]:
    """Return {module or asset path: file} of modules and all they import within `roots`.

    Imports are followed recursively, except into `EXECUTION`. Imports under TYPE_CHECKING are left out. Files that a module names in
    `ASSETS` are included, under their paths from the root.

    Args:
        find: replaces `module_needs`, by a cache.
    """
    find = find or module_needs
    files: dict[str, Path] = {}
    visited = set(EXECUTION)
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in visited:
            continue
        visited.add(name)
        if (found := find(name, roots)) is not None:
            files[name] = found.path
            files |= found.assets
            waiting += found.modules
    return files


def module_needs(
    name: str,
    roots: Mapping[str, Path],
    get_facts: Callable[[Path, str], Facts] = read_facts,
    find_file: Callable[[str, Mapping[str, Path]], Path | None] = module_file,
) -> ModuleNeeds | None:
    """Return the file, imports and assets of a module; None if it has no file below `roots`."""
    if (path := find_file(name, roots)) is None:
        return None
    modules, assets = get_facts(path, name)
    root = roots[package_of(name)]
    places = [posixpath.normpath((path.parent.relative_to(root) / asset).as_posix()) for asset in assets]
    # The packages above a module run before it, so their `__init__.py` is part of what implements it.
    return ModuleNeeds(path, (name.rpartition(".")[0], *_with_stars(modules, roots)), {place: root / place for place in places})


def package_of(name: str) -> str:
    """Return a module's package: `qualm.NAME`, `qualm.project.NAME` or its first part.

    >>> package_of("qualm.runners.stages.score"), package_of("qualm.project.metrics.mine"), package_of("acme_vlms.plugin")
    ('qualm.runners', 'qualm.project.metrics', 'acme_vlms')
    """
    parts = name.split(".")
    return ".".join(parts[: 3 if name.startswith(f"{PROJECT}.") else 2 if parts[0] == "qualm" else 1])


def imported(tree: ast.Module, package: str, has_import_calls: bool = True) -> tuple[str, ...]:
    """Return the dotted names of modules, and of names in them, that a module imports.

    Args:
        package: the dotted name that its relative imports begin from.
        has_import_calls: False if `import_module` is never called, so that expressions need not be read.
    """
    names: list[str] = []
    for node in _running(tree, has_import_calls):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = absolute("." * node.level + (node.module or ""), package)
            # `from a import b` may mean the module a.b or a name in a: both are tried, and what is no file falls away.
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and _last_part(node.func) in IMPORTERS:
            literals = (a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str))
            names += [absolute(name, package) for name in literals]
    return tuple(dict.fromkeys(filter(None, names)))


def absolute(name: str, package: str) -> str:
    """Return the absolute name of a (relative) import in `package`.

    >>> absolute("a.b", "p.q"), absolute(".b", "p.q"), absolute("..b", "p.q"), absolute(".", "p.q")
    ('a.b', 'p.q.b', 'p.b', 'p.q')
    """
    rest = name.lstrip(".")
    level = len(name) - len(rest)
    if not level:
        return name
    parents = package.split(".")
    return ".".join([*parents[: len(parents) - (level - 1)], *([rest] if rest else [])])


def _with_stars(names: Iterable[str], roots: Mapping[str, Path]) -> Iterator[str]:
    for name in names:
        package = name.removesuffix(".*")
        if package != name and (path := module_file(package, roots)) is not None and path.name == "__init__.py":
            yield from (f"{package}.{place.stem}" for place in path.parent.iterdir() if place.suffix == ".py" or place.is_dir())
        else:
            yield package


def _running(tree: ast.AST, expressions: bool) -> Iterator[ast.AST]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        # Its `else` branch does run.
        if isinstance(node, ast.If) and _last_part(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            # Most modules import by statements alone; their expressions, the greater part of the tree, need not be read.
            waiting += (n for n in ast.iter_child_nodes(node) if expressions or isinstance(n, STATEMENTS))


def _last_part(name: ast.expr) -> str:
    """Return "c" for the nodes `a.b.c` and `c`; "" for other expressions."""
    return name.id if isinstance(name, ast.Name) else name.attr if isinstance(name, ast.Attribute) else ""


def _assets(tree: ast.Module) -> tuple[str, ...]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "ASSETS" for t in node.targets):
            return tuple(ast.literal_eval(node.value))
    return ()
