"""Commands of results as they are typed: what reaches the functions behind them; results against a revision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from qualm.compiler.commands.main import app
from qualm.compiler.results.power import Assumptions

run = CliRunner()
BEHIND = {
    "results.revisions.diff_revision": {"spec": "s"}, "project.views.print_diff": None, "results.diff_page.markdown": "# page",
    "results.experiments.experiments": [{"name": "x"}], "project.views.print_experiments": None, "results.run_facts.show_how": None,
    "results.show.show_results": None, "results.stats.show_statistics": None, "results.compare.compare_results": None,
    "results.power.show_power": None, "viewing.failures.show_failures": None,
}  # fmt: skip


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What was called with what, without the project."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "params.yaml").write_text("default: mine\n")
    for name in ("mine", "other"):
        (tmp_path / f"specs/{name}.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    made: list[tuple[Any, ...]] = []
    for place, back in BEHIND.items():

        def call(*arguments: Any, name: str = place.rpartition(".")[2], back: Any = back) -> Any:
            made.append((name, *(one for one in arguments if type(one).__name__ != "Project")))
            return back

        monkeypatch.setattr(f"qualm.compiler.{place}", call)
    return made


def typed(*words: str, code: int = 0) -> str:
    done = run.invoke(app, list(words), env={"COLUMNS": "160"})
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.parametrize(
    ("words", "spec", "revision", "pull"),
    [
        ([], None, "HEAD", False), (["other"], "other", "HEAD", False), (["main"], None, "main", False),
        (["other", "v1"], "other", "v1", False),
        (["gone", "v1"], "gone", "v1", False), (["--pull"], None, "HEAD", True),
    ],
)  # fmt: skip
def test_which_word_of_a_difference_is_the_spec(
    calls: list[tuple[Any, ...]], words: list[str], spec: str, revision: str, pull: bool
) -> None:
    typed("diff", *words)
    assert calls == [("diff_revision", spec, revision, pull), ("print_diff", {"spec": "s"})]
    assert json.loads(typed("diff", *words, "--json")) == {"spec": "s"} and typed("diff", *words, "--markdown") == "# page\n"
    assert [name for name, *_ in calls[2:]] == ["diff_revision", "diff_revision", "markdown"]


def test_what_is_shown_of_results(calls: list[tuple[Any, ...]]) -> None:
    typed("show")
    typed("show", "s", "-m", "a", "-m", "b", "-d", "d", "--metric", "ece", "--variant", "blur", "--slice", "x=1", "--json")
    typed("show", "s", "--how")
    typed("stats", "s", "--json")
    assert json.loads(typed("experiments", "s", "--metric", "ece", "--json")) == [{"name": "x"}]
    typed("experiments")
    assert calls == [
        ("show_results", None, None, None, None, None, None, False),
        ("show_results", "s", ["a", "b"], ["d"], ["ece"], ["blur"], ["x=1"], True),
        ("show_how", "s", False), ("show_statistics", "s", True), ("experiments", "s", ["ece"]),
        ("experiments", None, None), ("print_experiments", [{"name": "x"}]),
    ]  # fmt: skip


def test_failures_are_chosen_by_model_dataset_and_variant(calls: list[tuple[Any, ...]]) -> None:
    typed("show", "s", "--failures", "20", "-m", "a", "-d", "d", "--variant", "blur")
    assert calls == [("show_failures", "s", 20, ["a"], ["d"], ["blur"], False)]
    refused = run.invoke(app, ["show", "s", "--failures", "20", "--metric", "ece"])
    assert str(refused.exception).startswith("--failures shows answers, which --metric and --slice do not select")
    typed("show", "--failures", "0", code=2)


def test_two_sides_are_compared(calls: list[tuple[Any, ...]]) -> None:
    typed("compare", "a", "b")
    typed("compare", "s", "a", "b", "--metric", "ece", "--rev", "v1", "--pull", "--json")
    assert calls == [
        ("compare_results", None, "a", "b", False, None, False, None), ("compare_results", "s", "a", "b", True, "v1", True, ["ece"]),
    ]  # fmt: skip
    for words in (["a"], ["s", "a", "b", "c"]):
        done = run.invoke(app, ["compare", *words])
        assert str(done.exception) == f"expected [SPEC] A B, two sides to compare, got {len(words)}: {' '.join(words)}"
    assert len(calls) == 2


@pytest.mark.slow
def test_what_is_assumed_of_questions(calls: list[tuple[Any, ...]]) -> None:
    typed("power")
    typed(
        "power", "s", "--metric", "ece", "--power", "0.5", "--difference", "0.02", "--tests", "60", "--questions", "2", "--group-size", "1",
        "--disagreement", "1", "--within", "0", "--json",
    )  # fmt: skip
    assert calls == [
        ("show_power", None, None, Assumptions(), False),
        ("show_power", "s", ["ece"], Assumptions(0.5, 60, 0.02, 1.0, 0.0, 2, 1.0), True),
    ]
    for option, value in (
        ("--power", "0.49"), ("--power", "1"), ("--tests", "0"), ("--questions", "1"), ("--group-size", "0.9"), ("--disagreement", "0"),
        ("--disagreement", "1.1"), ("--within", "-0.1"), ("--within", "1.1"), ("--difference", "0"),
    ):  # fmt: skip
        typed("power", option, value, code=2)
    assert len(calls) == 2


@pytest.mark.slow
def test_diff_against_a_revision(tmp_path: Path) -> None:
    from tests.end_to_end.clone import make_clone

    clone = make_clone(tmp_path / "clone", "quickstart")
    clone.run("git", "add", "-A")
    clone.run("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "compiled")
    assert "no difference" in clone.qualm("diff").stdout
    spec = clone.root / "specs/quickstart.yaml"
    spec.write_text(spec.read_text().replace("examples: 48", "examples: 12"))
    found = json.loads(clone.qualm("diff", "HEAD", "--json").stdout)
    assert {"stage": "report", "change": "parameter examples: 48 -> 12"} in found["parameters"]
    assert any(line.startswith("+report") for line in found["spec_diff"])
    for words in (["quickstart"], ["quickstart", "HEAD"], [str(spec), "HEAD"]):
        assert json.loads(clone.qualm("diff", *words, "--json").stdout) == found, words
    assert clone.qualm("diff", "no-such-revision", check=False).returncode == 2
