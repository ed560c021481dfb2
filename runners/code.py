"""What code made a thing: digests of modules and of everything of ours they import, blind to comments and layout.

The sample-level store keys answers by this, so that an edit of the code that answers computes again, and an edit of a
comment, a docstring or another module does not.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

from registry.plugins import ROOT

PACKAGES = ("registry", "runners")
LIBRARIES = ("torch", "torchvision", "transformers", "tokenizers", "numpy", "pillow", "jinja2")
"""Whose versions may change an answer: models, image processing, tokenisation, chat templates."""


def engine_digest(module: str) -> str:
    """Digest of the code behind `module` (a dotted name) and of the libraries that compute for it.

    For a module of another package its file and the version of its distribution stand for all that it imports. A module that asks
    somebody else to compute lists by `ENGINE = [...]` the modules that shape what is asked and how replies are read; libraries of
    ours, and whatever else it imports, then do not count.
    """
    total = hashlib.sha256()
    if named := _engine(module):
        for name in sorted(named):
            total.update(f"{name} {source_digest(_known(name))}\n".encode())
        return total.hexdigest()
    for name, path in sorted(closure(module).items()):
        total.update(f"{name} {source_digest(path)}\n".encode())
    first = module.partition(".")[0]
    foreign = () if first in PACKAGES else tuple(packages_distributions().get(first, ()))
    for library in (*LIBRARIES, *foreign):
        total.update(f"{library} {_version(library)}\n".encode())
    return total.hexdigest()


def imported_versions(module: str) -> dict[str, str]:
    """Version of every distribution whose packages the module or anything of ours behind it imports."""
    names = {n.partition(".")[0] for path in closure(module).values() for n in _named(path)}
    outside = names - set(PACKAGES) - sys.stdlib_module_names
    known = packages_distributions()
    return {library: _version(library) for name in sorted(outside) for library in sorted(set(known.get(name, ())))}


def file_digest(path: Path) -> str:
    """Digest of one file of ours alone and of the libraries that compute for it: for code whose imports change no answer."""
    total = hashlib.sha256(source_digest(path).encode())
    for library in LIBRARIES:
        total.update(f"{library} {_version(library)}\n".encode())
    return total.hexdigest()


@cache
def source_digest(path: Path) -> str:
    """SHA-256 of a module's syntax tree without docstrings; comments and layout are not in the tree."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [s for s in node.body if not _is_prose(s)]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def closure(module: str) -> dict[str, Path]:
    """The module and every module of ours it imports when it runs, at any depth: dotted name -> file."""
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _file(name)
        if path is None or name in found:
            continue
        found[name] = path
        waiting += _imports(path)
        if "." in name:
            waiting.append(name.rpartition(".")[0])  # a package's __init__ runs first
    return found


def _imports(path: Path) -> list[str]:
    return [n for n in _named(path) if n.partition(".")[0] in PACKAGES]


def _named(path: Path) -> list[str]:
    """Every module that a file imports when it runs."""
    names: list[str] = []
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"), str(path))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            waiting += node.orelse  # the rest is for type checkers and never runs
            continue
        if isinstance(node, ast.Import):
            names += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
        waiting += ast.iter_child_nodes(node)
    return names


def _engine(module: str) -> list[str]:
    """What a module declares by `ENGINE`."""
    for node in ast.parse(_known(module).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "ENGINE" for t in node.targets):
            return list(ast.literal_eval(node.value))
    return []


def _known(name: str) -> Path:
    path = _file(name)
    if path is None:
        raise ModuleNotFoundError(f"no file of the module {name}")
    return path


def _file(name: str) -> Path | None:
    if name.partition(".")[0] in PACKAGES:
        base = ROOT.joinpath(*name.split("."))
        return next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)
    spec = importlib.util.find_spec(name)
    return Path(spec.origin) if spec and spec.origin else None


def _is_prose(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)


def _version(library: str) -> str:
    try:
        return version(library).partition("+")[0]  # torch's +cpu or +cu130 is the machine's matter, not the answer's
    except PackageNotFoundError:
        return "absent"
