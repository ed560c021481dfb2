"""Does the README's table of CertainlyUncertain say what a finished run says? Each cell against `scores.parquet`.

    python -m tests.bench.readme_tables [--results results] [--readme README.md]

Prints every cell that differs from the run as it would be printed, or how many agree; exit code 1 where one differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import polars as pl

SPEC = "certainly_uncertain_scenes"
ROWS = {
    "base": "base",
    "*without looking:* base, refusing by the question's words": "base+blind_refuser",
    "*without looking:* base, shown another picture": "base+swapped_picture",
    "*without looking:* SFT on the pairs, shown another picture": "sft_ours+swapped_picture",
    "base, thresholded on held-out answers": "base+thresholding",
    "the same, confidence of a refusal = 1 − that of the answer": "base+thresholding_complement",
    "SFT on other data": "sft_other",
    "DPO on the pairs": "dpo_ours",
    "R-tuning on the pairs": "rtune_ours",
    "**SFT on the pairs**": "sft_ours",
    "the same, confidence recalibrated on held-out answers": "sft_ours+recalibrated",
    "SFT on both, half of it plain questions": "sft_ours_other",
    "DPO on the pairs, after SFT on them": "dpo_after_sft",
}
"""What the README calls a model -> its label."""
COLUMNS = [
    ("ours", "confidence_weighted_accuracy"),
    ("ours", "ece_idk"),
    ("ours", "lave_idk_accuracy"),
    ("ours", "f1_idk"),
    ("ours", "idk_rate"),
    ("ours", "answerable_accuracy"),
    ("standard", "confidence_weighted_accuracy"),
    ("standard", "ece"),
]


def printed(value: float) -> str:
    """A number as the README prints it.

    >>> printed(-0.1829), printed(0.5), printed(1.0)
    ('−.183', '.500', '1.000')
    """
    text = f"{abs(value):.3f}"
    return ("−" if value < 0 and float(text) else "") + text.removeprefix("0")


def stale(readme: str, scores: pl.DataFrame) -> tuple[list[str], int]:
    """Cells that differ from the scores, one line each, and how many agree. A row that the README lacks is a difference."""
    rows = {cells[0]: cells[1:] for line in readme.splitlines() if len(cells := [c.strip() for c in line.strip("|").split("|")]) == 9}
    whole = scores.filter(pl.col("slice") == "all")
    values = {(r["model"], r["dataset"], r["metric"]): r for r in whole.iter_rows(named=True)}
    lines, right = [], 0
    for name, model in ROWS.items():
        if name not in rows:
            lines.append(f"{name}: no such row")
            continue
        for place, (dataset, metric) in enumerate(COLUMNS):
            score = values.get((model, dataset, metric))
            if score is None or score["value"] is None:
                expected = "–"
            elif place == 0:
                expected = f"{printed(score['value'])} ({printed(score['low'])} to {printed(score['high'])})"
            else:
                expected = printed(score["value"])
            if rows[name][place] == expected:
                right += 1
            else:
                lines.append(f"{name}, {metric} of {dataset}: README has {rows[name][place]}, the run {expected}")
    return lines, right


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--readme", type=Path, default=Path("README.md"))
    chosen = parser.parse_args()
    text = chosen.readme.read_text(encoding="utf-8")
    lines, right = stale(text, pl.read_parquet(chosen.results / SPEC / "scores.parquet"))
    print(*lines, f"{SPEC}: {right} of {right + len(lines)} cells as in the run", sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
