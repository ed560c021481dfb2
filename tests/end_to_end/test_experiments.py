"""DVC's experiments over compiled pipelines, the default one and a nested one: run, queued, shown, compared question by question."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.end_to_end.clone import Clone, executed, make_clone
from tests.end_to_end.test_remotes import SPEC

pytestmark = [pytest.mark.remotes, pytest.mark.slow]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    made = make_clone(tmp_path_factory.mktemp("experiments") / "clone", text=SPEC)
    (made.root / "specs/nested.yaml").write_text(SPEC.replace("name: mini", "name: nested"))
    made.qualm("compile", "nested")
    made.repro()
    made.repro("specs/nested/dvc.yaml")
    made.commit("both")
    return made


def back(clone: Clone) -> None:
    clone.run("git", "checkout", "-q", ".")
    clone.dvc("checkout", "-q")


def test_one_parameter(clone: Clone) -> None:
    said = clone.dvc("exp", "run", "-S", "specs/mini.yaml:metrics.1.ece.bins=5", "--name", "fewer").stdout
    assert executed(said) == {"score", "report"}
    back(clone)
    found = json.loads(clone.dvc("exp", "diff", "HEAD", "fewer", "--json").stdout)
    assert found["params"]["specs/mini/stages/score.json"] == {"params.metrics.ece.args.bins": {"old": 15, "new": 5, "diff": -10}}
    change = json.loads(clone.qualm("diff", "fewer", "--json").stdout)["parameters"]
    assert [c["change"] for c in change if c["stage"] == "score"] == ["parameter metrics.ece.args.bins: 5 -> 15"]
    (tried,) = json.loads(clone.qualm("experiments", "--json").stdout)
    assert tried["name"] == "fewer"
    assert {(c["stage"], c["change"]) for c in tried["parameters"]} == {
        (stage, "parameter metrics.ece.args.bins: 15 -> 5") for stage in ("score", "report")
    }
    clone.dvc("exp", "apply", "fewer")
    applied = json.loads(clone.qualm("diff", "--json").stdout)
    assert applied["parameters"] == tried["parameters"]
    assert applied["results"] == tried["results"]  # nothing: where every answer is right, bins make no difference
    back(clone)


def test_a_nested_pipeline_is_compared_question_by_question(clone: Clone) -> None:
    said = clone.dvc(
        "exp", "run", "specs/nested/dvc.yaml", "-S", "specs/nested.yaml:datasets.scenes.test=9", "--name", "more"
    ).stdout  # fmt: skip
    assert {"data-scenes", "infer-base-scenes"} <= executed(said)
    back(clone)
    found = json.loads(clone.qualm("compare", "nested", "more:nested", "--json").stdout)
    assert found["paired"] and {d["n"] for d in found["differences"]} == {6}
    assert any("3 questions are not the same on both sides" in note for note in found["notes"])
    tried = next(e for e in json.loads(clone.qualm("experiments", "nested", "--json").stdout) if e["name"] == "more")
    clone.dvc("exp", "apply", "more")
    applied = json.loads(clone.qualm("diff", "nested", "--json").stdout)
    assert [{key: row[key] for key in tried["results"][0]} for row in applied["results"]] == tried["results"]  # beside the paired tests
    assert {r["metric"] for r in applied["results"]} == {"accuracy", "ece"}
    back(clone)


def test_a_queue(clone: Clone) -> None:
    clone.dvc("exp", "run", "--queue", "-S", "specs/mini.yaml:metrics.1.ece.bins=3,4")
    clone.dvc("exp", "run", "--run-all")
    rows = list(csv.DictReader(io.StringIO(clone.dvc("exp", "show", "--csv", "--only-changed").stdout)))
    tried = {row["specs/mini/stages/score.json:params.metrics.ece.args.bins"] for row in rows if row["State"] == "Success"}
    assert {"3", "4"} <= tried
    assert clone.run("git", "status", "--porcelain").stdout == ""
