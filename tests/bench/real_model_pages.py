"""Tables and findings of real models, for the blocks of docs/results/ (`tests/bench/result_pages.py`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import polars as pl

from qualm.compiler.project.checkout import Project
from qualm.compiler.results.power import Assumptions, detectable_differences
from qualm.runners.reporting.load import read_report
from qualm.runners.reporting.sections.published import PublishedComparison, compare_with_published
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import read_stage
from tests.bench.page_text import bullets, interval, number, p_value, table
from tests.support.data.score_files import read_labelled

VUB = "vlm_uncertainty_bench_26_models"
VUB_DATASETS = {"mmbench": "MMBench", "oodcv": "OODCV-VQA"}
FEW = 50
"""Test questions below which the coverage of a category says little."""

BLINK_PUBLISHED = {
    "GPT4o": 60.0, "GPT4Turbo": 54.6, "GPT4V": 51.1, "llava-v1.6-34b": 46.8, "GeminiProVision": 45.2, "OPUS": 44.1, "llava_v1.5_13b": 42.7,
    "instructblip_13b": 42.2, "llava-v1.5-13b-xtuner": 42.0, "Yi_VL_34B": 41.7, "cogvlm-chat": 41.5, "QwenVLMax": 40.3,
    "instructblip_7b": 39.7, "llava-v1.5-7b-xtuner": 39.4, "flamingov2": 39.2, "Yi_VL_6B": 38.7, "llava-internlm2-7b": 37.7,
    "llava_v1.5_7b": 37.1, "MiniGPT-4-v2": 34.2,
}  # fmt: skip
"""Percentages of the validation questions, from the README of the authors' repository; means over tasks."""
BLINK_RANDOM = 0.381
"""Accuracy of guessing that the same table prints."""
UNREAD = "(Z)"
"""What the authors' file of answers to BLINK has where their reader found no option in a reply."""
MATHVISTA_PUBLISHED = {
    "multimodal-bard": 34.8, "llava-llama-2-13b": 26.1, "instructblip-vicuna-13b": 25.3, "llavar": 25.2, "llama-adapter-v2": 23.9,
    "minigpt4-llama-2-7b": 23.1, "mplug-owl-7b": 22.2, "idefics-9b-instruct": 19.8, "gpt-4-text-only": 26.1, "chatgpt-text-only": 23.5,
    "claude-2-text-only": 26.4,
}  # fmt: skip
"""Percentages, from results/*/scores_*.json of the authors' repository."""
MMMU_PRO_PUBLISHED = {"text-direct": 40.1, "text-cot": 55.0, "screenshot-direct": 42.4, "screenshot-cot": 50.1}
"""Percentages, shares of `if_right` in the authors' files."""


def _scores(folder: Path, name: str = "scores") -> pl.DataFrame:
    return pl.DataFrame(read_labelled(folder / f"{name}.parquet")).filter(pl.col("variant") == "clean")


def _by_model(folder: Path, dataset: str, metric: str, part: str = "all") -> dict[str, dict[str, Any]]:
    """Return the scores of a metric by model."""
    chosen = _scores(folder).filter((pl.col("dataset") == dataset) & (pl.col("slice") == part) & (pl.col("metric") == metric))
    return {row["model"]: row for row in chosen.iter_rows(named=True)}


def ranking(folder: Path, dataset: str, metric: str, part: str = "all") -> list[dict[str, Any]]:
    """Return the ranking of the models by a metric, the best first, with simultaneous intervals."""
    rows = pl.read_parquet(folder / "rankings.parquet").filter(
        (pl.col("among") == "models") & (pl.col("dataset") == dataset) & (pl.col("slice") == part) & (pl.col("metric") == metric)
        & (pl.col("variant") == "clean")
    )  # fmt: skip
    return list(rows.iter_rows(named=True))


def rank_text(row: Mapping[str, Any]) -> str:
    """Format the interval of a rank.

    >>> rank_text({"rank_low": 2, "rank_high": 9}), rank_text({"rank_low": 1, "rank_high": 1}), rank_text({"rank_low": None})
    ('2–9', '1', 'not ranked')
    """
    low, high = row["rank_low"], row.get("rank_high")
    return "not ranked" if low is None else str(low) if low == high else f"{low}–{high}"


def ties(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say which models are tied for best, and how wide the intervals of the ranks are."""
    best = [row["candidate"] for row in rows if row["may_be_best"]]
    widths = [row["rank_high"] - row["rank_low"] + 1 for row in rows]
    first = (
        f"{best[0]} is significantly better than all others"
        if rows[0]["is_best"]
        else f"{len(best)} models are tied for best ({', '.join(best)})"
    )
    fixed = sum(width == 1 for width in widths)
    return f"{first}; {fixed} of {len(rows)} ranks are certain; the median model has {median(widths):g} possible ranks"


def detectable(folder: Path, dataset: str) -> tuple[int, float]:
    """Return the number of questions, and the smallest difference in accuracy that a test of two models finds with probability .8."""
    (row,) = (
        r
        for r in detectable_differences(Project(folder.parent.parent), folder.name, ["accuracy"], Assumptions())
        if (r.dataset, r.slice, r.metric) == (dataset, "all", "accuracy")
    )
    assert row.smallest_difference is not None
    return row.questions, row.smallest_difference


def power_finding(folder: Path, dataset: str) -> str:
    """Say how large a difference one dataset can show."""
    questions, difference = detectable(folder, dataset)
    return (
        f"{questions:,} questions detect a difference of {number(difference)}; one of .01 needs about "
        f"{questions * (difference / 0.01) ** 2:,.0f}"
    )


def vub_comparison(folder: Path) -> PublishedComparison:
    """Return the comparison with the published tables that the report shows."""
    found = compare_with_published(read_report(read_stage(f"{folder.name}/report", Settings())))
    assert found is not None
    return found


def vub_agreement(folder: Path) -> str:
    """Return how many published cells are recomputed."""
    return vub_comparison(folder).verdict


def vub_models(folder: Path, dataset: str) -> str:
    """Return the table of all models on one dataset, by accuracy."""
    sizes = {name: _by_model(folder, dataset, f"set_size[{name}/lac]") for name in ("ours", "within_category")}
    auroc = _by_model(folder, dataset, "auroc")
    rows = [
        [
            row["candidate"],
            rank_text(row),
            interval(row),
            interval(auroc[row["candidate"]]),
            *(number(sizes[name][row["candidate"]]["value"], 2) for name in sizes),
        ]
        for row in ranking(folder, dataset, "accuracy")
    ]
    heads = ["model", "rank", "accuracy", "AUROC of confidence", "set size", "set size, thresholds by category"]
    return table(heads, rows)


def vub_steps(folder: Path) -> str:
    """Return what each choice between the published setting and ours changes, as means over the models."""
    rows = []
    for source in vub_comparison(folder).sources:
        places = {title: k for k, title in enumerate(source.tables)}
        for text, cells in source.rows:
            chosen = [
                cells[places[name]].upper for name in ("coverage_all_LAC", "set_sizes_LAC", "coverage_all_APS", "set_sizes_APS", "ece")
            ]
            rows.append([VUB_DATASETS.get(source.caption, source.caption), text, *chosen])
    return table(["dataset", "choice", "coverage, LAC", "set size, LAC", "coverage, APS", "set size, APS", "ECE"], rows)


def _category_coverage(folder: Path, dataset: str, setting: str) -> pl.DataFrame:
    return _scores(folder).filter(
        (pl.col("dataset") == dataset) & pl.col("slice").str.starts_with("category=") & (pl.col("metric") == f"coverage[{setting}/lac]")
        & (pl.col("n") >= FEW) & pl.col("band_low").is_not_null()
    )  # fmt: skip


def category_finding(folder: Path, dataset: str) -> str:
    """Say what one threshold per category changes in coverage and set size."""
    below, worst = {}, {}
    for setting in ("ours", "within_category"):
        cells = _category_coverage(folder, dataset, setting)
        below[setting] = (cells.filter(pl.col("value") < pl.col("band_low")).height, cells.height)
        worst[setting] = {
            row["slice"]: row["mean"] for row in cells.group_by("slice").agg(pl.col("value").mean().alias("mean")).iter_rows(named=True)
        }
    hardest = min(worst["ours"], key=lambda part: worst["ours"][part])
    size = {
        setting: [
            mean(row["value"] for row in _by_model(folder, dataset, f"set_size[{setting}/lac]", part).values()) for part in ("all", hardest)
        ]
        for setting in below
    }
    (a, n), (b, m) = below["ours"], below["within_category"]
    name, covered = hardest.partition("=")[2].replace("_", " "), [number(means[hardest], 2) for means in worst.values()]
    (all_before, before), (all_after, after) = ([number(value, 2) for value in sizes] for sizes in size.values())
    return (
        f"**{VUB_DATASETS[dataset]}**: coverage lies below the 95% band around .90 in {a} of {n} model-category pairs with one threshold, "
        f"in {b} of {m} with a threshold per category. In the worst category, {name}, mean coverage goes from {covered[0]} to "
        f"{covered[1]} and set size from {before} to {after}; over all questions, set size goes from {all_before} to {all_after}"
    )


def uncertainty_finding(folder: Path, dataset: str) -> str:
    """Say whose confidence separates right from wrong answers, and what answering half of the questions gains."""
    auroc, accuracy = _by_model(folder, dataset, "auroc"), _by_model(folder, dataset, "accuracy")
    kept = _by_model(folder, dataset, "selective_accuracy")
    useful = [name for name, row in auroc.items() if row["low"] > 0.5]
    useless = [name for name in auroc if name not in useful]
    gains = {name: kept[name]["value"] - accuracy[name]["value"] for name in kept}
    clear = [name for name in gains if kept[name]["low"] > accuracy[name]["high"]]
    order = sorted(auroc, key=lambda name: -auroc[name]["value"])
    by_accuracy = sorted(accuracy, key=lambda name: -accuracy[name]["value"])
    rest = f" (not: {', '.join(useless)})" if useless else ""
    return (
        f"**{VUB_DATASETS[dataset]}**: the AUROC of confidence is above .5 for {len(useful)} of {len(auroc)} models{rest}, from "
        f"{number(auroc[order[-1]]['value'], 2)} ({order[-1]}) to {number(auroc[order[0]]['value'], 2)} ({order[0]}). The more confident "
        f"half is more accurate by {number(min(gains.values()), 2)} to {number(max(gains.values()), 2)}; for {len(clear)} models the two "
        f"intervals do not overlap. The most accurate model, {by_accuracy[0]}, is number {order.index(by_accuracy[0]) + 1} by AUROC"
    )


def vub_ranks(folder: Path) -> str:
    """Return the findings on ranks of both datasets."""
    return bullets(
        [
            *(f"**{title}, accuracy**: {ties(ranking(folder, name, 'accuracy'))}." for name, title in VUB_DATASETS.items()),
            *(f"**{title}, set size (LAC)**: {ties(ranking(folder, name, 'set_size[ours/lac]'))}." for name, title in VUB_DATASETS.items()),
            *(f"**{title}, power**: {power_finding(folder, name)}." for name, title in VUB_DATASETS.items()),
        ]
    )


def vub_categories(folder: Path) -> str:
    """Return the findings on calibration within categories."""
    return bullets([f"{category_finding(folder, name)}." for name in VUB_DATASETS])


def vub_uncertainty(folder: Path) -> str:
    """Return the findings on confidence."""
    return bullets([f"{uncertainty_finding(folder, name)}." for name in VUB_DATASETS])


def vub_summary(folder: Path) -> str:
    """Return the finding of VLM-Uncertainty-Bench in one bullet."""
    equal = vub_comparison(folder).verdict.partition(" agree")[0]
    ranks = {title: ranking(folder, name, "accuracy") for name, title in VUB_DATASETS.items()}
    spans = [
        f"{median(row['rank_high'] - row['rank_low'] + 1 for row in rows):g} or more ranks on {title}" for title, rows in ranks.items()
    ]
    best = {rows[0]["candidate"] if rows[0]["is_best"] else "" for rows in ranks.values()}
    first = (
        f"{best.pop()} is significantly the most accurate on both datasets"
        if len(best) == 1 and "" not in best
        else "no model is best on both datasets"
    )
    return bullets(
        [
            f"**VLM-Uncertainty-Bench**: we score 26 real models again from their published logits. {equal} agree within 1e−6. {first}. "
            f"Other ranks are uncertain: half of the models could hold {' and '.join(spans)}. "
            "[Tables](docs/results/vlm_uncertainty_bench.md), [more real models](docs/results/real_models.md)"
        ]
    )


def _answers(folder: Path, model: str, dataset: str) -> list[str]:
    return pl.read_parquet(folder / "generations" / model / f"{dataset}.parquet", columns=["text"])["text"].to_list()


def blink_models(folder: Path) -> str:
    """Return the table of BLINK's models."""
    over_tasks, rows = _by_model(folder, "blink", "accuracy", "macro:category"), []
    for row in ranking(folder, "blink", "accuracy"):
        name = row["candidate"]
        unread = _answers(folder, name, "blink").count(UNREAD) / row["n"]
        ours = over_tasks[name]
        rows.append([name, rank_text(row), f"{100 * ours['value']:.2f}", interval(row), number(unread)])
    return table(["model", "rank", "mean over tasks (%)", "accuracy over questions", "unread"], rows)


def blink_findings(folder: Path) -> str:
    """Return what BLINK's answers show."""
    over_tasks, rows = _by_model(folder, "blink", "accuracy", "macro:category"), ranking(folder, "blink", "accuracy")
    equal = sum(abs(100 * over_tasks[name]["value"] - value) <= 0.06 for name, value in BLINK_PUBLISHED.items())
    chance = [row["candidate"] for row in rows if over_tasks[row["candidate"]]["low"] <= BLINK_RANDOM]
    unread = {row["candidate"]: _answers(folder, row["candidate"], "blink").count(UNREAD) / row["n"] for row in rows}
    most = sorted(unread, key=lambda name: -unread[name])[:3]
    return bullets(
        [
            f"**Agreement**: {equal} of {len(BLINK_PUBLISHED)} published values are recomputed to a decimal.",
            f"**Ranks**: {ties(rows)}.",
            f"**Chance**: the 95% interval of the mean over tasks contains the {100 * BLINK_RANDOM:.1f}% of guessing for "
            f"{len(chance)} models: {', '.join(chance)}.",
            f"**Unread replies**: {', '.join(f'{name} {number(unread[name], 2)}' for name in most)}. These models' ranks depend on "
            "perception and on following the format.",
            f"**Power**: {power_finding(folder, 'blink')}.",
        ]
    )


def _reply_table(folder: Path, dataset: str, published: Mapping[str, float]) -> str:
    scores, places = _by_model(folder, dataset, "accuracy"), {row["candidate"]: row for row in ranking(folder, dataset, "accuracy")}
    ranked = any(row["rank_low"] is not None for row in places.values())
    rows = []
    for name in sorted(scores, key=lambda model: -published[model]):
        row = scores[name]
        asked = row["n"] + row["n_unscored"]
        low, high = (row[key] if row[key] is not None else row["value"] for key in ("value_if_wrong", "value_if_right"))
        idk = _by_model(folder, dataset, "idk_rate")[name]["value"]
        ours = f"{100 * low:.1f}" if low == high else f"{100 * low:.1f}–{100 * high:.1f}"
        cells = [name, f"{published[name]:.1f}", ours, interval(row), number(row["n_unscored"] / asked), number(idk)]
        rows.append([*cells, rank_text(places[name])] if ranked else cells)
    heads = ["published (%)", "ours, bounds (%)", "accuracy on read replies", "unread or left out", "abstains"]
    return table(["model", *heads, *(["rank"] if ranked else [])], rows)


def mathvista_models(folder: Path) -> str:
    """Return the table of MathVista's models."""
    return _reply_table(folder, "mathvista", MATHVISTA_PUBLISHED)


def _entry(folder: Path, name: str) -> Path:
    return folder.parent.parent / "registry" / "data" / name


def _judged(folder: Path, model: str) -> list[dict[str, Any]]:
    rows = pl.read_parquet(folder / "judgements.parquet", columns=["model", "sample_id", "pred_is_idk", "rating"])
    return list(rows.filter(pl.col("model") == model).iter_rows(named=True))


def mathvista_findings(folder: Path) -> str:
    """Return why the published values and ours differ."""
    scores = _by_model(folder, "mathvista", "accuracy")
    results = _entry(folder, "mathvista_answers") / "results"
    blip = json.loads((results / "instruct_blip2" / "output_instruct_blip2_vicuna_13b.json").read_text(encoding="utf-8"))
    empty = [row for row in blip.values() if not (row["response"] or "").strip()]
    bard = json.loads((results / "bard" / "output_bard.json").read_text(encoding="utf-8"))
    masked = [name for name, row in blip.items() if "N_0" in row["question"] and row["question"] != bard[name]["question"]]
    gpt4 = json.loads((results / "gpt4" / "output_gpt4.json").read_text(encoding="utf-8"))
    declined = [gpt4[row["sample_id"]] for row in _judged(folder, "gpt-4-text-only") if row["pred_is_idk"]]
    unread = {name: row["n_unscored"] / (row["n"] + row["n_unscored"]) for name, row in scores.items()}
    agree = [name for name in unread if unread[name] < 0.02]
    off = {name: 100 * scores[name]["value"] - MATHVISTA_PUBLISHED[name] for name in agree}
    return bullets(
        [
            f"**Empty replies**: {len(empty):,} of the {len(blip):,} recorded replies of InstructBLIP are empty. The authors let GPT-4 "
            f"extract an answer from each, and count {sum(bool(row['true_false']) for row in empty)} as right.",
            f"**Abstentions**: text-only GPT-4 abstains on {len(declined):,} questions, since it sees no image. For multiple "
            f"choice, the authors take the option most similar to the extracted text. They count "
            f"{sum(bool(row['true_false']) for row in declined)} as right.",
            f"**Other questions**: the recorded questions of LLaVA, InstructBLIP, mPLUG-Owl and IDEFICS have placeholders instead of "
            f"numbers in {len(masked)} cases (`CB = N_0, DB = N_1`). These are left out.",
            f"**Ranks**: between {number(min(unread.values()), 2)} and {number(max(unread.values()), 2)} of the replies are unread or "
            "left out, so the models are not ranked.",
            "**Read replies**: where at most 2% are unread, ours minus the published value is "
            f"{', '.join(f'{number(value, 1)} ({name})' for name, value in off.items())} points.",
        ]
    )


def mmmu_pro_models(folder: Path) -> str:
    """Return the table of GPT-4o's four runs on MMMU-Pro."""
    return _reply_table(folder, "mmmu_pro", MMMU_PRO_PUBLISHED)


def _mmmu_pro_authors(folder: Path, run: str) -> dict[str, dict[str, Any]]:
    lines = (_entry(folder, "mmmu_pro_answers") / "mmmu-pro" / "output" / f"{run}.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


def mmmu_pro_findings(folder: Path) -> str:
    """Return what GPT-4o's replies to MMMU-Pro show."""
    text, screenshot = (_mmmu_pro_authors(folder, f"gpt-4o_{kind}_direct") for kind in ("standard(10 options)", "vision"))
    both = [(row["rating"], text[row["sample_id"]]["if_right"]) for row in _judged(folder, "text-direct")]
    declined = [screenshot[row["sample_id"]] for row in _judged(folder, "screenshot-direct") if row["pred_is_idk"]]
    published = MMMU_PRO_PUBLISHED["screenshot-direct"] - MMMU_PRO_PUBLISHED["text-direct"]
    tests = pl.read_parquet(folder / "comparisons.parquet").filter((pl.col("slice") == "all") & (pl.col("metric") == "accuracy"))
    found = {(row["a"], row["b"]): row for row in tests.iter_rows(named=True)}

    def change(a: str, b: str) -> str:
        row = found[a, b]
        return f"{number(row['difference'])} ({number(row['low'])} to {number(row['high'])}; {p_value(row['p_adjusted'])})"

    direct, thought = change("text-direct", "screenshot-direct"), change("text-cot", "screenshot-cot")
    tied = ": the two are tied" if found["text-direct", "screenshot-direct"]["p_adjusted"] > 0.05 else ""
    gain = {kind: change(f"{kind}-direct", f"{kind}-cot") for kind in ("text", "screenshot")}
    return bullets(
        [
            f"**Misread replies**: {both.count((1.0, False))} of the direct replies to text are read here as the right option and in the "
            f"authors' files as another (`D. PIERRE-AUGUSTE RENOIR` is read as E); {both.count((0.0, True))} are the other way round.",
            f'**Abstentions**: with the direct prompt GPT-4o abstains on {len(declined)} screenshots, mostly by "I\'m sorry". The '
            f'authors read "I can\'t" as option I or draw a letter; {sum(row["if_right"] for row in declined)} of them count as right.',
            f"**Screenshots against text**: with the direct prompt the published values favour screenshots by {published:.1f} points. "
            f"As read here the difference is {direct}{tied}. With chain of thought it is {thought}.",
            f"**Chain of thought** adds {gain['text']} for text and {gain['screenshot']} for screenshots.",
            f"**Power**: {power_finding(folder, 'mmmu_pro')}.",
        ]
    )


MADE = {
    f"{VUB}/summary": vub_summary,
    f"{VUB}/agreement": vub_agreement,
    f"{VUB}/mmbench": lambda folder: vub_models(folder, "mmbench"),
    f"{VUB}/oodcv": lambda folder: vub_models(folder, "oodcv"),
    f"{VUB}/steps": vub_steps,
    f"{VUB}/ranks": vub_ranks,
    f"{VUB}/categories": vub_categories,
    f"{VUB}/uncertainty": vub_uncertainty,
    "real_models_blink/models": blink_models,
    "real_models_blink/findings": blink_findings,
    "real_models_mathvista/models": mathvista_models,
    "real_models_mathvista/findings": mathvista_findings,
    "real_models_mmmu_pro/models": mmmu_pro_models,
    "real_models_mmmu_pro/findings": mmmu_pro_findings,
}
"""Block -> function that makes it from the folder of its spec's results."""
