"""`qualm show` on a spec that compares; `qualm compare` on models that abstain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.results import compare, show
from qualm.compiler.results.comparisons import matching_tests, show_tests
from qualm.registry.sample import ABSTENTIONS, COMPARISONS, GENERATIONS, JUDGEMENTS, SAMPLES
from qualm.runners.runtime.records import write_table
from tests.support.data.score_files import write_scores


def a_test(metric: str = "ece", difference: float | None = -0.1, p: float | None = 0.004, **more: Any) -> dict[str, Any]:
    base = {"a": "base", "b": "sft", "dataset": "d", "slice": "all", "metric": metric, "difference": difference, "p": p, "p_adjusted": p}
    values = {"value_a": 0.3, "value_b": 0.2, "low": -0.2, "high": -0.05, "n": 9, "higher_is_better": metric != "ece"}
    return base | values | more


def score_row(model: str, metric: str = "ece", **more: Any) -> dict[str, Any]:
    base = {"model": model, "dataset": "d", "variant": "clean", "slice": "all", "metric": metric, "value": 0.5}
    return base | {"low": 0.4, "high": 0.6, "n": 9, "n_unscored": 0} | more


def test_only_tests_of_scores_that_are_shown() -> None:
    tests = [a_test(), a_test("accuracy"), a_test(b="dpo"), a_test(slice="category=x")]
    scores = [score_row("base"), score_row("sft"), score_row("dpo", variant="blur")]
    assert matching_tests(tests, scores) == [tests[0]]


def test_printed_with_stars_of_the_corrected_p(capsys: pytest.CaptureFixture[str]) -> None:
    tests = [a_test(), a_test("accuracy", 0.25, 0.5), a_test("f1_idk", None, None, low=None, high=None)]
    show_tests(tests, "holm", "metric", Console(width=100))
    out = capsys.readouterr().out
    assert "difference from base" in out
    assert "-0.100** -0.200 to -0.050" in out
    assert "+0.250 " in out and "undefined" in out
    assert "corrected by Holm's method over the tests of one metric on one dataset and slice" in " ".join(out.split())
    show_tests(tests, "none", "slice", Console(width=100))
    assert "not corrected for their number" in capsys.readouterr().out
    show_tests([], "holm", "metric", Console(width=100))
    assert capsys.readouterr().out == ""


def test_reasons_margins_and_other_quantities_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    untested = {"low": None, "high": None, "why": "9 answers of the rarer class: a test needs 10"}
    many = [a_test("f1_idk", 0.1, None, b=f"model{i}", **untested) for i in range(4)]
    tests = [
        a_test(compared_by="ece_debiased"),
        a_test("accuracy", 0.001, 0.5, margin=0.02, p_equivalent=0.01, p_not_worse=0.01),
        a_test("accuracy", -0.01, 0.5, margin=0.02, p_equivalent=0.2, p_not_worse=0.01, b="dpo"),
        a_test("auroc", 0.2, None, **untested),
        a_test("auroc", 0.2, 0.5, slice="category=x"),
        *many,
        a_test("f1_idk", 0.1, 0.2),
    ]
    show_tests(tests, "max_t", "study", Console(width=200))
    out = capsys.readouterr().out
    assert "ece (squared ece_debiased)" in out and "equal within 0.02" in out and "not worse by 0.02" in out
    assert "auroc: not tested (sft against base, d): 9 answers of the rarer class" in out
    assert "f1_idk: not tested in 4 of 5 comparisons: 9 answers" in out and "+0.200 not tested" in out


class Checkout:
    """A spec whose one model declines to the second of four questions, and by a threshold to the last two."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.specs = lambda: ["s"]
        rows = [
            {"sample_id": f"s{i}", "question": "?", "references": ["red"], "answerable": i < 2, "split": "test", "group": f"g{i}"}
            for i in range(4)
        ]
        write_table(root / "data/samples.parquet", rows, SAMPLES)
        said = [{"sample_id": f"s{i}", "variant": "clean", "draw": 0, "token_logprobs": [-0.1 * i]} for i in range(4)]
        write_table(root / "m.parquet", said, GENERATIONS)
        same = {"model": "m", "dataset": "d", "variant": "clean"}
        judged = [
            same | {"sample_id": f"s{i}", "draw": 0, "judge": "rules", "pred_is_idk": i == 1, "gt_is_idk": i > 1, "rating": float(i == 0)}
            for i in range(4)
        ]
        write_table(root / "judged.parquet", judged, JUDGEMENTS)
        turned = [
            same | {"sample_id": f"s{i}", "method": "t", "confidence": 0.5, "threshold": 0.8, "abstains": i > 1, "is_fit": False}
            for i in range(4)
        ]
        write_table(root / "abstentions.parquet", turned, ABSTENTIONS)
        write_scores(root / "scores.parquet", [score_row("m"), score_row("m+t")])
        write_table(root / "comparisons.parquet", [a_test(a="m", b="m+t")], COMPARISONS)
        metrics = [{"label": "accuracy", "plugin": "accuracy", "args": {}}]
        params = {"metrics": metrics, "interval": {"bootstrap": 50, "level": 0.95}, "judge": "rules", "confidence": "sequence"}
        params["compare"] = {"baseline": "m", "pairs": [], "margin": None, "correction": "holm", "family": "metric"}
        inputs = {"datasets": {"d": "data"}, "generations": {"m": {"d": "m.parquet"}}}
        inputs |= {"judgements": "judged.parquet", "abstentions": "abstentions.parquet"}  # type: ignore[dict-item]
        outputs = {"scores": "scores.parquet", "comparisons": "comparisons.parquet"}
        method = {"label": "t", "fit": "half", "of": ["m"]}
        stages = (
            PlannedStage("abstain", "abstain", "", {"abstentions": [method]}, {}, {"abstentions": "abstentions.parquet"}, 0, ()),
            PlannedStage("score", "score", "", params, inputs, outputs, 7, ()),
        )
        self._plan = Plan("s", "s", stages)

    def plan(self, spec: str | None) -> Plan:
        return self._plan


def test_a_model_against_itself_that_abstains(tmp_path: Path) -> None:
    found = compare.compare_scores(Checkout(tmp_path), None, "m", "m+t")  # type: ignore[arg-type]
    (row,) = found["differences"]
    assert (row["a"], row["b"], row["n"]) == (0.25, 0.75, 4)


def test_shown_below_the_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show.show_results(Checkout(tmp_path), None, None, None, None, None, None, False)  # type: ignore[arg-type]
    out = capsys.readouterr().out
    assert out.index("0.500") < out.index("difference from m") < out.index("-0.100**")
