"""Every module with code of its own has the test file that mirrors it: `runners/scoring/x.py`, `tests/runners/scoring/test_x.py`."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.bench.mutants import mirror

ROOT = Path(__file__).parents[2]


def test_every_module_has_its_mirrored_test() -> None:
    files = [file for package in ("compiler", "registry", "runners") for file in sorted((ROOT / package).rglob("*.py"))]
    modules = [file.relative_to(ROOT) for file in files if file.name not in ("__init__.py", "__main__.py") and has_code(file)]
    missing = {module.as_posix() for module in modules if not mirror(module).is_file()}
    assert sorted(missing) == [], "write the test beside the others of its folder"


def has_code(file: Path) -> bool:
    """Whether any function has a body: fields, constants and protocols alone say nothing that could be tested."""
    functions = [node for node in ast.walk(ast.parse(file.read_bytes())) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return any(not isinstance(part, ast.Expr | ast.Pass) for function in functions for part in function.body)
