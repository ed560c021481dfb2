"""Plugins made up for a test, as another package would add them: files of their own, found without being installed."""

import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from qualm.registry.plugins import registry

AddPlugin = Callable[[str, str, str], Path]


@contextmanager
def made_up(folder: Path) -> Iterator[AddPlugin]:
    """A function `(kind, name, source) -> file` whose plugins exist until the end of the block."""
    ours = registry.files
    added: dict[str, dict[str, tuple[Path, str]]] = {}

    def files(kind: str) -> dict[str, tuple[Path, str]]:
        return {**ours(kind), **added.get(kind, {})}

    def add(kind: str, name: str, source: str) -> Path:
        module = f"made_up_{kind}_{name}"
        path = folder / f"{module}.py"
        path.write_text(textwrap.dedent(source))
        added.setdefault(kind, {})[name] = (path, module)
        return path

    registry.files = files  # type: ignore[assignment]
    sys.path.insert(0, str(folder))
    registry._checked.cache_clear()
    try:
        yield add
    finally:
        registry.files = ours
        sys.path.remove(str(folder))
        registry._checked.cache_clear()
        for module in [m for m in sys.modules if m.startswith("made_up_")]:
            del sys.modules[module]


def write(root: Path, files: dict[str, str]) -> None:
    """Files below a folder: name -> text."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
