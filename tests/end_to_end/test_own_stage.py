"""A kind of stage of one's own, in one file: compiled, planned, drawn, listed, shown and executed, with no edit elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from qualm.registry.plugins.rule import ROOT
from qualm.registry.sample import SCORES
from qualm.runners.runtime.records import write_table

SUMMARISE = '''
"""The metrics on which a model is best."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from qualm.registry.sample import SCORES
from qualm.runners.contracts.stages import StageKind
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.stage import Stage

KIND = StageKind(
    title="Summary by {stage}",
    reads=("scores",),
    writes={"summary": "{stage}.parquet"},
    shows={"summary": "Best, {stage}"},
    colour="#1f77b4",
)
SUMMARY = pa.schema([("model", pa.string()), ("best", pa.float64())])


def summarise(stage: Stage, *, metric: str = "accuracy") -> None:
    """The best score of each model by one metric."""
    rows = [row for row in read_table(Path(stage.inputs["scores"]), SCORES).to_pylist() if row["metric"] == metric]
    best = {row["model"]: max(r["value"] for r in rows if r["model"] == row["model"]) for row in rows}
    made = stage.scratch / "summary.parquet"
    write_table(made, [{"model": model, "best": value} for model, value in best.items()], SUMMARY, stage.provenance)
    stage.count(models=len(best))
    stage.publish(made, stage.outputs["summary"])
'''
SPEC = """\
qualm: 1
name: t
datasets:
  scenes: {card: synthetic_scenes, test: 6}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
judges: [rules]
metrics: [accuracy, f1_idk]
stages:
  - summarise: {metric: [accuracy, f1_idk]}
"""


class Project:
    """A project with one spec and one kind of stage: a file of its own, or of a package that is installed beside Qualm."""

    def __init__(self, folder: Path, packaged: bool = False) -> None:
        self.root, self.packages = folder / "project", folder / "packages"
        kind = (self.packages / "acme" if packaged else self.root / "runners/plugins/stages") / "summarise.py"
        for place in (self.root / "specs", kind.parent, self.packages / "acme-1.0.dist-info"):
            place.mkdir(parents=True)
        kind.write_text(SUMMARISE)
        if packaged:
            (kind.parent / "__init__.py").touch()
            (self.packages / "acme-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
            (self.packages / "acme-1.0.dist-info/entry_points.txt").write_text("[qualm.stages]\nsummarise = acme.summarise\n")
        (self.root / "params.yaml").write_text("default: t\nseed: 7\n")
        (self.root / "specs/t.yaml").write_text(SPEC)
        self.qualm("compile")

    @property
    def stages(self) -> dict[str, Any]:
        """Those of dvc.yaml."""
        stages: dict[str, Any] = yaml.safe_load((self.root / "dvc.yaml").read_text())["stages"]
        return stages

    def execute(self) -> list[dict[str, Any]]:
        """Run one of its stages on scores made up; the rows of its table."""
        same = {
            "model": "base",
            "dataset": "scenes",
            "variant": "clean",
            "slice": "all",
            "low": None,
            "high": None,
            "n": 6,
            "n_unscored": 0,
        }
        rows = [{**same, "metric": "accuracy", "value": 0.25}, {**same, "metric": "f1_idk", "value": 0.75}]
        write_table(self.root / "results/t/scores.parquet", rows, SCORES)
        done = self.run("qualm.runners", "t/summarise-metric-f1_idk")
        assert done.returncode == 0 and done.stdout.startswith("t/summarise-metric-f1_idk: 1 models ("), done.stdout + done.stderr
        found: list[dict[str, Any]] = pq.read_table(self.root / "results/t/summarise-metric-f1_idk.parquet").to_pylist()
        return found

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": f"{self.packages}{os.pathsep}{ROOT}", "COLUMNS": "120"}
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)

    def qualm(self, *arguments: str) -> str:
        done = self.run("qualm", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("own_stage"))


def test_it_is_compiled(project: Project) -> None:
    stages = project.stages
    own = stages["summarise-metric-accuracy"]
    assert own["cmd"] == "python3 -m qualm.runners t/summarise-metric-accuracy"
    assert own["desc"] == "Summary by summarise@metric=accuracy"
    assert own["outs"] == ["results/t/summarise-metric-accuracy.parquet"]
    assert {"results/t/scores.parquet", "runners/plugins/stages/summarise.py"} <= set(own["deps"])
    report = json.loads((project.root / "specs/t/stages/report.json").read_text())
    assert report["params"]["shown"]["summarise-metric-f1_idk"] == {"summary": "Best, summarise@metric=f1_idk"}
    assert report["inputs"]["shown"]["summarise-metric-f1_idk"] == {"summary": "results/t/summarise-metric-f1_idk.parquet"}
    assert "summarise-metric-f1_idk" in stages, "two points of a sweep are two stages"
    assert "/summarise-metric-accuracy.parquet" in (project.root / "results/t/.gitignore").read_text().splitlines()


def test_it_is_planned(project: Project) -> None:
    forecasts = {f["stage"]: f for f in json.loads(project.qualm("plan", "--json"))}
    own = forecasts["summarise-metric-accuracy"]
    assert own["kind"] == "summarise" and own["reasons"]


def test_it_is_drawn(project: Project) -> None:
    dot = project.qualm("graph", "--format", "dot")
    assert '"summarise" [label="summarise x 2", fillcolor="#1f77b4"]' in dot
    assert '"score" -> "summarise"' in dot


def test_it_is_listed(project: Project) -> None:
    listed = project.qualm("ls", "stages")
    assert "built in: abstain, assemble" in listed and "The best score of each model by one metric." in listed and "takes: metric" in listed
    explained = project.qualm("ls", "stages", "summarise")
    assert "- summarise: {metric: accuracy}" in explained and "Summary by {stage}" in explained


def test_it_is_executed(project: Project) -> None:
    assert project.execute() == [{"model": "base", "best": 0.75}]


@pytest.mark.slow
def test_it_may_come_from_another_package(tmp_path: Path) -> None:
    project = Project(tmp_path, packaged=True)
    assert project.stages["summarise-metric-f1_idk"]["desc"] == "Summary by summarise@metric=f1_idk"
    assert project.execute() == [{"model": "base", "best": 0.75}]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("stages:", "stags:", "did you mean 'stages'?"),
        ("metric:", "metrc:", "summarise has no parameter 'metrc'"),
        ("summarise:", "summarize:", "no stages plugin named 'summarize'; did you mean 'summarise'?"),
        ("metrics: [accuracy, f1_idk]\n", "", "stage 'summarise@metric=accuracy' reads 'scores', which nothing in this spec writes"),
    ],
)
def test_a_mistake_is_met_before_anything_runs(project: Project, old: str, new: str, message: str) -> None:
    wrong = project.root / "specs/wrong.yaml"
    wrong.write_text(SPEC.replace("name: t", "name: wrong").replace(old, new, 1))
    try:
        done = project.run("qualm", "validate", "wrong")
    finally:
        wrong.unlink()
    assert done.returncode == 2 and message in done.stderr, done.stderr
