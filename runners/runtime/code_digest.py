"""What code made a thing: digests of modules and of everything of ours they import, blind to comments and layout.

The sample-level store keys answers by this, so that an edit of the code that answers computes again, and an edit of a
comment, a docstring or another module does not.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

from qualm.registry.plugins import imports
from qualm.registry.plugins.imports import module_file, roots_of
from qualm.registry.plugins.rule import ROOT

LIBRARIES = ("torch", "torchvision", "transformers", "tokenizers", "numpy", "pillow", "jinja2")
"""Whose versions may change an answer: models, image processing, tokenisation, chat templates."""


def engine_digest(module: str) -> str:
    """Digest of the code behind `module` (a dotted name) and of the libraries that compute for it.

    For a module of another package that package's own files count as ours do, and the version of its distribution. A module that asks
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
    foreign = () if first == "qualm" else tuple(packages_distributions().get(first, ()))
    for library in (*LIBRARIES, *foreign):
        total.update(f"{library} {_version(library)}\n".encode())
    return total.hexdigest()


def imported_versions(module: str) -> dict[str, str]:
    """Version of every distribution whose packages the module or anything of ours behind it imports."""
    modules = [(path, name) for name, path in closure(module).items() if path.suffix == ".py"]
    names = {n.partition(".")[0] for path, name in modules for n in imports.named(path, name)[0]}
    outside = names - {"qualm"} - sys.stdlib_module_names
    distributions = packages_distributions()
    return {library: _version(library) for name in sorted(outside) for library in sorted(set(distributions.get(name, ())))}


def file_digest(path: Path) -> str:
    """Digest of one file of ours alone and of the libraries that compute for it: for code whose imports change no answer."""
    total = hashlib.sha256(source_digest(path).encode())
    for library in LIBRARIES:
        total.update(f"{library} {_version(library)}\n".encode())
    return total.hexdigest()


@cache
def source_digest(path: Path) -> str:
    """SHA-256 of a module's syntax tree without docstrings; comments and layout are not in the tree. Of an asset, of its bytes."""
    if path.suffix != ".py":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [s for s in node.body if not _is_prose(s)]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def closure(module: str) -> dict[str, Path]:
    """The module and all that implements it, by `qualm.registry.plugins.imports`: name -> file; of another package's, its files too."""
    return imports.closure([module], roots_of(module, ROOT))


def _engine(module: str) -> list[str]:
    """What a module declares by `ENGINE`."""
    for node in ast.parse(_known(module).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "ENGINE" for t in node.targets):
            return list(ast.literal_eval(node.value))
    return []


def _known(name: str) -> Path:
    path = module_file(name, roots_of(name, ROOT))
    if path is None:
        raise ModuleNotFoundError(f"no file of the module {name}")
    return path


def _is_prose(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)


def _version(library: str) -> str:
    try:
        return version(library).partition("+")[0]  # torch's +cpu or +cu130 is the machine's matter, not the answer's
    except PackageNotFoundError:
        return "absent"
