"""Tables in Markdown."""

from __future__ import annotations

from pathlib import Path

from qualm.runners.plugins.exports.markdown import markdown
from tests.runners.plugins.exports.test_results import context


def test_tables_on_one_page(tmp_path: Path) -> None:
    made = context(tmp_path)
    markdown(made, digits=2)
    text = (made.folder / "tables.md").read_text()
    assert text.startswith("# A \\| bench\n") and text.endswith("Revision abc123.\n")
    assert "| model | accuracy ↑ |\n|---|---:|\n| a | **0.80** (0.70 to 0.90) |\n" in text
    assert "| perplexity | 0.70† (0.60 to 0.80) | −0.25 (−0.35 to −0.15) |" in text and "| P(True) | undefined | – |" in text
    start = "d: models by metric. 60 questions in 20 groups. In parentheses: 95% intervals. ↑: higher is better. "
    assert start + "Bold: significantly better than every other (paired differences over" in text
    assert (
        "†: the best, or statistically tied with it (paired differences over resamples of whole groups, corrected by Westfall and" in text
    )
    widths = [line.count(" |") for line in text.splitlines() if line.startswith("| ")]
    assert widths and made.counts["tables"] == 4


def test_without_intervals(tmp_path: Path) -> None:
    made = context(tmp_path)
    markdown(made, intervals=False, slice="category=x")
    text = (made.folder / "tables.md").read_text()
    assert "0.400†" in text and "parentheses" not in text and "0.400† (" not in text
