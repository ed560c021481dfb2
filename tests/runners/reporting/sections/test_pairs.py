"""The report of a spec of contrastive pairs, from real stages over made-up answers, also as a browser shows it."""

from __future__ import annotations

import base64
import json
import math
import re
import shutil
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from qualm.registry.sample import COMPARISONS, SAMPLES
from qualm.runners.reporting.load import Report, read_report
from qualm.runners.reporting.marks import verdict_mark
from qualm.runners.reporting.sections import data_sets, judging, metric_study, pairs, strategies
from qualm.runners.reporting.text import number
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.stage import Stage
from qualm.runners.runtime.stamp import write_stamp
from qualm.runners.stages import report
from tests.runners.reporting.pair_results import build
from tests.runners.reporting.test_report import Page, safe
from tests.support.data.score_files import read_labelled
from tests.support.processes.chromium import Chromium

NEW = ["idk", "judges", "data"]


@pytest.mark.parametrize(
    ("confidence", "correct", "shown"),
    [
        (0.25, 1.0, ("0.25", 25, "0.25")),
        (0.25, 0.0, ("0.25", 25, "−0.25")),
        (1.0, 0.5, ("1.00", 100, "0.50")),
        (1.5, 1.0, ("1.50", 100, "1.50")),
        (-0.5, None, ("−0.50", 0, "–")),
        (0.25, math.nan, ("0.25", 25, "–")),
        (math.inf, 1.0, ("–", 0, "–")),
        (None, 1.0, ("–", 0, "–")),
    ],
)
def test_an_answer_shows_its_confidence_and_what_it_is_worth(
    confidence: float | None, correct: float | None, shown: tuple[str, int, str]
) -> None:
    """Worth, as in confidence-weighted accuracy: correctness times confidence, less the confidence of a wrong answer."""
    answer = pairs._member_answer({"model": "m", "text": "red", "confidence": confidence, "correct": correct, "pred_is_idk": None})
    assert (answer.confidence, answer.width, answer.worth) == shown and (answer.model, answer.text, answer.declined) == ("m", "red", False)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Stage]:
    root = tmp_path_factory.mktemp("pairs")
    return root, build(root)


@pytest.fixture
def results(built: tuple[Path, Stage], monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.chdir(built[0])
    return read_report(built[1])


@pytest.fixture(scope="module")
def page(built: tuple[Path, Stage]) -> str:
    with chdir(built[0]):
        report.run(built[1])
        return Path(built[1].outputs["report"]).read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_is_whole_safe_and_small(page: str) -> None:
    read = Page(page)
    safe(page.replace("data:image/png", "data:image/jpeg"), read)
    assert [i for i in read.ids() if i in NEW] == NEW
    assert len(page) < 3_000_000
    assert sum(tag == "details" and of.get("class") == "help" for tag, of in read.elements) >= 6
    assert ">nan<" not in page.lower() and ">none<" not in page.lower()
    assert all(f'href="#{i}"' in page for i in NEW)


def test_the_table_is_the_score_table(results: Report) -> None:
    (table,) = strategies.strategies(results)
    assert (table.dataset, table.baseline) == ("ours", "base")
    assert table.correction == "corrected by Westfall and Young's max-T method over all tests of the study: every metric, slice and dataset"
    assert table.board.groups == [("all questions", 4), ("plain (all answerable)", 2)]
    assert table.parts is not None and table.parts.groups == [("epistemic", 3), ("aleatoric", 3), ("mean of categories", 3)]
    assert [model for model, _, _ in table.board.rows] == results.models
    assert {model: kind for model, kind, _ in table.board.rows} == {
        "base": "", "base+thresholded": "abstention or recalibration", "base+guarded": "abstention or recalibration",
        "sft-other": "supervised fine-tuning", "sft-ours": "supervised fine-tuning",
    }  # fmt: skip
    scores = pl.from_arrow(read_labelled(Path(results.stage.inputs["scores"])))
    assert isinstance(scores, pl.DataFrame)
    central = ["f1_idk", "lave_idk_accuracy", "confidence_weighted_accuracy"]
    over_all = [("all", metric) for metric in [*central, "ece_idk"]]
    of_parts = [(part, metric) for part in ["category=epistemic", "category=aleatoric", "macro:category"] for metric in central]
    for board, columns in ((table.board, over_all), (table.parts, of_parts)):
        for model, _, marks in board.rows:
            for mark, (part, metric) in zip(marks, columns, strict=False):
                row = scores.row(
                    by_predicate=(pl.col("model") == model)
                    & (pl.col("dataset") == "ours")
                    & (pl.col("slice") == part)
                    & (pl.col("metric") == metric),
                    named=True,
                )
                assert mark.value == number(row["value"], 2), "as the narrowest interval of the column allows"
                assert f"n = {row['n']:,}" in mark.title


def test_marks_are_the_corrected_tests(results: Report) -> None:
    (table,) = strategies.strategies(results)
    tests = read_table(Path(results.stage.inputs["comparisons"]), COMPARISONS).to_pylist()
    found = {(t["b"], t["metric"]): t for t in tests if (t["dataset"], t["slice"], t["a"]) == ("ours", "all", "base")}
    rows = {model: marks for model, _, marks in table.board.rows}
    assert all(mark.sign == "" for mark in rows["base"])
    for model, marks in rows.items():
        if model != "base":
            for mark, metric in zip(marks[:4], ["f1_idk", "lave_idk_accuracy", "confidence_weighted_accuracy", "ece_idk"], strict=True):
                test = found[model, metric]
                better = (test["difference"] > 0) == (metric != "ece_idk")
                expected = "" if test["p_adjusted"] >= 0.05 else ("▲△" if better else "▼▽")[test["p_adjusted"] >= 0.01]
                assert mark.sign == expected
                by = " by squared ece_idk_debiased" if metric == "ece_idk" else ""
                assert f"against base{by}, p = " in mark.title
    assert table.further is not None
    header, ((name, further),) = table.further
    assert name == "sft-ours against base+thresholded" and len(header) == len(further) == 5
    (test,) = [t for t in tests if (t["a"], t["dataset"], t["slice"], t["metric"]) == ("base+thresholded", "ours", "all", "ece_idk")]
    assert header[4] == "ECE IDK\N{NO-BREAK SPACE}↓ (squared ece_idk_debiased)"
    assert further[4].value == f"{test['difference']:+.2f}".replace("-", "−")
    assert further[4].tone == ("better" if test["p_adjusted"] < 0.05 else "")
    assert rows["sft-ours"][2].sign == "△" and rows["sft-ours"][2].rank == "best"


@pytest.mark.parametrize(
    ("p", "difference", "higher", "sign"),
    [
        (0.001, 0.1, True, "▲"),
        (0.03, -0.1, False, "△"),
        (0.001, 0.1, False, "▼"),
        (0.049, -0.1, True, "▽"),
        (0.05, 0.1, True, ""),
        (None, 0.1, True, ""),
        (math.nan, 0.1, True, ""),
        (0.001, 0.1, None, ""),
        (0.001, 0.0, True, ""),
    ],
)
def test_a_verdict_needs_a_direction_and_a_p_value(p: float | None, difference: float, higher: bool | None, sign: str) -> None:
    test = {"p_adjusted": p, "difference": difference, "higher_is_better": higher}
    assert verdict_mark(test)[0] == sign


def test_the_papers_average_is_over_categories(results: Report) -> None:
    (table,) = strategies.strategies(results)
    assert table.averages is not None
    row = dict(table.averages.rows)["sft-ours"]
    assert table.averages.groups[0][0] == "epistemic" and table.averages.columns[0].startswith("F1 IDK")
    parts = [results.clean["sft-ours", "ours", f"category=epistemic/{c}", "f1_idk"]["value"] for c in ("knowledge", "extraneous")]
    assert row[0] == f"{sum(parts) / 2:.3f}"


def test_what_it_costs(results: Report) -> None:
    table = strategies.cost_table(results)
    assert table is not None
    assert table.columns == [("ours", "answerable accuracy ↑"), ("plain", "LAVE IDK accuracy ↑")]
    rows = dict(table.rows)
    test = results.tests["sft-ours", "ours", "all", "answerable_accuracy"]
    assert rows["sft-ours"][0].interval.startswith(f"{test['difference']:+.2f} (".replace("-", "−"))
    assert rows["base"][0].interval.startswith("(")


def test_abstaining_models_give_the_answers_beneath_or_decline(results: Report) -> None:
    answers = results.answers_to("ours", results.samples["ours"]["sample_id"])
    assert results.abstaining == {"base+guarded": "base", "base+thresholded": "base"}
    for model in ("base+guarded", "base+thresholded"):
        rows = answers.filter(pl.col("model") == model)
        mean = float(rows["correct"].drop_nulls().mean())  # type: ignore[arg-type]
        assert mean == pytest.approx(results.clean[model, "ours", "all", "lave_idk_accuracy"]["value"])
        assert rows.filter(pl.col("abstains"))["text"].str.starts_with("abstains (answer without abstention: ").any()
    assert set(answers["sample_id"]) == set(results.samples["ours"]["sample_id"])


def test_pairs_are_of_every_category_and_hard_ones_first(results: Report) -> None:
    shown = pairs.pairs(results, 8)
    assert len(shown) == 8
    assert {p.category.rpartition("/")[2] for p in shown} == {"knowledge", "extraneous", "temporal", "ambiguity"}
    for p in shown:
        assert [m.claim for m in p.members] == ["answerable", "unanswerable"]
        assert all(len(m.answers) == 5 for m in p.members)
        if p.category.endswith("extraneous"):
            assert p.members[0].thumbnail and p.members[1].thumbnail and p.members[0].thumbnail != p.members[1].thumbnail
        else:
            assert p.shared and not p.members[0].thumbnail
    said = [a for p in shown for m in p.members for a in m.answers]
    right = next(a for a in said if a.verdict == "right")
    wrong = next(a for a in said if a.verdict == "wrong")
    assert right.worth == right.confidence and wrong.worth == f"−{wrong.confidence}"


def test_data_behind_the_numbers(results: Report) -> None:
    (block,) = data_sets.data_sets(results)
    sheets = {s.caption: s for s in block.sheets}
    blind = "Shortcuts: answerability from the question or the image alone"
    assert list(sheets) == ["Images and questions", "Recipes", "How well objects were removed", blind, "Validity by human review"]
    assert sheets["Images and questions"].groups == [("epistemic", 2), ("aleatoric", 2), ("", 1)]
    assert sheets["Validity by human review"].rows[-1][0] == "all"
    assert re.fullmatch(r"[\d.]+% \([\d.]+% – [\d.]+%\)", sheets["Validity by human review"].rows[-1][1])
    assert any(line.startswith("Agreement of 2 reviewers (ann, bob)") and "Cohen’s κ" in line for line in block.sentences)
    assert [c.name for c in data_sets.taxonomy(results)] == ["knowledge", "extraneous", "temporal", "ambiguity"]
    judges = judging.judging(results)
    assert judges is not None and judges.rows[0][:4] == ["rules", "100.0% (56.6% – 100.0%)", "0", "0"]


def test_figures_of_categories_and_of_the_metric(results: Report) -> None:
    (bars,) = metric_study.category_figures(results)
    assert [p.title for p in bars.panels] == ["LAVE IDK accuracy ↑", "confidence weighted accuracy ↑", "F1 IDK ↑"]
    (study,) = metric_study.metric_study(results)
    assert [p.title for p in study.panels] == ["LAVE IDK accuracy ↑", "ECE ↓", "ECE IDK ↓"]
    row = results.correlations.filter((pl.col("dataset") == "ours") & (pl.col("slice") == "all") & (pl.col("metric") == "ece")).row(
        0, named=True
    )
    assert f"r = {row['pearson']:.2f}".replace("-", "−") in study.panels[1].note


@pytest.mark.slow
def test_hostile_text_of_pairs_stays_text(built: tuple[Path, Stage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = "<img src=x onerror=alert(1)></script>\u202e{{7*7}}"
    shutil.copytree(built[0] / "results", tmp_path / "results", symlinks=True)
    monkeypatch.chdir(tmp_path)
    folder = Path("results/small/data/ours")
    rows = read_table(folder / "samples.parquet", SAMPLES).to_pylist()
    named = [{**r, "question": bad, "references": [bad], "meta": [(bad, bad)]} for r in rows]
    write_table(folder / "samples.parquet", named, SAMPLES)
    for name, keys in (("statistics.json", ("recipes", 0, "dropped")), ("verification.json", ("agreement", "reviewers", 0))):
        record = json.loads((folder / name).read_text())
        inner = record
        for key in keys:
            inner = inner[key]
        inner["reviewer" if "reviewers" in keys else bad] = bad if "reviewers" in keys else 3
        (folder / name).write_text(json.dumps(record))
    stage = replace(built[1], params={**built[1].params, "taxonomy": {"epistemic": {bad: {"definition": bad, "examples": [bad]}}}})
    report.run(stage)
    text = Path(stage.outputs["report"]).read_text(encoding="utf-8")
    read = Page(text)
    safe(text.replace("data:image/png", "data:image/jpeg"), read)
    assert "\u202e" not in text
    assert read.text.count("<img src=x onerror=alert(1)></script>⟨U+202E⟩{{7*7}}") >= 20


def test_in_a_browser_nothing_overflows_and_the_filter_reaches_pairs(built: tuple[Path, Stage], page: str, tmp_path: Path) -> None:
    file = built[0] / built[1].outputs["report"]
    write_stamp(built[1].spec, built[0])
    with Chromium(tmp_path / "profile") as tab:
        for width in (1280, 400):
            tab.size(width)
            tab.open(file.as_uri())
            tab.until("document.readyState === 'complete' && document.querySelector('#shown').textContent")
            assert tab.run("document.documentElement.scrollWidth") <= width
        tab.run(
            "(s => { s.value = 'sft-ours'; s.dispatchEvent(new Event('change', {bubbles: true})) })(document.querySelector('[name=model]'))"
        )
        assert tab.run("[...document.querySelectorAll('.pair-card li:not([hidden])')].every(l => l.dataset.model === 'sft-ours')")
        tab.run("document.querySelectorAll('.pair-card img').forEach(i => { i.loading = 'eager' })")
        tab.until("[...document.querySelectorAll('.pair-card img')].every(i => i.naturalWidth > 0)")
        assert tab.complaints == []
        assert base64.b64decode(tab.call("Page.captureScreenshot")["data"]).startswith(b"\x89PNG")
