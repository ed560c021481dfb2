"""`qualm show --how`: the facts of the report's last section, and the commit of the last run here."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from qualm.compiler.commands.main import app
from qualm.compiler.project.checkout import Project
from qualm.compiler.results.run_facts import run_facts
from qualm.runners.runtime.stamp import write_stamp
from tests.support.projects.finished_project import finished_project, git


@pytest.mark.slow
def test_what_every_report_says(tmp_path: Path) -> None:
    project = finished_project(tmp_path / "project")
    found = run_facts(project, "mini")
    assert found["facts"]["Intervals"] == "95% intervals from 1,000 bootstrap resamples of whole groups"
    assert found["facts"]["Decoding"] == "greedy, at most 16 new tokens; no sampled answers"
    assert found["facts"]["Spec digest"] == project.plan("mini").stage("report").params["spec_sha256"]
    (model,) = found["models"]
    assert (model["model"], model["files"], model["dtype"]) == ("base", "registry/data/scene-vlm-base", "float32")
    assert model["digest"].startswith("md5 ") and model["digest"][4:] in (project.root / "registry/data/scene-vlm-base.dvc").read_text()
    (data,) = found["data"]
    assert (data["dataset"], data["source"], data["licence"]) == ("scenes", "synthetic_scenes", "CC0-1.0")
    assert found["facts"]["Judge rules"] == "rules (match: stated, tolerance: 0.0)" and "max-T" in found["facts"]["Rankings"]
    assert found["run"] is None and found["stages"] == {} and found["spent"] == {"settled": 0.0, "open": 0.0}
    record = project.root / ".qualm/runs/mini/judge.json"
    record.parent.mkdir(parents=True)
    record.write_text('{"seconds": 1.5, "ended": "2026-11-23", "processor": "x"}')
    assert run_facts(project, "mini")["stages"] == {"judge": {"seconds": 1.5, "ended": "2026-11-23", "processor": "x"}}
    write_stamp("mini", project.root)
    run = run_facts(project, "mini")["run"]
    assert run is not None and run["git"] == git(project.root, "rev-parse", "HEAD").strip() and run["git_dirty"] is False
    assert git(project.root, "status", "--porcelain") == ""


@pytest.mark.slow
def test_in_the_terminal_and_as_json() -> None:
    printed = CliRunner().invoke(app, ["show", "quickstart", "--how"], catch_exceptions=False)
    assert (
        printed.exit_code == 0 and "top_p 1" in printed.output and "Git commit" in printed.output and "Spent on servers" in printed.output
    )
    told = CliRunner().invoke(app, ["show", "quickstart", "--how", "--json"], catch_exceptions=False)
    assert json.loads(told.output) == run_facts(Project(), "quickstart")
