"""The rooms of the house: no two modules import each other, and each room imports only rooms below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.checks.sources import syntax_nodes

ROOT = Path(__file__).parents[2]
FLOORS: dict[str, list[set[str]]] = {
    "registry": [
        {"", "machine", "parameters", "places", "text"},
        {"sample", "system"},
        {"formats", "plugins"},
        {"preparations", "recordings", "scenes", "where"},
        {"adapters"},
        {"entries"},
    ],
    "runners": [
        {"", "prompts", "runtime"},
        {"contracts", "servers"},
        {"data"},
        {"inference", "scoring"},
        {"results", "training"},
        {"plugins", "reporting"},
        {"review", "stages"},
    ],
    "compiler": [
        {"", "spec"},
        {"plan"},
        {"project"},
        {"results"},
        {"run"},
        {"viewing"},
        {"commands"},
    ],
}
"""Rooms of each package from the lowest floor up: folders and single modules; "" is the package's own `__init__.py`. A package's
`__main__.py`, which starts it, imports what it likes."""
BACK = {("qualm.runners.contracts.estimators", "qualm.runners.inference.nli")}
"""The one import that goes up: an estimator's context opens the NLI model that it asks for."""
MAX_ENTRIES = 30
"""Entries of one folder, `__init__.py` among them."""
MANY = {"registry/adapters", "registry/cards", "runners/plugins", "runners/contracts", "registry/data", "registry/store"}
"""Folders of as many entries as there are plugins, kinds of plugins, or datasets; with all below them."""


@cache
def modules() -> dict[str, Path]:
    """Every module but the `__main__.py`: dotted name -> file."""
    files = [file for package in FLOORS for file in (ROOT / package).rglob("*.py") if file.name != "__main__.py"]
    return {"qualm." + ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


def imported(name: str) -> Iterator[str]:
    """The modules of ours that a module imports, wherever the import stands: within functions and for type checkers too."""
    for node in syntax_nodes(*FLOORS)[modules()[name].relative_to(ROOT).as_posix()]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: a relative import; name the module in full"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield from {module for module in (inner if inner in modules() else node.module or "",) if module in modules()}


@cache
def graph() -> dict[str, set[str]]:
    return {name: set(imported(name)) - {name} for name in modules()}


def room(module: str) -> tuple[str, str]:
    """The package and the room that a module stands in."""
    package, _, rest = module.removeprefix("qualm.").partition(".")
    return package, rest.partition(".")[0]


def test_no_circle_of_imports() -> None:
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other in a circle: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize("package", FLOORS)
def test_every_room_has_its_floor(package: str) -> None:
    rooms = {name for module in modules() for of, name in [room(module)] if of == package}
    listed = [name for floor in FLOORS[package] for name in floor]
    assert len(listed) == len(set(listed)) and set(listed) == rooms


def test_imports_go_down() -> None:
    floor = {(package, name): i for package, floors in FLOORS.items() for i, names in enumerate(floors) for name in names}
    up = {
        (module, target)
        for module, targets in graph().items()
        for target in targets
        if room(module)[0] == room(target)[0] and room(module) != room(target) and floor[room(target)] >= floor[room(module)]
    }
    assert up == BACK


def test_a_level_can_be_taken_in_at_a_glance() -> None:
    entries: dict[Path, set[str]] = {}
    for file in modules().values():
        path = file.relative_to(ROOT)
        for folder in path.parents:
            entries.setdefault(folder, set()).add(path.relative_to(folder).parts[0])
    full = {
        f.as_posix(): len(names)
        for f, names in entries.items()
        if len(names) > MAX_ENTRIES and not any(f.is_relative_to(many) for many in MANY)
    }
    assert not full
