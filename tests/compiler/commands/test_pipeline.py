"""Checking and compiling from the command line: exit codes, JSON for machines, no traceback whatever the input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from qualm.compiler.commands.main import app
from tests.compiler.project.test_text_prices import SPEC as PAIRED
from tests.support.processes.command_line import qualm
from tests.support.projects.calibration_project import calibration_project


def test_a_valid_spec_as_json() -> None:
    done = qualm("validate", "quickstart", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["ok"]


def test_what_a_spec_has_is_counted_data_sets_with_pair_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "params.yaml").write_text("default: t\n")
    (tmp_path / "specs/t.yaml").write_text(PAIRED + "perturbations: [blur: {radius: [1, 2]}]\n")
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, ["validate", "t"], catch_exceptions=False).stdout
    assert said.startswith("t: valid (2 datasets, 1 model, 3 variants, 0 estimators, 1 metric, ")


@pytest.mark.slow
def test_compiled_files_are_in_step() -> None:
    done = qualm("compile", "--check")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\x01\x02", b"caf\xe9: 1", b"a: [1, 2", b"- just\n- a list\n", b"text", b"a:\n\t- b\n", b"x: &a [*a]", b"{}", b"qualm: 1\n"],
)
def test_bad_files_give_one_message_and_exit_2(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    done = qualm("validate", str(path))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert f"{path}:" in done.stderr or "bad.yaml:" in done.stderr


def test_problems_as_json(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("qualm: 1\nname: bad\ndatasets: {a: {card: synthetic_scenes, tets: 1}}\n")
    done = qualm("validate", str(path), "--json")
    assert done.returncode == 2
    (problem,) = json.loads(done.stdout)["problems"]
    assert (problem["line"], problem["path"], problem["hint"]) == (3, "datasets.a.tets", "did you mean 'test'?")


def test_an_unknown_spec_names_the_nearest() -> None:
    done = qualm("plan", "quikstart")
    assert done.returncode == 2
    assert "did you mean 'quickstart'?" in done.stderr


def test_a_plan_reckons_with_so_many_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the option, else of the setting; only where one of the options is there is anything said of it."""
    calls: list[int] = []

    class Reckoned:
        def as_json(self) -> dict[str, int]:
            return {"jobs": calls[-1]}

    def reckoned(*arguments: object) -> Reckoned:
        *_, jobs, cluster = arguments
        assert isinstance(jobs, int) and (cluster is None) is (jobs == 3)
        calls.append(jobs)
        return Reckoned()

    monkeypatch.setattr("qualm.compiler.project.parallel.forecast_parallel", reckoned)
    monkeypatch.setattr("qualm.compiler.run.cluster.cluster_resources", lambda on, settings: {"CPU": 8.0})
    monkeypatch.setattr("qualm.compiler.project.needs.is_installed", lambda extra: True)
    monkeypatch.chdir(calibration_project(tmp_path, tmp_path / "no-model", samples=4).root)
    (tmp_path / "qualm.toml").write_text("jobs = 5\n")
    plain, three, cluster = (
        json.loads(CliRunner().invoke(app, ["plan", "s", "--json", *more]).stdout) for more in ([], ["-j", "3"], ["--on", "local"])
    )
    assert calls == [3, 5] and isinstance(plain, list)
    assert three == {"stages": plain, "together": {"jobs": 3}} and cluster == {"stages": plain, "together": {"jobs": 5}}


@pytest.mark.slow
def test_check_writes_nothing_and_an_option_in_the_place_of_a_spec_goes_to_dvc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(*arguments: object) -> int:
        calls.append(arguments[1:])
        return 3

    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr("qualm.compiler.run.run.run_pipeline", kept)
    monkeypatch.chdir(calibration_project(tmp_path, tmp_path / "no-model", samples=4).root)
    invoke, command = CliRunner().invoke, ["compile", "--check"]
    assert invoke(app, command).exit_code == 1 and not (tmp_path / "dvc.yaml").exists()
    assert invoke(app, command[:1]).exit_code == 0 and (tmp_path / "dvc.yaml").exists()
    assert invoke(app, command).exit_code == 0
    assert [invoke(app, ["run", *more]).exit_code for more in (["--force"], ["s", "--force"], ["-v"], ["--no-pull"])] == [3] * 4
    plain = (False, None, None, True, None)
    assert calls == [
        (None, ["--force"], *plain), ("s", ["--force"], *plain), (None, [], True, *plain[1:]), (None, [], *plain[:3], False, None),
    ]  # fmt: skip


def test_several_specs_run_in_order_until_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, list[str]]] = []

    def record_run(project: object, spec: str, arguments: list[str], *options: object) -> int:
        ran.append((spec, arguments))
        return int(spec == "second")

    monkeypatch.setattr("qualm.compiler.run.run.run_pipeline", record_run)
    monkeypatch.chdir(calibration_project(tmp_path, tmp_path / "no-model", samples=4).root)
    for name in ("second", "third"):
        (tmp_path / f"specs/{name}.yaml").write_text((tmp_path / "specs/s.yaml").read_text().replace("name: s\n", f"name: {name}\n"))
    assert CliRunner().invoke(app, ["run", "s", "second", "third", "--force"]).exit_code == 1
    assert ran == [("s", ["--force"]), ("second", ["--force"])]
    assert qualm("run", "third", "secnd", cwd=tmp_path).returncode == 2 and len(ran) == 2  # the mistake is found before anything runs
