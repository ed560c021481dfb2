"""Do the README's tables of CertainlyUncertain and VLM-UQBench say what finished runs say? Each cell against the tables of scores.

    python -m tests.bench.readme_tables [--results results] [--readme README.md]

Prints every cell that differs from the run as it would be printed, every row that is missing or unknown, and how many cells agree; exit
code 1 where anything differs. A spec that has not run is named and left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from qualm.runners.scoring.measuring.score_table import read_labelled

ROWS = {
    "base": "base",
    "*without looking:* base, refusing by the question's words": "base+blind_refuser",
    "*without looking:* base, shown another picture": "base+swapped_picture",
    "*without looking:* SFT on the pairs, shown another picture": "sft_ours+swapped_picture",
    "base, thresholded on held-out answers": "base+thresholding",
    "the same, confidence of a refusal = 1 − that of the answer": "base+thresholding_complement",
    "base, refusing by risk control (a tenth of all questions answered wrongly)": "base+risk_control",
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


MODALITIES = ("image", "text", "cross")
BEST = "best"
BY_MODALITY = {
    "**What is captured:** AUROC, perturbed inputs from clean ones, best estimator": ("auroc_perturbed", BEST),
    "the same, worst: pointwise mutual information": ("auroc_perturbed", "pointwise_mutual_information"),
    "**How it reacts:** URR, mean token entropy": ("uncertainty_reflection_rate", "mean_token_entropy"),
    "the same, DegMat over ten drawn answers, most of them all alike": ("uncertainty_reflection_rate", "deg_mat"),
    "**Whether it warns:** right answers that become wrong": ("hallucination_rate", ""),
    "HCC, mean token entropy": ("hallucination_change_correlation", "mean_token_entropy"),
    "the same, P(True)": ("hallucination_change_correlation", "p_true"),
}
"""What the README calls a row -> metric, and estimator."""
NAMES = {"p_true": "P(True)"}
"""Estimators that the README does not call by their words."""


def printed(value: float, digits: int = 3) -> str:
    """A number as the README prints it.

    >>> printed(-0.1829), printed(0.5), printed(1.0), printed(0.675, 2)
    ('−.183', '.500', '1.000', '.68')
    """
    text = f"{abs(value):.{digits}f}"
    return ("−" if value < 0 and float(text) else "") + text.removeprefix("0")


def table_rows(readme: str, first: str, columns: int) -> dict[str, list[str]]:
    """The cells of the table that begins with the row `first`, by the name of the row."""
    rows: dict[str, list[str]] = {}
    for line in readme.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == columns + 1 and (rows or cells[0] == first):
            rows[cells[0]] = cells[1:]
        elif rows:
            break
    return rows


def stale(rows: dict[str, list[str]], expected: dict[str, list[str]], heads: Sequence[str]) -> tuple[list[str], int]:
    """Cells that differ, rows that are missing and rows that nothing is known of, one line each; and how many cells agree."""
    lines = [f"{name}: no such row" for name in expected if name not in rows]
    lines += [f"{name}: a row that this script does not know" for name in rows if name not in expected]
    right = 0
    for name in (name for name in expected if name in rows):
        for head, cell, value in zip(heads, rows[name], expected[name], strict=True):
            right += cell == value
            lines += [] if cell == value else [f"{name}, {head}: README has {cell}, the run {value}"]
    return lines, right


def certainly_uncertain(scores: pl.DataFrame) -> dict[str, list[str]]:
    """The first table, from `scores.parquet`."""
    values = {(r["model"], r["dataset"], r["metric"]): r for r in scores.filter(pl.col("slice") == "all").iter_rows(named=True)}
    expected = {}
    for name, model in ROWS.items():
        cells = []
        for place, column in enumerate(COLUMNS):
            score = values.get((model, *column))
            if score is None or score["value"] is None:
                cells.append("–")
            else:
                between = f" ({printed(score['low'])} to {printed(score['high'])})" if place == 0 else ""
                cells.append(printed(score["value"]) + between)
        expected[name] = cells
    return expected


def vlm_uqbench(scores: pl.DataFrame) -> dict[str, list[str]]:
    """The second table, from `modality_scores.parquet`: over the inputs that are changed."""
    values = {(r["metric"], r["variant"]): r for r in scores.filter(pl.col("slice") == "changed").iter_rows(named=True)}
    expected = {}
    for name, (metric, estimator) in BY_MODALITY.items():
        cells = []
        for modality in MODALITIES:
            label, word = f"{metric}[{estimator}]" * bool(estimator) or metric, ""
            if estimator == BEST:
                label = max((m for m, v in values if v == modality and m.startswith(metric)), key=lambda m: values[m, modality]["value"])
                own = label.removeprefix(f"{metric}[").removesuffix("]")
                word = f" {NAMES.get(own, own.replace('_', ' '))}"
            score = values[label, modality]
            note = " (`clip_mask`)" * (modality == "cross" and not estimator)
            cells.append(f"{printed(score['value'], 2)}{word} ({printed(score['low'], 2)} to {printed(score['high'], 2)}){note}")
        expected[name] = cells
    return expected


TABLES = {
    "certainly_uncertain_scenes": ("scores", certainly_uncertain, [f"{metric} of {dataset}" for dataset, metric in COLUMNS]),
    "vlm_uqbench_scenes": ("modality_scores", vlm_uqbench, MODALITIES),
}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--readme", type=Path, default=Path("README.md"))
    chosen = parser.parse_args()
    text, differ = chosen.readme.read_text(encoding="utf-8"), False
    for spec, (table, made_of, heads) in TABLES.items():
        file = chosen.results / spec / f"{table}.parquet"
        if not file.is_file():
            print(f"{spec}: not here; `qualm run {spec}`")
            continue
        expected = made_of(pl.DataFrame(read_labelled(file)))
        lines, right = stale(table_rows(text, next(iter(expected)), len(heads)), expected, heads)
        print(*lines, f"{spec}: {right} of {len(expected) * len(heads)} cells as in the run", sep="\n")
        differ |= bool(lines)
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
