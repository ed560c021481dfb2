"""Write the tables and findings of README.md and docs/results/ from finished runs.

    python -m tests.bench.result_pages [--results results] [--check]

A block stands between `<!-- made: SPEC/NAME -->` and `<!-- end -->`. Blocks of a spec that has not run here stay as they are, and the
spec is named. With `--check` nothing is written; exit code 1 where a block differs from its run.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl

from tests.bench import real_model_pages
from tests.bench.page_text import bullets, interval, number, p_value, table
from tests.support.data.score_files import read_labelled

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(<!-- made: ([\w/]+) -->\n).*?(<!-- end -->)", re.DOTALL)
MODELS = {
    "base": "base",
    "base, text-only baseline": "base+blind_refuser",
    "base, shuffled-image baseline": "base+swapped_picture",
    "SFT on the pairs, shuffled-image baseline": "sft_ours+swapped_picture",
    "base, abstention threshold fitted on held-out answers": "base+thresholding",
    "the same, abstentions with 1 − confidence": "base+thresholding_complement",
    "base, risk control (at most a tenth wrong)": "base+risk_control",
    "SFT on other data": "sft_other",
    "DPO on the pairs": "dpo_ours",
    "R-tuning on the pairs": "rtune_ours",
    "**SFT on the pairs**": "sft_ours",
    "SFT on the pairs, confidence recalibrated on held-out answers": "sft_ours+recalibrated",
    "SFT on the pairs and on as many plain questions": "sft_ours_other",
    "DPO on the pairs after SFT on the pairs": "dpo_after_sft",
}
"""Row of the table of CertainlyUncertain -> model of the spec."""
COLUMNS = {
    "confidence-weighted accuracy (95% CI)": ("ours", "confidence_weighted_accuracy"),
    "ECE (IDK)": ("ours", "ece_idk"),
    "LAVE<sub>idk</sub> accuracy": ("ours", "lave_idk_accuracy"),
    "F1<sub>idk</sub>": ("ours", "f1_idk"),
    "abstention rate": ("ours", "idk_rate"),
    "accuracy on answerable": ("ours", "answerable_accuracy"),
    "plain: confidence-weighted accuracy": ("standard", "confidence_weighted_accuracy"),
    "plain: ECE": ("standard", "ece"),
}
MODALITIES = {"image": "image", "text": "text", "both": "cross"}
BEST = "best"
PERTURBED = {
    "AUROC of perturbed against clean inputs, best estimator": ("auroc_perturbed", BEST),
    "AUROC of perturbed against clean inputs, pointwise mutual information": ("auroc_perturbed", "pointwise_mutual_information"),
    "uncertainty reflection rate (URR), mean token entropy": ("uncertainty_reflection_rate", "mean_token_entropy"),
    "URR, DegMat over ten sampled answers": ("uncertainty_reflection_rate", "deg_mat"),
    "hallucination rate: correct answers that become wrong": ("hallucination_rate", ""),
    "hallucination-confidence correlation (HCC), mean token entropy": ("hallucination_change_correlation", "mean_token_entropy"),
    "HCC, P(True)": ("hallucination_change_correlation", "p_true"),
}
"""Row of the table of VLM-UQBench -> metric and estimator."""


def scores(folder: Path, name: str = "scores") -> pl.DataFrame:
    """Return a table of scores of a run, with labels."""
    return pl.DataFrame(read_labelled(folder / f"{name}.parquet"))


class Study:
    """Scores and paired tests of certainly_uncertain_scenes."""

    def __init__(self, folder: Path) -> None:
        rows = scores(folder).filter(pl.col("slice") == "all").iter_rows(named=True)
        self.score = {(r["model"], r["dataset"], r["metric"]): r for r in rows}
        rows = pl.read_parquet(folder / "comparisons.parquet").filter(pl.col("slice") == "all").iter_rows(named=True)
        self.test = {(r["a"], r["b"], r["dataset"], r["metric"]): r for r in rows}

    def value(self, model: str, dataset: str, metric: str) -> str:
        return number(self.score[model, dataset, metric]["value"])

    def change(self, a: str, b: str, dataset: str, metric: str, name: str) -> str:
        """Say how a metric changes from a to b, with the corrected p-value of their paired test."""
        values, p = (self.value(a, dataset, metric), self.value(b, dataset, metric)), self.test[a, b, dataset, metric]["p_adjusted"]
        if p is None:
            return f"{name} {values[0]} to {values[1]} (no test)"
        return f"{name} {values[0]} to {values[1]} ({p_value(p)}{', not significant' * (p > 0.05)})"


def model_table(folder: Path) -> str:
    """Return the table of CertainlyUncertain's models."""
    study, rows = Study(folder), []
    for name, model in MODELS.items():
        found = [study.score.get((model, *column)) for column in COLUMNS.values()]
        cells = ["–" if row is None or row["value"] is None else number(row["value"]) for row in found]
        if cells[0] != "–" and found[0] is not None:
            cells[0] = interval(found[0])
        rows.append([name, *cells])
    return table(["model", *COLUMNS], rows)


def model_findings(folder: Path) -> str:
    """Return what training on the pairs changes."""
    study, weighted, sft = Study(folder), "confidence_weighted_accuracy", "sft_ours"
    rivals = {name.replace("**", ""): model for name, model in MODELS.items() if model == "base" or "+" in model or model == "sft_other"}
    asked = {name: study.test.get((model, sft, "ours", weighted)) for name, model in rivals.items() if model != f"{sft}+recalibrated"}
    tests = {name: test for name, test in asked.items() if test is not None}
    beaten = [t for t in tests.values() if t["difference"] > 0 and t["p_adjusted"] <= 0.05]
    others = [name for name, t in tests.items() if t not in beaten]
    exceptions = f"; not than {', '.join(others)}" if others else ""
    highest = max(t["p_adjusted"] for t in beaten)
    blind = pl.read_parquet(folder / "data" / "ours.shortcuts.parquet").filter(pl.col("sees").is_in(["question", "picture"]))
    reach = sorted({number(a) for a in blind["balanced_accuracy"].drop_nulls()})
    samples = pl.read_parquet(folder / "data" / "ours" / "samples.parquet", columns=["question", "split"])
    train = samples.filter(pl.col("split") == "train")["question"].unique().to_list()
    held_out = samples.filter(pl.col("split") == "test")["question"]
    seen = 100 * held_out.is_in(train).sum() / len(held_out)
    n = {dataset: study.score["base", dataset, weighted]["n"] for dataset in ("ours", "standard")}
    return bullets(
        [
            f"**Data.** {n['ours']:,} held-out questions, half of them unanswerable, have {held_out.n_unique()} distinct texts; "
            f"{seen:.1f}% are worded as a training question. Their images are in no other split. Classifiers of the question or the image "
            f"alone reach a balanced accuracy of {' to '.join([reach[0], *reach[1:][-1:]])} in every category.",
            f"**SFT on the pairs helps.** Its confidence-weighted accuracy is significantly higher than that of {len(beaten)} of "
            f"{len(tests)} tested baselines ({'p < .001' if highest < 0.001 else f'p ≤ {number(highest)}'} each{exceptions}).",
            f"**It uses the image.** With another image F1<sub>idk</sub> falls from {study.value(sft, 'ours', 'f1_idk')} to "
            f"{study.value(f'{sft}+swapped_picture', 'ours', 'f1_idk')}.",
            "**Part of the gain is learning to answer.** The base model was never shown puddles, scratches or trails: "
            f"{study.change('base', sft, 'ours', 'answerable_accuracy', 'accuracy on answerable questions')}.",
            f"**DPO** of the base model: {study.change('base', 'dpo_ours', 'ours', weighted, 'confidence-weighted accuracy')}, "
            f"abstention rate {study.value('dpo_ours', 'ours', 'idk_rate')}. DPO after SFT: "
            f"{study.change(sft, 'dpo_after_sft', 'ours', weighted, 'confidence-weighted accuracy')}, "
            f"{study.change(sft, 'dpo_after_sft', 'ours', 'ece_idk', 'ECE (IDK)')}.",
            f"**R-tuning** abstains on {study.value('rtune_ours', 'ours', 'idk_rate')} of all questions, because the base "
            "model answers so many wrongly.",
            f"**It costs accuracy on {n['standard']:,} plain questions**, all of them answerable: "
            f"{study.change('base', sft, 'standard', weighted, 'confidence-weighted accuracy')}, "
            f"{study.change('base', sft, 'standard', 'ece', 'ECE')}. Recalibration changes "
            f"{study.change(sft, f'{sft}+recalibrated', 'standard', weighted, 'confidence-weighted accuracy')}; "
            f"adding as many plain questions to the training, {study.change(sft, 'sft_ours_other', 'standard', weighted, 'from')}, "
            f"and on the pairs {study.change(sft, 'sft_ours_other', 'ours', weighted, 'from')}.",
        ]
    )


def uncertainty_findings(folder: Path) -> str:
    """Return which estimator ranks unanswerable questions best."""
    rankings = pl.read_parquet(folder / "rankings.parquet").filter(
        (pl.col("among") == "estimators") & (pl.col("metric") == "auroc") & (pl.col("dataset") == "unanswerable")
        & (pl.col("slice") == "all") & (pl.col("variant") == "clean")
    )  # fmt: skip
    best, *others = rankings.iter_rows(named=True)
    ties = sum(row["p_adjusted"] >= 0.05 for row in others)
    rows = scores(folder).filter((pl.col("slice") == "all") & (pl.col("variant") == "clean") & (pl.col("dataset") == "unanswerable"))
    auroc = {
        r["metric"].removeprefix("auroc[").removesuffix("]"): r for r in rows.iter_rows(named=True) if r["metric"].startswith("auroc[")
    }
    probes = [name for name in auroc if name.startswith(("p_ik", "halp@place=prompt_last"))]
    same, other = ([auroc[n]["value"] for n in probes if n.endswith("@other_data") == elsewhere] for elsewhere in (False, True))
    return bullets(
        [
            f"**Best of {best['candidates']} estimators** on {best['n']:,} questions, half of them unanswerable: "
            f"{best['candidate'].replace('_', ' ')}, AUROC {interval(best)}, selection-adjusted. {ties} estimators are statistically "
            "tied with it.",
            f"**Agreement of ten sampled answers** (DegMat): AUROC {interval(auroc['deg_mat@similarity=jaccard'])}. "
            f"The model samples the same answer again to a question that has none.",
            f"**Probes of hidden states**: AUROC {number(min(same))} to {number(max(same))} when trained on such questions, "
            f"{number(min(other))} to {number(max(other))} when trained on others.",
        ]
    )


def modality_table(folder: Path) -> str:
    """Return the table of VLM-UQBench by modality, over the inputs that a perturbation changed."""
    values = {
        (r["metric"], r["variant"]): r for r in scores(folder, "modality_scores").filter(pl.col("slice") == "changed").iter_rows(named=True)
    }
    rows = []
    for name, (metric, estimator) in PERTURBED.items():
        cells = []
        for modality in MODALITIES.values():
            label, word = f"{metric}[{estimator}]" if estimator else metric, ""
            if estimator == BEST:
                label = max((m for m, v in values if v == modality and m.startswith(metric)), key=lambda m: values[m, modality]["value"])
                word = " " + label.removeprefix(f"{metric}[").removesuffix("]").replace("_", " ").replace("p true", "P(True)")
            cells.append(interval(values[label, modality], 2) + word)
        rows.append([name, *cells])
    return table(["perturbed modality", *MODALITIES], rows)


def unchanged_inputs(folder: Path) -> str:
    """Return how many questions perturbations leave as they are: means over strengths."""
    rates = scores(folder).filter((pl.col("slice") == "all") & pl.col("metric").str.starts_with("unchanged_input_rate"))
    mean = {name: rates.filter(pl.col("variant").str.starts_with(f"{name}@"))["value"].mean() for name in ("typos", "dropwords")}
    shares = {name: f"{100 * float(str(value)):.0f}%" for name, value in mean.items()}
    return (
        f"Inputs that a perturbation leaves unchanged are left out: typos leave {shares['typos']} of the questions unchanged, dropped "
        f"words {shares['dropwords']}."
    )


def attribution_finding(folder: Path) -> str:
    """Return how often the damaged modality is named, with scenes and kinds of damage held out."""
    (row,) = pl.read_parquet(folder / "blames.parquet").filter(pl.col("held_out") == "group and kind").iter_rows(named=True)
    accuracy = {"value": row["accuracy"], "low": row["accuracy_low"], "high": row["accuracy_high"]}
    return (
        f"With scenes and kinds of damage held out, a classifier names the damaged modality in {interval(accuracy, 2)} of the cases; "
        f"the majority class reaches {number(row['floor'], 2)}."
    )


def model_summary(folder: Path) -> str:
    """Return the finding of CertainlyUncertain in one bullet."""
    study, place = Study(folder), ("ours", "confidence_weighted_accuracy")
    plain = [number(study.score[model, "standard", place[1]]["value"]) for model in ("base", "sft_ours")]
    return bullets(
        [
            "**CertainlyUncertain**: on drawn scenes, SFT on contrastive pairs raises confidence-weighted accuracy from "
            f"{interval(study.score['base', *place])} to {interval(study.score['sft_ours', *place])}. On ordinary answerable "
            f"questions this accuracy falls from {plain[0]} to {plain[1]}. [Table and baselines](docs/results/certainly_uncertain.md)"
        ]
    )


def modality_summary(folder: Path) -> str:
    """Return the finding of VLM-UQBench in one bullet."""
    changed = scores(folder, "modality_scores").filter(
        (pl.col("slice") == "changed") & pl.col("metric").str.starts_with("auroc_perturbed[")
    )
    rows = [max(changed.filter(pl.col("variant") == v).iter_rows(named=True), key=lambda r: r["value"]) for v in MODALITIES.values()]
    image, text, both = (interval(row, 2) for row in rows)
    return bullets(
        [
            f"**VLM-UQBench**: on drawn scenes, the best of nine estimators detects perturbed inputs with AUROC {image} if the image is "
            f"perturbed, {text} if the question is, and {both} if both are. [By modality](docs/results/vlm_uqbench.md)"
        ]
    )


MADE: dict[str, Callable[[Path], str]] = {
    "certainly_uncertain_scenes/summary": model_summary,
    "certainly_uncertain_scenes/models": model_table,
    "certainly_uncertain_scenes/findings": model_findings,
    "uncertainty_scenes/findings": uncertainty_findings,
    "vlm_uqbench_scenes/summary": modality_summary,
    "vlm_uqbench_scenes/modalities": modality_table,
    "vlm_uqbench_scenes/unchanged": unchanged_inputs,
    "attribution_scenes/finding": attribution_finding,
    **real_model_pages.MADE,
}
"""Block -> function that makes it from the folder of its spec's results."""


def rewrite(text: str, results: Path, missing: set[str]) -> str:
    """Return a page with all blocks made anew; specs without results are added to `missing`."""

    def block(found: re.Match[str]) -> str:
        name = found[2]
        folder = results / name.partition("/")[0]
        if not (folder / "scores.parquet").is_file():
            missing.add(folder.name)
            return found[0]
        return f"{found[1]}{MADE[name](folder)}\n{found[3]}"

    return BLOCK.sub(block, text)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where a page differs")
    chosen = parser.parse_args()
    missing: set[str] = set()
    differ = False
    for page in (ROOT / "README.md", *sorted((ROOT / "docs" / "results").glob("*.md"))):
        before = page.read_text(encoding="utf-8")
        after = rewrite(before, chosen.results, missing)
        if after != before:
            differ = True
            print(f"{page.relative_to(ROOT)}: {'differs from the runs' if chosen.check else 'written'}")
            if not chosen.check:
                page.write_text(after, encoding="utf-8")
    print(*(f"{spec}: no results here; `qualm run {spec}`" for spec in sorted(missing)), sep="\n", end="\n" * bool(missing))
    return int(differ and chosen.check)


if __name__ == "__main__":
    sys.exit(main())
