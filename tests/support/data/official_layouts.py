"""Official files of every adapter whose own test lays some out: for tests of what all adapters keep.

`laid_out(root)` of `tests/registry/adapters/test_NAME.py` makes them beneath a folder, and says with which arguments they are read.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qualm.registry.plugins.registry import names

FOLDER = Path(__file__).parents[2] / "registry" / "adapters"


def _layouts() -> dict[str, Callable[[Path], tuple[Path, dict[str, Any]]]]:
    tested = [name for name in names("datasets") if (FOLDER / f"test_{name}.py").is_file()]
    modules = {name: importlib.import_module(f"tests.registry.adapters.test_{name}") for name in tested}
    return {name: module.laid_out for name, module in modules.items() if hasattr(module, "laid_out")}


LAYOUTS = _layouts()
"""Adapter -> what lays its files out."""
