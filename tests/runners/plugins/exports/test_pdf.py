"""Figures in PDF: as wide as asked for, text as text, and a LaTeX file that has them all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qualm.runners.plugins.exports.pdf import pdf
from tests.runners.plugins.exports.test_figures import drawable


def test_pages_are_a_column_wide_and_have_fonts(tmp_path: Path) -> None:
    made = drawable(tmp_path)
    pdf(made, only="leaderboard,urr")
    files = sorted(p.name for p in made.folder.iterdir())
    assert files == ["figures.tex", "leaderboard-d.pdf", "leaderboard-e.pdf", "urr-d-a.pdf"] and made.counts["figures"] == 3
    for name in files[1:]:
        page = (made.folder / name).read_bytes()
        box = [float(x) for x in re.findall(rb"/MediaBox\s*\[([^\]]*)\]", page)[0].split()]
        assert box[2] * 25.4 / 72 == pytest.approx(85, abs=0.01) and b"/FontFile" in page and b"/ToUnicode" in page
    text = (made.folder / "figures.tex").read_text()
    assert re.findall(r"\\includegraphics\{(.+?)\}", text) == ["leaderboard-d.pdf", "urr-d-a.pdf", "leaderboard-e.pdf"]
    assert r"95\% intervals" in text and text.count("{") == text.count("}")
