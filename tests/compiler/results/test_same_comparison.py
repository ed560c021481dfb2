"""One comparison of two models is the same wherever it is shown: in tables, terminal, report, viewer, exports and library."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import qualm
from qualm.compiler.project.checkout import Project
from qualm.compiler.results.compare import compare_scores
from qualm.compiler.results.scores import read_spec_results
from qualm.compiler.results.show import show_results
from qualm.compiler.run.export import ExportRequest, export_results
from qualm.compiler.viewing.chunks import content_of
from qualm.compiler.viewing.show import make_site
from qualm.runners.reporting.appendix import facts_of
from qualm.runners.reporting.compared_models import compared_models
from qualm.runners.reporting.load import Report, read_report
from qualm.runners.reporting.text import between, number, rounded, signed
from qualm.runners.scoring.families import describe_comparison
from qualm.runners.stages import report
from tests.runners.reporting.pair_results import stage
from tests.support.projects.viewed_project import SPEC, viewed_project

COMPARED = """\
compare: {baseline: base, margin: 0.4, family: metric, interval: {bootstrap: 2000}}
calibrators:
  on_val: {methods: [temperature], calibration: {fit: val}, refits: 50}
"""
METRICS = ["accuracy", "brier", "ece"]
NUMBERS = ("low", "high", "p", "p_adjusted", "p_equivalent", "p_not_worse", "margin", "scored_share_a")


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Project:
    spec = SPEC.replace("compare: {interval: {bootstrap: 50}}\n", COMPARED).replace("[accuracy,", "[accuracy, brier, ece,")
    return viewed_project(tmp_path_factory.mktemp("scored"), spec.replace("test: 24", "test: 24, val: 24"))


@pytest.fixture(scope="module")
def tests(scored: Project) -> list[dict[str, Any]]:
    """The rows of comparisons.parquet over all questions."""
    return read_spec_results(scored, "small").table("comparisons").filter(slice="all").to_dicts()


@pytest.fixture(scope="module")
def results(scored: Project) -> Report:
    with chdir(scored.root):
        (planned,) = [s for s in scored.plan("small").stages if s.kind == "report"]
        return read_report(stage(planned))


def of(tests: list[dict[str, Any]], dataset: str, metric: str) -> dict[str, Any]:
    (found,) = [t for t in tests if (t["dataset"], t["metric"]) == (dataset, metric)]
    return found


@pytest.mark.slow
def test_the_run_has_tests_margins_other_quantities_and_reasons(tests: list[dict[str, Any]]) -> None:
    assert all(of(tests, "options", metric)["p"] is not None for metric in METRICS)
    assert of(tests, "options", "ece")["compared_by"] == "ece_debiased" and of(tests, "options", "ece")["p_equivalent"] is None
    assert of(tests, "options", "accuracy")["margin"] == 0.4 and of(tests, "options", "accuracy")["p_equivalent"] is not None
    assert any(t["why"] for t in tests)


def test_the_command_compare(scored: Project, tests: list[dict[str, Any]]) -> None:
    found = compare_scores(scored, "small", "base", "other")
    assert found["test"]["name"] == "paired t" and len(found["differences"]) == len(tests)
    for row in found["differences"]:
        test = of(tests, row["dataset"], row["metric"])
        names = {"a": "value_a", "b": "value_b", "delta": "difference"} | {name: name for name in NUMBERS}
        assert {name: row[name] for name in names} == {name: pytest.approx(test[other]) for name, other in names.items()}
        assert [row[name] for name in ("n", "why", "compared_by")] == [test[name] for name in ("n", "why", "compared_by")]


def test_the_command_show(scored: Project, tests: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    show_results(scored, "small", None, ["options"], None, None, None, False)
    shown = capsys.readouterr().out
    assert "by a paired t test" in shown
    for metric in METRICS:
        test = of(tests, "options", metric)
        label = "ece (squared ece_debiased)" if metric == "ece" else metric
        line = next(line for line in shown.splitlines() if line.startswith(f"{label} ") and " to " in line)
        difference, low, _, high = line.removeprefix(label).split()[:4]
        assert [float(text.rstrip("*")) for text in (difference, low, high)] == pytest.approx(
            [test[name] for name in ("difference", "low", "high")], abs=0.0005
        )
    for test in (t for t in tests if t["why"] and t["dataset"] == "options"):
        assert f"{test['metric']}: not tested" in shown and test["why"] in " ".join(shown.split())


def test_the_report(scored: Project, results: Report, tests: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(scored.root)
    sheet = compared_models(results, "options")
    assert sheet is not None and sheet.header[-2:] == ["p, equal", "p, not worse"] and "Paired t tests" in sheet.note
    rows = {row[1]: row for row in sheet.rows}
    assert len(rows) == len(sheet.rows), "no two metrics have the same name"
    for metric, title in zip(METRICS, ["accuracy ↑", "brier ↓", "ECE ↓ (squared ece_debiased)"], strict=True):
        # A column has the decimals of its narrowest interval.
        test = of(tests, "options", metric) | {
            "decimals": of(results.comparisons.filter(slice="all").to_dicts(), "options", metric)["decimals"]
        }
        name, _, values, change, limits, p, finding, *margins = rows[title]
        assert name == "other against base" and change == rounded(test, "difference", signed) and finding == describe_comparison(test)
        assert values == f"{rounded(test, 'value_b')} and {rounded(test, 'value_a')}" and p == number(test["p_adjusted"], 4)
        assert limits.replace("\N{NO-BREAK SPACE}", " ") == between(test, form=signed)
        expected = [test["p_equivalent"], test["p_not_worse"]]
        assert margins == ["–" if value is None else number(value, 4) for value in expected]
    page = report.render(results).decode()
    assert all(cell in page for row in sheet.rows for cell in row)
    assert dict(facts_of(results.stage.params["made"]))["Tests"].endswith("margin of equality: 0.4")


def test_the_viewer(scored: Project, tests: list[dict[str, Any]]) -> None:
    site = make_site(scored, ["small"])
    of_models = json.loads(content_of(site.file("data/small/tests.js") or b""))["models"]
    columns = {
        name: [None if code < 0 else values["texts"][code] for code in values["codes"]] if isinstance(values, dict) else values
        for name, values in of_models["tests"]["columns"].items()
    }
    shown = [row for row in pl.DataFrame(columns, infer_schema_length=None).to_dicts() if row["slice"] == "all"]
    assert len(shown) == len(tests) and "Paired t tests over whole groups" in of_models["note"]
    for row, test in zip(shown, tests, strict=True):
        for name in (
            "a",
            "b",
            "dataset",
            "metric",
            "value_a",
            "value_b",
            "difference",
            "n",
            "compared_by",
            "higher_is_better",
            *NUMBERS[:-1],
        ):
            assert row[name] == (pytest.approx(test[name], rel=1e-6) if isinstance(test[name], float) else test[name]), name
        assert row["finding"] == describe_comparison(test)


@pytest.mark.slow
def test_the_viewer_on_demand(scored: Project) -> None:
    """A pair that the run did not test, b against a, has the numbers of `qualm compare`."""
    now = json.loads(content_of(make_site(scored, ["small"]).file("data/small/p/2.js") or b""))
    found = compare_scores(scored, "small", "other", "base")
    columns = now["tests"]["columns"]
    assert now["tests"]["n"] == len(found["differences"]) > 5 and "max-T method over the tests of one metric" in now["note"]
    for name, other in {"difference": "delta", "value_a": "a", "value_b": "b", "low": "low", "p_adjusted": "p_adjusted", "n": "n"}.items():
        expected = [d[other] for d in found["differences"]]
        assert columns[name] == [None if value is None else pytest.approx(value, rel=1e-6) for value in expected]
    assert set(columns["a"]["texts"]) == {"other"} and set(columns["b"]["texts"]) == {"base"}


def test_the_export(scored: Project, tests: list[dict[str, Any]], tmp_path: Path) -> None:
    assert export_results(scored, ExportRequest("small", tmp_path / "out", "csv"))
    written = pl.read_csv(tmp_path / "out" / "comparisons.csv", infer_schema_length=None).filter(slice="all").to_dicts()
    assert written == [{name: pytest.approx(value) if isinstance(value, float) else value for name, value in t.items()} for t in tests]


def test_the_library(scored: Project, tests: list[dict[str, Any]]) -> None:
    """Resamples have a seed of their own, so that standard errors differ by chance."""
    answers = read_spec_results(scored, "small").answers(dataset="options")
    a, b = (answers.filter(model=model) for model in ("base", "other"))
    found = qualm.compare(a, b, METRICS, on="sample_id", groups="group", resamples=2000, margin=0.4, correction="none", seed=1)
    for row in found.to_dicts():
        test = of(tests, "options", row["metric"])
        assert (row["a"], row["b"], row["n"]) == (pytest.approx(test["value_a"]), pytest.approx(test["value_b"]), test["n"])
        assert [row[end] for end in ("low", "high", "p")] == pytest.approx([test[end] for end in ("low", "high", "p")], abs=0.03)
        for name in ("p_equivalent", "p_not_worse"):
            assert row[name] == (None if test[name] is None else pytest.approx(test[name], abs=0.03))
        assert (row["compared_by"], row["margin"]) == (test["compared_by"], test["margin"])
