"""`qualm judges`, and labels in a spec."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.plan.plan import Plan
from qualm.compiler.results.judges import show
from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file

ROOT = Path(__file__).resolve().parents[3]
SPEC = """\
qualm: 1
name: t
datasets: {scenes: {card: synthetic_scenes, test: 10}}
models: {base: {hf_vlm: {artifact: scene-vlm-base}}}
judges: [rules]
judging: {labels: our-labels}
metrics: [accuracy]
"""


def make(tmp_path: Path, text: str = SPEC) -> Plan:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    return make_plan(resolve_file(path, tmp_path, RunWide(default="t")))


def test_whose_ratings_are_scored(tmp_path: Path) -> None:
    """The first judge of each kind as the spec has them, whatever their names: the stage gets them sorted."""
    three = SPEC.replace("judging: {labels: our-labels}\n", "").replace("judges: [rules]", "judges: [option_match, rules, first_character]")
    three = three.replace("test: 10}}", "test: 10}, own: {card: synthetic_scenes, test: 9, judges: [first_character, option_match]}}")
    found = make(tmp_path, three).stage("score").params
    assert found["judge_of_choices"] == {"scenes": "option_match", "own": "first_character"}
    assert (found["judge"], found["judge_of"]) == ("rules", {"own": "first_character"})
    assert make(tmp_path).stage("score").params["judge_of_choices"] == {"scenes": "rules"}, "it reads both kinds"
    only = SPEC.replace("judging: {labels: our-labels}\n", "").replace("judges: [rules]", "judges: [exact_match]")
    assert "judge_of_choices" not in make(tmp_path, only).stage("score").params


def test_labels_are_an_input_and_their_table_an_output_in_git(tmp_path: Path) -> None:
    plan = make(tmp_path)
    stage = plan.stage("judge")
    assert "registry/data/our-labels" in stage.deps
    assert stage.outputs["judging"] == "results/t/judging.json"
    assert "judging" in stage.kept_in_git
    assert "results/t/judging.json" not in plan.stage("score").deps
    assert "results/t/judging.json" in plan.stage("report").deps
    assert "judging" not in make(tmp_path, SPEC.replace("judging: {labels: our-labels}\n", "")).stage("judge").outputs


def test_scores_depend_on_labels_only_if_a_metric_reads_them(tmp_path: Path) -> None:
    assert "registry/data/our-labels" not in make(tmp_path).stage("score").deps
    plan = make(tmp_path, SPEC.replace("[accuracy]", "[{corrected_accuracy: {method: [ppi, rogan_gladen]}}]"))
    score = plan.stage("score")
    assert score.inputs["labels"] == "registry/data/our-labels" and "registry/data/our-labels" in score.deps
    labels = ["accuracy", "corrected_accuracy@method=ppi", "corrected_accuracy@method=rogan_gladen", "judge_agreement"]
    assert [m["label"] for m in score.params["metrics"]] == labels, "the raw value stands beside it"


def test_corrected_accuracy_without_labels(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        make(tmp_path, SPEC.replace("judging: {labels: our-labels}\n", "").replace("[accuracy]", "[corrected_accuracy]"))
    (problem,) = map(str, caught.value.problems)
    assert "corrected_accuracy reads people's ratings of answers, and this spec names none (add `judging: {labels: ENTRY}`;" in problem


def test_labels_without_a_judge(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        make(tmp_path, SPEC.replace("judges: [rules]\n", ""))
    assert any("expected a judge to hold to these labels, found none (add `judges:`)" in str(p) for p in caught.value.problems)


def test_the_table_leaves_out_what_is_undefined(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    refusals = {"accuracy": 0.975, "low": 0.9, "high": 0.99, "missed": 2, "imagined": 1}
    none = dict.fromkeys(("accuracy", "low", "high"))
    shares = {"sensitivity": {"n": 20, "share": 0.95}, "specificity": {"n": 0, "share": None}}
    ratings = {"n": 30, "tau_b": 0.51239, "low": 0.31, "high": 0.7149, "p": 0.00012}
    show(
        {
            "rules": {"n": 40, "unread": 3, "refusals": refusals, "ratings": ratings} | shares,
            "lave": {"n": 7, "unread": 0, "refusals": refusals | none, "ratings": dict.fromkeys(ratings) | {"n": 0}} | shares,
        }
    )
    _, rules, lave = (line.split() for line in capsys.readouterr().out.splitlines())
    tau, agreed = ["0.5124", "(0.31", "to", "0.71)", "0.00012"], ["95.0%", "of", "20", "undefined"]
    assert rules == ["rules", "40", "3", "97.5%", "(90.0%", "to", "99.0%)", "2", "1", "30", *tau, *agreed]
    assert lave == ["lave", "7", "0", "undefined", "2", "1", "0", "undefined", *agreed]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "120", "QUALM_PROGRESS": "0"}
    return subprocess.run([sys.executable, "-m", "qualm", "judges", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_the_command() -> None:
    table = run("quickstart", "--labels", "tests/data/refusals.csv")
    assert table.returncode == 0
    assert "rules" in table.stdout
    assert "%" in table.stdout
    found = json.loads(run("quickstart", "--labels", "tests/data/refusals.csv", "--json").stdout)
    assert found["rules"]["refusals"]["accuracy"] > 0.97
    missing = run("quickstart")
    assert missing.returncode == 2
    assert "name labelled answers by --labels FILE, or in the spec" in missing.stderr
