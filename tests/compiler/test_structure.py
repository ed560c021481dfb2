"""The house keeps its shape: who may import whom, and what compiling may not import."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALLOWED = {"registry": {"registry"}, "runners": {"registry", "runners"}, "compiler": {"registry", "runners", "compiler"}}
HEAVY = {"torch", "transformers", "lightning", "dvc", "pyarrow", "polars", "numpy", "sklearn", "scipy", "pandas", "PIL", "httpx"}


@pytest.mark.parametrize("package", ALLOWED)
def test_dependency_direction(package: str) -> None:
    files = [*(ROOT / package).rglob("*.py")]
    assert files
    for file in files:
        ours = set(re.findall(r"^\s*(?:from|import) qualm\.(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE))
        assert ours <= ALLOWED[package], f"{file.relative_to(ROOT)} imports {ours - ALLOWED[package]}"


def test_our_packages_are_named_below_one_name() -> None:
    """`import runners` would find the folder in this checkout, as a second copy of the module, and nothing where qualm is installed."""
    for file in (file for folder in (*ALLOWED, "qualm", "tests") for file in (ROOT / folder).rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        suspect = re.search(rf"^\s*(?:from|import) (?:{'|'.join(ALLOWED)})\b", text, re.MULTILINE)
        for node in ast.walk(ast.parse(text)) if suspect else ():
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            assert not {n.split(".")[0] for n in names} & set(ALLOWED), f"{file.relative_to(ROOT)}:{node.lineno}: put `qualm.` before it"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["validate", "plan"])
def test_the_quick_commands_import_no_heavy_library(command: str) -> None:
    """All that they import, as Python itself lists it."""
    qualm = [sys.executable, "-X", "importtime", "-m", "qualm", command, "quickstart"]
    done = subprocess.run(qualm, cwd=ROOT, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    used = {"validate": "qualm.compiler.spec.resolve", "plan": "qualm.compiler.project.kept_answers"}[command]
    assert used in imported, "the list is of something else"
    heavy = HEAVY - {"dvc"} if command == "plan" else HEAVY  # DVC hashes files and remembers their hashes
    assert not {name.partition(".")[0] for name in imported} & heavy, f"qualm {command} must stay cheap"
