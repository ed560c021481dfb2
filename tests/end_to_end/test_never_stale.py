"""Whatever starts a pipeline, its results belong to the spec and params.yaml as they stand, or it stops and says what to type."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from qualm.registry.system.dvc_files import read_lock
from tests.end_to_end.clone import Clone, executed, make_clone

pytestmark = pytest.mark.slow

PARENT = """\
qualm: 1
name: parent
datasets:
  scenes: {card: synthetic_scenes, level: easy, format: open, test: 6}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
inference: {max_new_tokens: 4}
judges: [rules]
estimators: [perplexity]
compare: {interval: {bootstrap: 20}}
"""
SPEC = """\
extends: parent.yaml
name: mini
metrics:
  - accuracy
  - ece: {bins: 15}
"""
PARAMS = "default: mini\nseed: 7\nlimit: null\n"
AFTER_DATA = {"data-scenes", "infer-base-scenes", "judge", "estimate", "score", "report"}
AGAIN = "it is compiled now, run the same command again"

Edit = Callable[[Clone], None]


def replaced(name: str, old: str, new: str) -> Edit:
    def edit(clone: Clone) -> None:
        text = (clone.root / name).read_text()
        assert old in text
        (clone.root / name).write_text(text.replace(old, new))

    return edit


EDITS: dict[str, tuple[Edit, str, set[str]]] = {
    "a metric's parameter": (replaced("specs/mini.yaml", "bins: 15", "bins: 7"), "", {"score", "report"}),
    "a comment": (replaced("specs/mini.yaml", "metrics:", "metrics:  # two"), "", set()),
    "the parent": (replaced("specs/parent.yaml", "max_new_tokens: 4", "max_new_tokens: 3"), "", AFTER_DATA - {"data-scenes"}),
    "params.yaml": (replaced("params.yaml", "limit: null", "limit: 4"), "", AFTER_DATA),
    "a plugin's default": (
        replaced("runners/plugins/metrics/ece.py", '"netcal"] = "torchmetrics"', '"netcal"] = "guo"'), "", {"score", "report"},
    ),
    "an estimator": (replaced("specs/parent.yaml", "[perplexity]", "[max_sequence_probability]"), "changed: estimate", {"estimate"}),
    "a model": (
        replaced("specs/parent.yaml", "models:\n", "models:\n  other: {hf_vlm: {artifact: scene-vlm-base, dtype: float64}}\n"),
        "new: infer-other-scenes",
        {"infer-other-scenes", "score"},
    ),
}  # fmt: skip
"""What is edited -> how, what the sentence names where the run stops, and stages that run at least, exactly where it does not stop."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    clone = make_clone(tmp_path_factory.mktemp("stale") / "clone", text=PARENT.replace("parent", "mini"), forked=True)
    (clone.root / "specs/parent.yaml").write_text(PARENT)
    clone.spec.write_text(SPEC)
    (clone.root / "params.yaml").write_text(PARAMS)
    clone.qualm("compile")
    assert clone.repro() == AFTER_DATA
    clone.run("git", "config", "user.name", "test")
    clone.run("git", "config", "user.email", "test@example.org")
    clone.commit("finished")
    return clone


@pytest.fixture
def clone(finished: Clone, tmp_path: Path) -> Clone:
    return finished.copy(tmp_path / "clone")


def is_in_step(clone: Clone) -> bool:
    """Whether the lock is of the spec as it stands, and all results are of the lock."""
    stands = set(clone.forecast().values()) == {"unchanged"} and clone.qualm("compile", "--check").returncode == 0
    return stands and clone.dvc("status").stdout.strip() == "Data and pipelines are up to date."


@pytest.mark.parametrize("command", [("repro",), ("exp", "run", "--name", "tried")], ids=["repro", "exp run"])
@pytest.mark.parametrize("name", EDITS)
def test_results_are_of_the_spec_as_it_stands(clone: Clone, name: str, command: tuple[str, ...]) -> None:
    edit, sentence, stages = EDITS[name]
    edit(clone)
    edited = {file: (clone.root / file).read_text() for file in ("specs/mini.yaml", "specs/parent.yaml", "params.yaml")}
    done = clone.dvc(*command, check=not sentence)
    if sentence:
        assert done.returncode != 0 and executed(done.stdout) == set()
        (said,) = [line for line in done.stdout.splitlines() if line.startswith("qualm: ")]
        assert said.startswith("qualm: dvc.yaml changed (") and sentence in said and said.endswith(AGAIN)
        done = clone.dvc(*command)
    assert executed(done.stdout) >= stages if sentence else executed(done.stdout) == stages
    assert is_in_step(clone)
    if command[0] == "exp":
        refs = clone.run("git", "for-each-ref", "--format=%(objectname) %(refname)", "refs/exps").stdout.splitlines()
        (commit,) = [line.split()[0] for line in refs if line.endswith("/tried")]
        assert {file: clone.run("git", "show", f"{commit}:{file}").stdout for file in edited} == edited


def test_a_value_that_was_set_in_a_compiled_file_is_put_right(clone: Clone) -> None:
    replaced("specs/mini/stages/score.json", '"bins": 15', '"bins": 3')(clone)
    done = clone.dvc("repro")
    assert "specs/mini/stages/score.json: written from specs/mini.yaml" in done.stdout and executed(done.stdout) == set()
    assert is_in_step(clone)


def test_mistakes_are_said_as_validate_does(clone: Clone) -> None:
    replaced("specs/mini.yaml", "bins: 15", "bns: 15")(clone)
    done = clone.dvc("repro", check=False)
    assert done.returncode != 0 and executed(done.stdout) == set()
    assert "specs/mini.yaml:5:" in done.stderr and "did you mean 'bins'?" in done.stderr and "1 problem\n" in done.stderr


def test_experiments(clone: Clone) -> None:
    """One that is set on the command line, two from the queue, and one of the queue that would change the pipeline."""
    done = clone.dvc("exp", "run", "-S", "limit=4", "-n", "four")
    assert executed(done.stdout) == AFTER_DATA and is_in_step(clone)
    assert json.loads(clone.dvc("params", "diff", "--json").stdout)["params.yaml"]["limit"]["new"] == 4
    assert "results/mini/metrics.json" in json.loads(clone.dvc("metrics", "diff", "--json", "--all").stdout)
    clone.run("git", "checkout", "-q", ".")
    clone.dvc("checkout", "-q")
    clone.dvc("exp", "run", "--queue", "-S", "limit=3")
    clone.dvc("exp", "run", "--queue", "-S", "specs/mini.yaml:metrics.1.ece.bins=5", "-n", "five")
    clone.dvc("exp", "run", "--queue", "-S", "specs/parent.yaml:estimators=[max_sequence_probability]", "-n", "other")
    clone.dvc("exp", "run", "--run-all", check=False)
    assert clone.run("git", "status", "--porcelain").stdout == ""
    words = [line.split() for line in clone.dvc("queue", "status").stdout.splitlines()]
    assert sorted(line[-1] for line in words if line[-1:] in (["Success"], ["Failed"])) == ["Failed", "Success", "Success"]
    said = clone.dvc("queue", "logs", "other").stdout
    assert "make the same change in your workspace, run `qualm compile mini`, commit, and queue the experiment again" in said
    rows = list(csv.DictReader(io.StringIO(clone.dvc("exp", "show", "--csv").stdout)))
    assert {"3", "4"} <= {row["limit"] for row in rows}
    clone.dvc("exp", "apply", "five")
    assert json.loads((clone.root / "specs/mini/stages/score.json").read_text())["params"]["metrics"]["ece"]["args"]["bins"] == 5
    assert is_in_step(clone)
    found = json.loads(clone.dvc("exp", "diff", "HEAD", "four", "--json").stdout)["params"]
    assert found["params.yaml"]["limit"]["new"] == 4


def test_a_clean_clone_says_what_to_type_before_anything_runs(finished: Clone, tmp_path: Path) -> None:
    clone = finished.clone(tmp_path / "clone")
    for command in (["metrics", "show"], ["plots", "show"]):
        shown = clone.dvc(*command)
        assert "failed" not in (shown.stdout + shown.stderr).lower()
    done = clone.dvc("repro", check=False)
    assert done.returncode != 0 and executed(done.stdout) == set()
    assert "qualm: registry/data/scene-vlm-base: not in the workspace; `dvc pull registry/data/scene-vlm-base.dvc`" in done.stdout
    clone.dvc("pull", "registry/data/scene-vlm-base.dvc")
    assert clone.repro() == AFTER_DATA
    assert {name: entry["outs"] for name, entry in read_lock(clone.root / "dvc.lock").items() if name != "spec"} == {
        name: entry["outs"] for name, entry in read_lock(finished.root / "dvc.lock").items() if name != "spec"
    }


def test_data_that_nobody_added_and_stages_that_do_not_read_it(finished: Clone, tmp_path: Path) -> None:
    clone = finished.clone(tmp_path / "clone")
    for file in (clone.root / "registry/data").glob("*.dvc"):
        file.unlink()
    done = clone.dvc("repro", check=False)
    assert "qualm: registry/data/scene-vlm-base: not here; `qualm fetch" in done.stdout
    assert executed(done.stdout) == set()
    assert Clone(clone.root).repro("data-scenes") == {"data-scenes"}, "no fork: the command line of DVC itself is looked at"
