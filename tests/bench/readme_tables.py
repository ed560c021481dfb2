"""Do the README's tables and sentences of results say what finished runs say? Each cell and figure against the tables of scores.

    python -m tests.bench.readme_tables [--results results] [--readme README.md] [--write]

With --write, cells that differ get what the run says. Prints every cell that differs from the run as it would be printed, every row that is
missing or unknown, every sentence that the run would have otherwise, and how many agree; exit code 1 where anything differs. A spec that has
not run is named and left out.
"""

from __future__ import annotations

import argparse
import math
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


def rewritten(readme: str, expected: dict[str, list[str]]) -> str:
    """Return the text with the cells of a table as they are expected; rows that it lacks are not added."""
    lines = readme.splitlines(keepends=True)
    for number, line in enumerate(lines):
        name, *cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == len(expected.get(name, ())):
            lines[number] = f"| {' | '.join([name, *expected[name]])} |\n"
    return "".join(lines)


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


def certainly_uncertain_sentences(folder: Path) -> list[str]:
    """What stands around the first table, from `scores.parquet`, `comparisons.parquet` and `data/ours.shortcuts.parquet`."""
    scores = pl.DataFrame(read_labelled(folder / "scores.parquet")).filter(pl.col("slice") == "all")
    value = {(r["model"], r["dataset"], r["metric"]): r["value"] for r in scores.iter_rows(named=True)}
    count = {(r["dataset"], r["metric"]): r["n"] for r in scores.filter(pl.col("model") == "base").iter_rows(named=True)}
    rows = pl.read_parquet(folder / "comparisons.parquet").filter(pl.col("slice") == "all").iter_rows(named=True)
    test = {(r["a"], r["b"], r["dataset"], r["metric"]): r for r in rows}
    weighted, sft = "confidence_weighted_accuracy", "sft_ours"
    rivals = ["base", "base+blind_refuser", f"{sft}+swapped_picture", "base+thresholding", "base+thresholding_complement"]
    beaten = [test[rival, sft, "ours", weighted] for rival in (*rivals, "base+risk_control", "sft_other")]
    each = max(t["p_adjusted"] for t in beaten) if all(t["difference"] > 0 for t in beaten) else math.nan
    dpo, calibrated = test[sft, "dpo_after_sft", "ours", "ece_idk"], test[sft, "dpo_after_sft", "ours", weighted]
    # Calibration errors are tested by another quantity: their own difference is that of the scores.
    less_error = value["dpo_after_sft", "ours", "ece_idk"] - value[sft, "ours", "ece_idk"]
    plain, cost = test["base", sft, "standard", weighted], test["base", sft, "standard", "ece"]
    recalibrated, both = (test[sft, b, "standard", weighted] for b in (f"{sft}+recalibrated", "sft_ours_other"))
    less = test[sft, "sft_ours_other", "ours", weighted]
    blind = (
        pl.read_parquet(folder / "data" / "ours.shortcuts.parquet")
        .filter(pl.col("sees").is_in(["question", "picture"]))
        .drop_nulls("balanced_accuracy")
    )
    reach = sorted({printed(accuracy) for accuracy in blind["balanced_accuracy"]})
    f1, right = (lambda model: printed(value[model, "ours", "f1_idk"])), (lambda m: printed(value[m, "ours", "answerable_accuracy"]))
    return [
        f"{count['ours', weighted]:,} held-out questions",
        f"classifiers that see one of the two reach {' to '.join([reach[0], *reach[1:][-1:]])} in every category",
        f"(paired t tests over scenes, p ≤ {printed(each)} each after max-T",
        f"F1<sub>idk</sub> falls from {f1(sft)} to {f1(f'{sft}+swapped_picture')}",
        f"raises its accuracy there from {right('base')} to {right(sft)}",
        f"(ECE (IDK) {printed(less_error)}, p = {printed(dpo['p_adjusted'])} corrected; confidence-weighted accuracy "
        f"+{printed(calibrated['difference'])}, p = {printed(calibrated['p_adjusted'])})",
        f"on {count['standard', weighted]:,} plain questions SFT on the pairs falls from {printed(value['base', 'standard', weighted])} to "
        f"{printed(value[sft, 'standard', weighted])} and its ECE rises from {printed(value['base', 'standard', 'ece'])} to "
        f"{printed(value[sft, 'standard', 'ece'])} (p ≤ {printed(max(plain['p_adjusted'], cost['p_adjusted']))} corrected)",
        f"Recalibration wins back {printed(recalibrated['difference'])} (p = {printed(recalibrated['p_adjusted'])}), training on both "
        f"{printed(both['difference'])}, at {printed(-less['difference'])} less on the pairs "
        f"(p ≤ {printed(max(both['p_adjusted'], less['p_adjusted']))} each)",
    ]


def wording_sentences(folder: Path) -> list[str]:
    """How many texts the held-out questions have, and how many were trained on, from `data/ours/samples.parquet`."""
    samples = pl.read_parquet(folder / "data" / "ours" / "samples.parquet", columns=["question", "split", "category"])
    trained = samples.filter(pl.col("split") == "train")["question"].unique().to_list()
    held_out = samples.filter(pl.col("split") == "test").with_columns(seen=pl.col("question").is_in(trained))
    shares = held_out.group_by("category").agg(pl.col("seen").mean()).filter(pl.col("seen") > 0).sort("category", descending=True)
    kinds = [str(category).rpartition("/")[2] for category in shares["category"]]
    share = held_out["seen"].cast(pl.Float64).mean()
    assert isinstance(share, float)
    return [
        f"They have {held_out['question'].n_unique()} distinct texts, asked of pictures that no other split has; {100 * share:.1f}% are "
        f"worded as in the training split, namely those of {' and '.join(kinds)}"
    ]


def uncertainty_sentences(folder: Path) -> list[str]:
    """Which estimator works, from `rankings.parquet` and `scores.parquet`."""
    rankings = pl.read_parquet(folder / "rankings.parquet").filter(
        (pl.col("among") == "estimators") & (pl.col("metric") == "auroc") & (pl.col("dataset") == "unanswerable")
        & (pl.col("slice") == "all") & (pl.col("variant") == "clean")
    )  # fmt: skip
    best, *others = rankings.iter_rows(named=True)
    alike = sum(row["p_adjusted"] >= 0.05 for row in others)
    scores = pl.DataFrame(read_labelled(folder / "scores.parquet")).filter(
        (pl.col("slice") == "all") & (pl.col("variant") == "clean") & (pl.col("dataset") == "unanswerable")
    )
    row = {
        r["metric"].removeprefix("auroc[").removesuffix("]"): r for r in scores.iter_rows(named=True) if r["metric"].startswith("auroc[")
    }
    agreement, probes = row["deg_mat@similarity=jaccard"], [name for name in row if name.startswith(("p_ik", "halp@place=prompt_last"))]
    own, other = ([row[n]["value"] for n in probes if n.endswith("@other_data") == elsewhere] for elsewhere in (False, True))
    return [
        f"On {best['n']:,} questions, half of them without an answer",
        f"{best['candidate'].replace('_', ' ')} ranks the wrong answers of the quickstart's VLM best of {best['candidates']} estimators, "
        f"with AUROC {printed(best['value'])} ({printed(best['low'])} to {printed(best['high'])}, allowing for the choice; "
        f"{alike} others are not told apart from it)",
        f"agreement of ten drawn answers with {printed(agreement['value'])} ({printed(agreement['low'])} to {printed(agreement['high'])})",
        f"reach {printed(min(own))} to {printed(max(own))} where they have learnt from such questions, and {printed(min(other))} to "
        f"{printed(max(other))} where they have learnt from other ones",
    ]


def vlm_uqbench_sentences(folder: Path) -> list[str]:
    """What leaves questions as they were, from `scores.parquet`: means over the strengths of a perturbation."""
    scores = pl.DataFrame(read_labelled(folder / "scores.parquet"))
    rates = scores.filter((pl.col("slice") == "all") & pl.col("metric").str.starts_with("unchanged_input_rate"))
    mean = {name: rates.filter(pl.col("variant").str.starts_with(f"{name}@"))["value"].mean() for name in ("typos", "dropwords")}
    shares = {name: f"{100 * float(str(value)):.0f}%" for name, value in mean.items()}
    return [f"(typos leave {shares['typos']} of questions as they were, dropping words {shares['dropwords']})"]


def attribution_sentences(folder: Path) -> list[str]:
    """How often the modality is named rightly, from `blames.parquet`, with scenes and kinds of damage held out."""
    (row,) = pl.read_parquet(folder / "blames.parquet").filter(pl.col("held_out") == "group and kind").iter_rows(named=True)
    ends = f"{printed(row['accuracy_low'], 2)} to {printed(row['accuracy_high'], 2)}"
    return [
        f"it is named rightly in {printed(row['accuracy'], 2)} of cases ({ends}), where always naming the same modality gives "
        f"{printed(row['floor'], 2)}"
    ]


def quickstart_sentences(folder: Path) -> list[str]:
    """How good the quickstart's model is, from `scores.parquet`."""
    scores = pl.DataFrame(read_labelled(folder / "scores.parquet")).filter((pl.col("slice") == "all") & (pl.col("variant") == "clean"))
    row = {(r["dataset"], r["metric"].partition("[")[0]): r for r in scores.iter_rows(named=True)}
    free, choice = row["scenes", "accuracy"], row["scenes_mc", "accuracy"]
    low, high = (f"{100 * free[end]:.1f}" for end in ("low", "high"))
    return [
        f"answers {100 * free['value']:.1f}% of held-out open-ended questions (interval {low} to {high}) and "
        f"{100 * choice['value']:.1f}% of the multiple-choice test half"
    ]


SENTENCES = {
    "certainly_uncertain_scenes": lambda folder: [*certainly_uncertain_sentences(folder), *wording_sentences(folder)],
    "uncertainty_scenes": uncertainty_sentences,
    "vlm_uqbench_scenes": vlm_uqbench_sentences,
    "attribution_scenes": attribution_sentences,
    "quickstart": quickstart_sentences,
}
"""Spec -> what makes the parts of the README's sentences that hold its figures."""


def missing_sentences(readme: str, sentences: Sequence[str]) -> list[str]:
    """Those that the README has otherwise, wherever its lines end."""
    text = " ".join(readme.split())
    return [sentence for sentence in sentences if sentence not in text]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--readme", type=Path, default=Path("README.md"))
    parser.add_argument("--write", action="store_true", help="write the cells that differ into the README")
    chosen = parser.parse_args()
    text, differ = chosen.readme.read_text(encoding="utf-8"), False
    for spec, (table, made_of, heads) in TABLES.items():
        file = chosen.results / spec / f"{table}.parquet"
        if not file.is_file():
            print(f"{spec}: not here; `qualm run {spec}`")
            continue
        expected = made_of(pl.DataFrame(read_labelled(file)))
        if chosen.write:
            text = rewritten(text, expected)
            chosen.readme.write_text(text, encoding="utf-8")
        lines, right = stale(table_rows(text, next(iter(expected)), len(heads)), expected, heads)
        print(*lines, f"{spec}: {right} of {len(expected) * len(heads)} cells as in the run", sep="\n")
        differ |= bool(lines)
    for spec, made_from in SENTENCES.items():
        folder = chosen.results / spec
        if not (folder / "scores.parquet").is_file():
            print(f"{spec}: not here; `qualm run {spec}`")
            continue
        sentences = made_from(folder)
        missing = missing_sentences(text, sentences)
        print(*(f"{spec}: README has not: {sentence}" for sentence in missing), sep="\n", end="\n" * bool(missing))
        print(f"{spec}: {len(sentences) - len(missing)} of {len(sentences)} sentences as in the run")
        differ |= bool(missing)
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
