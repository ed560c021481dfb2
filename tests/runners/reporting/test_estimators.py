"""Which estimators the page tells apart from the best one, from comparisons that the product itself made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import ESTIMATOR_COMPARISONS, RANKINGS
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.estimators import best_estimator_tests
from qualm.runners.reporting.load import read_report
from qualm.runners.runtime.records import write_table
from qualm.runners.scoring import rankings
from qualm.runners.stages import report
from tests.support.processes.chromium import Chromium


def with_tests(stage: Any, values: dict[str, float], metric: str = "auroc", better: bool = True) -> Any:
    """A report stage that also reads rankings of these estimators of `large`, whose values scatter by .02 over resamples."""
    draw = np.random.default_rng(7)
    candidates = [
        rankings.Candidate(name, value, (value + draw.normal(0, 0.02, 2_000)).astype(np.float32), 400) for name, value in values.items()
    ]
    column = rankings.ranked(("open", "all", metric, "clean", rankings.ESTIMATORS, "large"), better, candidates, 100, 0.95)
    p = rankings.p_values(column.z, np.sort(column.highest))
    write_table(Path("rankings.parquet"), pa.table(rankings.ranking_columns(column, p)), RANKINGS)
    write_table(Path("estimator_comparisons.parquet"), list(rankings.pair_rows(column, p)), ESTIMATOR_COMPARISONS)
    stage.inputs |= {name: f"{name}.parquet" for name in ("rankings", "estimator_comparisons")}
    return stage


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("order", [("p_true", "luq", "perplexity"), ("luq", "perplexity", "p_true")], ids=["best first", "best last"])
def test_each_other_estimator_is_set_against_the_best(fabricate: Callable[..., Any], order: tuple[str, ...]) -> None:
    values = {"p_true": 0.8, "luq": 0.6, "perplexity": 0.79}
    stage = with_tests(fabricate(datasets=("open",), n=20).stage(), {name: values[name] for name in order})
    found = best_estimator_tests(read_report(stage), "open")
    assert found is not None and found.sheet.header == [*say.ESTIMATOR_TEST_COLUMNS]
    luq, perplexity = found.sheet.rows
    assert luq[:5] == ["large", "AUROC ↑", "P(True)", "LUQ", "−0.20"]
    low, high = (float(end.replace("−", "-")) for end in luq[5].split("\N{NO-BREAK SPACE}–\N{NO-BREAK SPACE}"))
    assert low == pytest.approx(-0.2 - 1.96 * 0.02 * 2**0.5, abs=0.005) and high == pytest.approx(-0.2 + 1.96 * 0.02 * 2**0.5, abs=0.005)
    assert float(luq[6]) < 0.05 and luq[7] == "significantly worse"
    assert perplexity[4] == "−0.01" and float(perplexity[6]) > 0.05 and perplexity[7] == "statistically tied"
    assert found.sentence.startswith("1 of 2 differences from the best estimator of a model is significant")


def test_where_lower_is_better_the_lowest_is_the_best(fabricate: Callable[..., Any]) -> None:
    stage = with_tests(fabricate(datasets=("open",), n=20).stage(), {"luq": 0.6, "p_true": 0.3}, "ece", better=False)
    found = best_estimator_tests(read_report(stage), "open")
    assert found is not None
    assert [row[2:5] + row[7:] for row in found.sheet.rows] == [["P(True)", "LUQ", "+0.30", "significantly worse"]]


def test_it_stands_folded_on_the_page(fabricate: Callable[..., Any]) -> None:
    stage = with_tests(fabricate(datasets=("open",), n=20).stage(), {"luq": 0.6, "p_true": 0.8})
    report.run(stage)
    page = Path(stage.outputs["report"]).read_text(encoding="utf-8")
    board = page[page.index('<section id="leaderboard">') : page.index('<section id="calibration">')]
    assert "of 1 difference from the best estimator" in board
    assert (
        '<details class="numbers"><summary>Tests of estimators against the best of each model</summary>' in board
        and "<bdi>significantly worse</bdi>" in board
    )


def test_in_a_browser_tables_of_long_names_fit(fabricate: Callable[..., Any], tmp_path: Path) -> None:
    """A board of CertainlyUncertain's seven metrics, estimators with long names, a warning of one long word."""
    small = fabricate(datasets=("open",), models=("a", "sft_ours+recalibrated"), n=20)
    for metric in ("answerable_accuracy", "confidence_weighted_accuracy", "f1_idk", "ece_idk", "idk_rate", "lave_idk_accuracy"):
        small.scores += [{**small.scores[0], "model": m, "metric": metric, "value": 0.5, "n": 1_518} for m in small.models]
    none = {"value": None, "low": None, "high": None, "n": 0, "n_unscored": 0, "why": "no answer was judged"}
    small.scores.append({**small.scores[0], **none, "metric": f"prediction_rejection_ratio[{'halp@place=image_last@other_data' * 3}]"})
    long = ("cocoa@confidence=mean_token_entropy", "max_sequence_probability@of=a_name_as_long_as_that")
    page = report.render(read_report(with_tests(small.stage(), dict(zip(long, (0.8, 0.6), strict=True)), "prediction_rejection_ratio")))
    file = tmp_path / "page.html"
    file.write_bytes(page)
    # a twentieth more, which scrolls, where there is no font narrower than DejaVu Sans
    inside = "[...document.querySelectorAll('.scroll > table')].filter(t => t.offsetWidth > 1.05 * t.parentElement.clientWidth)"
    with Chromium(tmp_path / "profile") as tab:
        for width in (1280, 400):
            tab.size(width)
            tab.open(file.as_uri())
            tab.run("document.querySelectorAll('details').forEach(d => { d.open = true })")
            assert tab.run("document.documentElement.scrollWidth") <= width
            if width == 1280:
                assert tab.run(f"{inside}.map(t => t.textContent.slice(0, 60)).join()") == ""
        assert tab.complaints == []


def test_without_comparisons_nothing_is_said(fabricate: Callable[..., Any]) -> None:
    assert best_estimator_tests(read_report(fabricate(datasets=("open",), n=20).stage()), "open") is None
