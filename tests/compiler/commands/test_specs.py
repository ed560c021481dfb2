"""What a spec can name is listed, explained and told to editors; a new one is valid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from qualm.compiler.commands.main import app
from qualm.compiler.project.shipped import shipped
from qualm.compiler.spec.json_schema import schema_text
from qualm.registry.plugins.registry import ROOT
from tests.support.processes.command_line import qualm
from tests.support.projects.calibration_project import calibration_project


def test_plugins_are_listed_and_explained() -> None:
    listed = json.loads(qualm("ls", "metrics", "--json").stdout)
    assert {"ece", "accuracy", "auroc"} <= {p["name"] for p in listed}
    assert all(p["help"] for p in listed), "every plugin has help"
    text = qualm("ls", "metrics", "ece").stdout
    assert "  bins: " in text
    assert "higher_is_better" in text
    missing = qualm("ls", "metrics", "ecee")
    assert missing.returncode == 2
    assert "did you mean 'ece'?" in missing.stderr


@pytest.mark.slow
def test_schema_knows_plugins_and_their_parameters() -> None:
    import jsonschema
    import yaml

    schema = json.loads(qualm("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for path in sorted((ROOT / "specs").glob("*.yaml")):
        errors = [e.message for e in validator.iter_errors(yaml.safe_load(path.read_text()))]
        assert not errors, (path.name, errors)
    good = yaml.safe_load((ROOT / "specs/quickstart.yaml").read_text())
    assert list(validator.iter_errors({**good, "metrics": [{"ece": {"bins": "many"}}]}))
    assert list(validator.iter_errors({**good, "metrics": ["no_such_metric"]}))
    assert list(validator.iter_errors({**good, "models": {"m": {"hf_vml": {}}}}))


@pytest.mark.slow
def test_new_writes_a_valid_spec(tmp_path: Path) -> None:
    from tests.end_to_end.clone import make_clone

    clone = make_clone(tmp_path / "clone", "quickstart")
    for arguments in (["fresh"], ["variant", "--extends", "quickstart"]):
        assert "qualm validate" in clone.qualm("new", *arguments).stdout
        assert json.loads(clone.qualm("validate", arguments[0], "--json").stdout)["ok"]
    assert clone.qualm("new", "fresh", check=False).returncode == 2
    assert clone.qualm("new", "../x", check=False).returncode == 2


def test_what_a_deleted_spec_left_is_listed_and_removed_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(calibration_project(tmp_path, tmp_path / "no-model", samples=4).root)
    invoke = CliRunner().invoke
    assert invoke(app, ["compile"]).exit_code == 0
    assert "specs/s.yaml still exists" in str(invoke(app, ["clean", "s"]).exception)
    (tmp_path / "specs/s.yaml").unlink()
    listed = invoke(app, ["clean", "s"]).stdout
    assert "would remove: specs/s/\n" in listed and "`qualm clean s --yes` removes this" in listed and (tmp_path / "specs/s").exists()
    assert "removed: specs/s/\n" in invoke(app, ["clean", "s", "--yes"]).stdout and not (tmp_path / "specs/s").exists()
    for name in ("s", "../s"):
        assert f"nothing is left of '{name}' here" in str(invoke(app, ["clean", name]).exception)


def test_shipped_specs_are_listed_in_columns_and_a_schema_is_json() -> None:
    listed = CliRunner().invoke(app, ["new", "--list"]).stdout.splitlines()
    assert len(listed) == len(shipped()) and len({line.index(title) for line, title in zip(listed, shipped().values(), strict=True)}) == 1
    printed = CliRunner().invoke(app, ["schema"]).stdout
    assert printed == schema_text() and json.loads(printed)["properties"].keys() >= {"datasets", "models"}
