"""The notebooks of docs/: every cell runs, but for those that take minutes, in a project whose results are there."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.runners.reporting.pair_results import build

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
SLOW = "slow"
"""The tag of a cell that takes minutes."""


def run_notebook(file: Path, replaced: Mapping[str, str], pictures: list[str], slow: bool = False) -> dict[str, Any]:
    """Run the cells in the working directory, `!` lines as commands; gives the variables.

    Args:
        file: the notebook.
        replaced: texts of its code -> what stands there instead.
        pictures: takes the files that are displayed.
        slow: cells that take minutes too.
    """
    display = ModuleType("IPython.display")
    display.__dict__.update(SVG=lambda filename: Path(filename).read_text(encoding="utf-8"), display=pictures.append)
    variables: dict[str, Any] = {"_command": _command}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "IPython", ModuleType("IPython"))
        patch.setitem(sys.modules, "IPython.display", display)
        for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] != "code" or (SLOW in cell["metadata"].get("tags", ()) and not slow):
                continue
            text = "".join(cell["source"])
            for old, new in replaced.items():
                text = text.replace(old, new)
            lines = [f"_command(f{line[1:]!r})" if line.startswith("!") else line for line in text.splitlines()]
            exec(compile("\n".join(lines), file.name, "exec"), variables)
    return variables


def _command(line: str) -> None:
    program, *arguments = shlex.split(line)
    assert program == "qualm"
    done = subprocess.run([sys.executable, "-m", "qualm", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_every_cell_runs(file: Path, tmp_path: Path) -> None:
    build(tmp_path)
    pictures: list[str] = []
    with chdir(tmp_path):
        run_notebook(file, {'spec = "quickstart"': 'spec = "small"'}, pictures)
    assert len(pictures) == 1 and pictures[0].startswith("<svg") and len(list((tmp_path / "figures").glob("*.pdf"))) >= 1


def test_notebooks_are_kept_without_what_they_printed() -> None:
    assert NOTEBOOKS
    for file in NOTEBOOKS:
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code")
