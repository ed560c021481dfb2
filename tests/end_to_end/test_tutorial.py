"""docs/tutorial.md, typed block by block into an empty folder: what it says a reader gets is what comes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.processes.forks import forks

PAGE = Path(__file__).parents[2] / "docs/tutorial.md"
WHO = {f"GIT_{role}_{part}": "reader@example.org" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}


@dataclass
class Reader:
    """Somebody who saves the files of the page where their first lines say, and types its commands into one shell."""

    folder: Path

    def follow(self, language: str, block: str) -> str:
        """What the terminal shows."""
        if language != "bash":
            (self.folder / block.partition("\n")[0].removeprefix("# ")).write_text(block, encoding="utf-8")
            return ""
        path = os.pathsep.join([forks().folder, str(Path(sys.executable).parent), os.environ["PATH"]])
        script = f"set -e\n{block}\npwd >&2"
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env={**os.environ, **WHO, "PATH": path}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        self.folder = Path(done.stderr.splitlines()[-1])
        return done.stdout


@pytest.mark.slow
def test_the_tutorial_works(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    blocks = re.findall(r"^```(bash|python|yaml)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    shown = "".join(reader.follow(language, block) for language, block in blocks)
    assert "confident_errors@above=0.8" in shown
    assert "180 answers computed, 0 answers stored" in shown
    assert "60 answers computed, 180 answers stored" in shown, "another strength asks only about the new pictures"
    assert (reader.folder / "results/shapes/report.html").is_file()
    figures = (reader.folder / "figures/figures.tex").read_text(encoding="utf-8")
    named = re.findall(r"\\(?:input|includegraphics)\{(.+?)\}", figures + (reader.folder / "tables/tables.tex").read_text(encoding="utf-8"))
    assert len(named) >= 4 and all((reader.folder / name).is_file() for name in named), "as a document beside the folders finds them"
    assert (reader.folder / "site/index.html").is_file()
    assert "0 problems" in shown and "360 recorded" in shown, "60 answers and 300 draws come back out of the log"
