"""Paired comparisons: what is paired, how wide the intervals are, and what a test of nothing says."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.results import compare, paired
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.sample import GENERATIONS, SAMPLES
from qualm.runners.runtime.records import write_table
from tests.simulation.cells import metrics
from tests.support.data.score_files import write_scores

METRICS = [{"label": m, "plugin": m, "args": {}} for m in ("accuracy", "ece")]


class Checkout:
    """A project whose specs are all of one multiple-choice dataset; answers are given as 0/1 (None = no logits)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.plans: dict[str, Plan] = {}

    def specs(self) -> list[str]:
        return sorted(self.plans)

    def plan(self, spec: str | None) -> Plan:
        return self.plans[spec or self.specs()[0]]

    def add(self, spec: str, answers: dict[str, Sequence[int | None]], groups: int = 0, skip: int = 0, metrics: Any = METRICS) -> None:
        n = len(next(iter(answers.values())))
        empty = {"references": [], "category": "", "answerable": True, "split": "test", "source": "", "meta": {}, "image_id": None}
        samples = [
            {"sample_id": f"s{i}", "question": f"q{i}", "choices": ["x", "y"], "answer_index": 0}
            | {"group": f"g{i % groups}" if groups else ""}
            | empty
            for i in range(skip, skip + n)
        ]
        folder = Path("results") / spec
        write_table(self.root / folder / "data" / "samples.parquet", samples, SAMPLES)
        generations = {}
        for model, right in answers.items():
            rows: list[dict[str, Any]] = []
            for i, r in enumerate(right):
                logits = None if r is None else [2.0, 0.0] if r else [0.0, 2.0]
                rows.append({"sample_id": f"s{i + skip}", "variant": "clean", "draw": 0, "option_logits": logits})
            path = folder / f"{model}.parquet"
            write_table(self.root / path, rows, GENERATIONS)
            generations[model] = {"d": str(path)}
        params = {"metrics": metrics, "interval": {"bootstrap": 2000, "level": 0.95}, "judge": None, "confidence": "sequence"}
        inputs = {"datasets": {"d": str(folder / "data")}, "generations": generations}
        outputs = {"scores": str(folder / "scores.parquet")}
        self.plans[spec] = Plan(spec, spec, (PlannedStage("score", "score", "", params, inputs, outputs, 7, ()),))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def flips(n: int, p: float, seed: int) -> list[int]:
    return (np.random.default_rng(seed).random(n) < p).astype(int).tolist()


def of(found: dict[str, Any], metric: str) -> dict[str, Any]:
    return next(d for d in found["differences"] if d["metric"] == metric)


def test_two_models_of_a_spec(checkout: Checkout) -> None:
    a, b = flips(300, 0.6, 1), flips(300, 0.8, 2)
    checkout.add("s", {"a": a, "b": b})
    found = compare.compare_scores(checkout, None, "a", "b")  # type: ignore[arg-type]
    row = of(found, "accuracy")
    assert row["delta"] == pytest.approx(np.mean(b) - np.mean(a))
    theirs = stats.bootstrap(
        (np.array(b), np.array(a)),
        lambda x, y, axis: x.mean(axis) - y.mean(axis),
        paired=True,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    assert (row["low"], row["high"]) == pytest.approx((theirs.low, theirs.high), abs=0.012)
    assert (row["better"], row["n"], row["significant"]) == ("b", 300, True)
    (test,) = found["mcnemar"]
    assert test["only_a"] == sum(x > y for x, y in zip(a, b, strict=True))
    assert test["p"] == stats.binomtest(test["only_a"], test["only_a"] + test["only_b"]).pvalue
    json.dumps(found, allow_nan=False)


def test_without_resamples_the_correction_is_holm_s(checkout: Checkout) -> None:
    checkout.add("s", {"a": flips(300, 0.6, 1), "b": flips(300, 0.8, 2)})
    checkout.plan("s").stage("score").params["interval"]["bootstrap"] = 0
    found = compare.compare_scores(checkout, None, "a", "b")  # type: ignore[arg-type]
    assert found["test"]["correction"] == "holm" and of(found, "accuracy")["significant"]


def test_a_model_against_itself_differs_by_nothing(checkout: Checkout) -> None:
    a = flips(50, 0.5, 3)
    checkout.add("s", {"a": a, "b": a})
    found = compare.compare_scores(checkout, None, "a", "b")  # type: ignore[arg-type]
    assert [(d["delta"], d["low"], d["high"], d["better"]) for d in found["differences"]] == [(0.0, None, None, None)] * 2, (
        "what never differs has no interval"
    )
    assert found["mcnemar"][0]["p"] == 1.0


def test_pairing_makes_intervals_narrow_and_groups_make_them_wide(checkout: Checkout) -> None:
    a = flips(400, 0.5, 4)
    b = [1 - x if i % 40 == 0 else x for i, x in enumerate(a)]
    checkout.add("alone", {"a": a, "b": b})
    checkout.add("grouped", {"a": a, "b": b}, groups=40)
    alone, grouped = (of(compare.compare_scores(checkout, s, "a", "b"), "accuracy") for s in ("alone", "grouped"))  # type: ignore[arg-type]
    width = alone["high"] - alone["low"]
    assert width < 4.3 * np.sqrt(0.025 / 400)  # unpaired it would be about 4 * sqrt(0.5 / 400)
    assert grouped["high"] - grouped["low"] != pytest.approx(width, rel=0.05)
    assert "resample whole groups" in compare.compare_scores(checkout, "grouped", "a", "b")["notes"][0]  # type: ignore[arg-type]


def test_rows_that_one_side_could_not_score_count_for_neither(checkout: Checkout) -> None:
    checkout.add("s", {"a": [1, 1, 0, None, 0], "b": [1, None, 0, 1, 1]})
    found = compare.compare_scores(checkout, None, "a", "b")  # type: ignore[arg-type]
    row = of(found, "accuracy")
    assert (row["n"], row["a"], row["b"]) == (3, pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert found["mcnemar"][0] | {"p": 0, "p_holm": 0} == {
        "dataset": "d", "metric": "accuracy", "n": 3, "both_right": 1, "only_a": 0, "only_b": 1, "both_wrong": 1, "p": 0, "p_holm": 0,
    }  # fmt: skip


def test_two_specs_are_compared_on_the_questions_they_share(checkout: Checkout) -> None:
    checkout.add("one", {"m": [1, 1, 0, 0]})
    checkout.add("two", {"m": [0, 1, 1, 1]}, skip=2, metrics=[*METRICS, {"label": "mce", "plugin": "mce", "args": {}}])
    found = compare.compare_scores(checkout, None, "one", "two")  # type: ignore[arg-type]
    row = of(found, "accuracy")
    assert (row["n"], row["a"], row["b"], row["model"]) == (2, 0.0, 0.5, "m")
    assert {d["metric"] for d in found["differences"]} == {"accuracy", "ece"}
    assert found["notes"] == ["d: 2 questions are not the same on both sides and were left out"]


def test_score_tables_alone_have_no_interval(checkout: Checkout) -> None:
    row = {"model": "m", "dataset": "d", "variant": "clean", "slice": "all", "metric": "accuracy", "low": 0.1, "high": 0.9, "n_unscored": 0}
    files = [checkout.root / f"{x}.parquet" for x in "ab"]
    for file, value in zip(files, (0.5, 0.75), strict=True):
        write_scores(file, [row | {"value": value, "n": 8}])
    found = compare.compare_scores(checkout, None, *map(str, files))  # type: ignore[arg-type]
    assert not found["paired"] and "without intervals" in found["notes"][0]
    assert (found["differences"][0]["delta"], found["differences"][0]["low"]) == (0.25, None)


def test_score_tables_are_compared_where_both_have_a_number(checkout: Checkout) -> None:
    rows = [
        {"model": "m", "dataset": "d", "variant": variant, "slice": part, "metric": metric, "low": None, "high": None, "n_unscored": 0}
        for metric, variant, part in (
            ("a", "clean", "all"), ("b", "clean", "all"), ("c", "clean", "all"), ("d", "clean", "all"), ("a", "blur", "all"),
            ("a", "clean", "k=1"),
        )
    ]  # fmt: skip
    files = [checkout.root / f"{x}.parquet" for x in "ab"]
    for file, values, n in zip(files, ([0.5, None, 0.5, None, 0.1, 0.1], [0.25, 0.5, None, None, 0.1, 0.1]), (8, 6), strict=True):
        write_scores(file, [row | {"value": value, "n": n} for row, value in zip(rows, values, strict=True)])
    found = compare.compare_scores(checkout, None, *map(str, files))  # type: ignore[arg-type]
    assert [(d["metric"], d["a"], d["b"], d["delta"], d["n"]) for d in found["differences"]] == [
        ("a", 0.5, 0.25, -0.25, 6), ("b", None, 0.5, None, 6), ("c", 0.5, None, None, 6), ("d", None, None, None, 6),
    ]  # fmt: skip
    write_scores(files[1], [rows[0] | {"model": "other", "value": 0.5, "n": 8}])
    with pytest.raises(ProjectError, match="expected at least one score of the same model, dataset and metric in both, found none"):
        compare.compare_scores(checkout, None, *map(str, files))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ("a", "bb", "'bb' is neither a model of this spec, nor a spec, nor a .parquet file; "),
        ("a", "s", "'a' and 's': one is a model, the other a spec"),
        ("x.parquet", "y.parquet", "x.parquet: no scores there; run the benchmark with `qualm run SPEC`"),
        ("s", "t", "specs 's' and 't' have no model in common: a, b against c"),
    ],
)
def test_errors_say_what_to_do(checkout: Checkout, a: str, b: str, message: str) -> None:
    checkout.add("s", {"a": [1], "b": [0]})
    checkout.add("t", {"c": [1]})
    with pytest.raises(ProjectError) as raised:
        compare.compare_scores(checkout, "s", a, b)  # type: ignore[arg-type]
    assert message in str(raised.value)


def test_missing_answers_are_an_error_that_names_the_file(checkout: Checkout) -> None:
    checkout.add("s", {"a": [1], "b": [0]})
    (checkout.root / "results" / "s" / "b.parquet").unlink()
    with pytest.raises(ProjectError, match=r"b\.parquet: expected a Parquet table, found nothing.*dvc pull"):
        compare.compare_scores(checkout, None, "a", "b")  # type: ignore[arg-type]


@pytest.mark.slow
def test_p_values_are_those_of_the_score_stages_test_and_corrected_over_what_is_shown(checkout: Checkout) -> None:
    checkout.add("s", {"a": flips(300, 0.6, 1), "b": flips(300, 0.68, 2)})
    both = compare.compare_scores(checkout, None, "a", "b")  # type: ignore[arg-type]
    assert both["test"] == {"name": "paired t", "margin": None, "correction": "max_t", "family": "study"}
    raw = [d["p"] for d in both["differences"]]
    assert len(raw) == 2 and all(p <= d["p_adjusted"] <= 2.2 * p + 0.02 for p, d in zip(raw, both["differences"], strict=True))
    one = compare.compare_scores(checkout, None, "a", "b", metrics=["accuracy"])  # type: ignore[arg-type]
    (row,) = one["differences"]
    assert row["metric"] == "accuracy" and row["p"] == of(both, "accuracy")["p"] == pytest.approx(row["p_adjusted"], abs=0.02)
    a, b = np.array(flips(300, 0.6, 1)), np.array(flips(300, 0.68, 2))
    theirs = stats.permutation_test((b, a), lambda x, y: x.mean() - y.mean(), permutation_type="samples", n_resamples=9999, rng=1)
    assert row["p"] == pytest.approx(theirs.pvalue, abs=0.02)
    with pytest.raises(ProjectError, match="no metric 'acuracy' that both sides have; did you mean 'accuracy'"):
        compare.compare_scores(checkout, None, "a", "b", metrics=["acuracy"])  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [60, 80])
def test_long_names_are_not_broken(checkout: Checkout, columns: int, capsys: pytest.CaptureFixture[str]) -> None:
    name = "accuracy_under_a_name_of_more_than_forty_characters"
    metrics = [{"label": name, "plugin": "accuracy", "args": {}}, *METRICS]
    checkout.add("s", {"a": flips(80, 0.4, 1), "b": flips(80, 0.9, 2)}, metrics=metrics)
    compare.print_comparison(compare.compare_scores(checkout, None, "a", "b"), Console(width=columns))  # type: ignore[arg-type]
    lines = capsys.readouterr().out.splitlines()
    assert name in lines and max(map(len, lines)) <= columns


def test_printed(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    checkout.add("s", {"a": flips(80, 0.4, 1), "b": flips(80, 0.9, 2)})
    compare.print_comparison(compare.compare_scores(checkout, None, "a", "b"), Console(width=80))  # type: ignore[arg-type]
    out = capsys.readouterr().out
    assert (
        "b − a     95% interval" in out
        and "ece (squared ece_debiased)" in out
        and "p: paired t tests over whole groups, corrected by Westfall and Young's max-T" in " ".join(out.split())
        and "McNemar, exact, d: accuracy, n = " in out
    )
    assert max(map(len, out.splitlines())) <= 80


def difference(metric: str, better: str | None = "a", **more: Any) -> dict[str, Any]:
    base = {"dataset": "d", "metric": metric, "a": 0.5, "b": 0.25, "delta": -0.25, "low": -0.3, "high": -0.2, "n": 1200, "p": 0.0104}
    return base | {"p_adjusted": 0.0208, "significant": better is not None, "better": better} | more


TEST = {"name": "paired t", "margin": 0.02, "correction": "holm", "family": "slice"}


def told(rows: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"a": "one", "b": "two", "level": 0.95, "test": TEST, "notes": [], "mcnemar": [], "differences": rows, **more}


def lines(comparison: dict[str, Any], **options: Any) -> list[str]:
    out = io.StringIO()
    compare.print_comparison(comparison, Console(file=out, width=160, **options))
    return [line for line in out.getvalue().splitlines() if line.strip()]


def test_every_number_of_a_comparison_by_line() -> None:
    tested = {"dataset": "d", "metric": "accuracy", "n": 2000, "only_a": 1234, "only_b": 5, "p": 0.00123456}
    rows = [
        difference("ece"),
        difference("acc", None, low=None, high=None, p=None, p_adjusted=None, significant=None),
        difference("acc", "b", model="m", n=1199), difference("ece", "b", model="m"),
    ]  # fmt: skip
    found = lines(told(rows, mcnemar=[tested | {"p_holm": 0.0024691}, tested | {"model": "m", "p_holm": 0.00123456}], notes=["a [note]"]))
    whole = ["0.500", "0.250", "-0.250", "-0.300", "to", "-0.200", "0.0104", "0.0208"]
    head = ["metric", "a", "b", "b", "−", "a", "95%", "interval", "p", "corr.", "p"]
    assert [line.split() for line in found[:9]] == [
        ["a", "one", "b", "two"],
        ["d", "n", "=", "1,200"], head, ["ece", *whole], ["acc", *whole[:3], "undefined"],
        ["m", "·", "d"], [*head, "n"], ["acc", *whole, "1,199"], ["ece", *whole, "1,200"],
    ]  # fmt: skip
    assert [line.rstrip() for line in found[9:]] == [
        "p: paired t tests over whole groups, corrected by Holm's method over all tests on one dataset and slice",
        "McNemar, exact, d: accuracy, n = 2,000: only a right 1,234, only b right 5: p = 0.00123, Holm 0.00247",
        "McNemar, exact, m · d: accuracy, n = 2,000: only a right 1,234, only b right 5: p = 0.00123",
        "a [note]",
    ]


def test_margins_reasons_and_other_quantities_are_told() -> None:
    margins = {"margin": 0.02, "p_equivalent": 0.0312, "p_not_worse": 0.0156}
    rows = [
        difference("accuracy", None, **margins),
        difference("ece", None, compared_by="ece_debiased"),
        difference("auroc", None, low=None, high=None, p=None, p_adjusted=None, significant=None, why="9 answers of the rarer class"),
    ]
    found = [line.rstrip() for line in lines(told(rows))]
    heads = ["metric", "a", "b", "b", "−", "a", "95%", "interval", "p", "corr.", "p", "equal", "not", "worse"]
    assert found[2].split() == heads and found[3].split()[-4:] == ["0.0104", "0.0208", "0.0312", "0.0156"]
    assert found[4].startswith("ece (squared ece_debiased)") and found[5].split()[-2:] == ["not", "tested"]
    assert found[7:] == [
        "ece: compared by squared ece_debiased, since the plain estimate is biased by an amount that depends on the model",
        "auroc: not tested: 9 answers of the rarer class",
        "equal, not worse: p (small: b is within 0.02 of a; is not worse by more), corrected alike",
        "dim: statistically tied at this number of questions (2 of 2), which does not prove equality",
    ]


def test_what_was_not_corrected_or_not_tested_has_no_column_for_it() -> None:
    uncorrected = lines(told([difference("ece")], test=TEST | {"correction": "none"}))
    assert uncorrected[2].split() == ["metric", "a", "b", "b", "−", "a", "95%", "interval", "p"] and uncorrected[-1].endswith(
        "whole groups, not corrected for their number"
    )
    plain = lines(told([difference("ece", None)], test=None, level=None))
    assert [line.split() for line in plain[2:]] == [["metric", "a", "b", "b", "−", "a"], ["ece", "0.500", "0.250", "-0.250"]]


def test_a_row_is_green_where_b_is_better_red_where_a_is_and_dim_where_nothing_is_told() -> None:
    rows = [difference("x1", "b"), difference("x2", "a"), difference("x3", None), difference("x4", None, significant=True)]
    shown = lines(told(rows), force_terminal=True, color_system="standard")
    codes = [set(re.findall(r"\x1b\[([\d;]+)m", line)) - {"0"} for line in shown if re.search(r"x\d", line)]
    assert codes == [{"32"}, {"31"}, {"2"}, set()]


@pytest.mark.parametrize(("b", "c", "p"), [(12, 5, 0.143463), (5, 12, 0.143463), (0, 0, 1.0), (3, 3, 1.0), (0, 6, 0.03125)])
def test_mcnemar_exact(b: int, c: int, p: float) -> None:
    assert paired.mcnemar_p(b, c) == pytest.approx(p, abs=1e-6)


def test_half_right_ratings_have_no_mcnemar(checkout: Checkout) -> None:
    checkout.add("s", {"a": [1, 0], "b": [0, 1]})
    side = compare.side_here(checkout, "s")
    cells = compare.clean_cells(side, {"a": "a", "b": "b"})
    cells["a", "d"].columns["correct"][0] = 0.5
    assert paired.mcnemar_tests([(cells["a", "d"], cells["b", "d"])], metrics("accuracy")) == []
