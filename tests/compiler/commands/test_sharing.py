"""`qualm export` and `qualm share` as they are typed: which word is the spec, which the folder or the remote."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from qualm.compiler.commands.main import app
from qualm.compiler.run import export, share
from qualm.compiler.run.export import ExportRequest
from qualm.compiler.run.share import ShareRequest
from qualm.compiler.spec.errors import ProjectError

run = CliRunner()


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "specs").mkdir()
    (tmp_path / "params.yaml").write_text("default: mine\n")
    for name in ("mine", "other"):
        (tmp_path / f"specs/{name}.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> list[ExportRequest]:
    requests: list[ExportRequest] = []
    monkeypatch.setattr(export, "export_results", lambda project, request: requests.append(request) or True)
    return requests


@pytest.mark.parametrize(
    ("words", "spec", "out"),
    [
        (["out"], "mine", "out"),
        (["other", "out"], "other", "out"),
        (["x.yaml", "out"], "x.yaml", "out"),
        (["other", "mine"], "other", "mine"),
    ],
)
def test_spec_and_folder_of_an_export(exported: list[ExportRequest], words: list[str], spec: str, out: str) -> None:
    done = run.invoke(app, ["export", *words, "--to", "hf"])
    assert done.exit_code == 0, done.output
    assert exported == [ExportRequest(spec, Path(out), "hf", None, None, None, [], False)]


def test_options_of_an_export(exported: list[ExportRequest]) -> None:
    words = [
        "export",
        "other",
        "out",
        "--to",
        "inspect",
        "-m",
        "a",
        "-m",
        "b",
        "-d",
        "d",
        "--variant",
        "clean",
        "-O",
        "form=json",
        "--force",
    ]
    assert run.invoke(app, words).exit_code == 0
    assert exported == [ExportRequest("other", Path("out"), "inspect", ["a", "b"], ["d"], ["clean"], ["form=json"], True)]


@pytest.mark.parametrize("words", [[], ["other"], ["out"], ["other", "out"], ["--to", "hf"], ["other", "--to", "hf"]])
def test_an_export_that_lacks_something(exported: list[ExportRequest], words: list[str]) -> None:
    done = run.invoke(app, ["export", *words])
    assert isinstance(done.exception, ProjectError) and exported == []
    assert str(done.exception).startswith("expected [SPEC] OUT --to FORMAT, such as `qualm export out --to inspect`")


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ShareRequest, bool]]:
    requests: list[tuple[ShareRequest, bool]] = []
    monkeypatch.setattr(share, "share", lambda project, request, as_json: requests.append((request, as_json)) or True)
    return requests


@pytest.mark.parametrize(
    ("words", "request_"),
    [
        ([], ShareRequest()),
        (["lab"], ShareRequest("lab")),
        (["other"], ShareRequest(spec="other")),
        (["other", "lab"], ShareRequest("lab", spec="other")),
        (["x.yaml"], ShareRequest(spec="x.yaml")),
        (["x.yaml", "lab"], ShareRequest("lab", spec="x.yaml")),
        (["--check"], ShareRequest(check=True)),
        (["--repair"], ShareRequest(repair=True)),
        (["--anyway"], ShareRequest(anyway=True)),
        (["--dry-run"], ShareRequest(dry=True)),
    ],
)
def test_spec_and_remote_of_a_share(shared: list[tuple[ShareRequest, bool]], words: list[str], request_: ShareRequest) -> None:
    assert run.invoke(app, ["share", *words]).exit_code == 0
    assert shared == [(request_, False)]


def test_a_share_that_fails_exits_1_and_may_be_read_by_programs(
    shared: list[tuple[ShareRequest, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run.invoke(app, ["share", "--json"]).exit_code == 0 and shared == [(ShareRequest(), True)]
    monkeypatch.setattr(share, "share", lambda *_: False)
    assert run.invoke(app, ["share"]).exit_code == 1
