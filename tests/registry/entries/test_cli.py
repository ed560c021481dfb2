from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from qualm.registry.entries import cli
from qualm.registry.entries.card import UNVERIFIED
from qualm.registry.entries.cli import app
from qualm.registry.entries.entries import entries
from qualm.registry.system.dvc_objects import object_path

run = CliRunner()


@pytest.fixture(autouse=True)
def _here(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repo / "deep").mkdir()
    monkeypatch.chdir(repo / "deep")  # commands find the root themselves
    monkeypatch.setenv("COLUMNS", "140")


@pytest.mark.slow
def test_a_round(repo: Path, model: Callable[..., Path]) -> None:
    folder = str(model())
    done = run.invoke(app, ["add", "scene-vlm-base", "--from", folder])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("scene-vlm-base: added version ") and "dvc push ../registry/data/scene-vlm-base.dvc" in done.output
    done = run.invoke(app, ["add", "scene-vlm-base", "--from", folder, "--json"])
    assert done.exit_code == 0 and json.loads(done.output)["outcome"] == "unchanged"
    done = run.invoke(app, ["ls"])
    assert done.exit_code == 0 and "scene-vlm-base" in done.output and "here" in done.output and "not added" in done.output
    rows = {r["name"]: r for r in json.loads(run.invoke(app, ["ls", "--json"]).output)}
    assert rows["scene-vlm-base"]["where"] == "here" and rows["scene-vlm-base"]["kind"] == "model" and rows["scene-vlm-base"]["files"] == 6
    done = run.invoke(app, ["show", "scene-vlm-base"])
    assert done.exit_code == 0 and "model.safetensors" in done.output and "Apache-2.0" in done.output
    assert len(json.loads(run.invoke(app, ["show", "scene-vlm-base", "--json"]).output)["file_hashes"]) == 6
    assert run.invoke(app, ["verify"]).exit_code == 0
    (repo / "registry/data/scene-vlm-base/config.json").write_text("{")
    done = run.invoke(app, ["verify", "scene-vlm-base"])
    assert done.exit_code == 1 and "damaged: config.json" in done.output and "config.json: cut short" in done.output
    assert json.loads(run.invoke(app, ["verify", "--json"]).output)["scene-vlm-base"]["damaged"] == ["config.json"]


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("vqav2", ["split train 443,757 records", "layout val2014/COCO_val2014_*.jpg exactly 40,504"]),
        ("hallusionbench", ["split test 1,129 records in each file"]),
        ("abstention_bench", ["split test", "layout *.parquet at least 1, question, reference_answers, should_abstain, metadata_json"]),
        ("ai2d", ["layout categories.json optional, diagram -> category"]),
    ],
)
def test_a_card_says_which_files_and_records_there_should_be(name: str, facts: list[str]) -> None:
    shown = [" ".join(line.split()) for line in run.invoke(app, ["show", name]).output.splitlines()]
    assert [fact for fact in facts if fact not in shown] == []


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [True, False])
def test_progress_is_shown_unless_another_program_reads(model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    asked = []

    def progress_line(shown: bool) -> AbstractContextManager[Callable[..., None]]:
        asked.append(shown)
        return nullcontext(lambda *_: None)

    monkeypatch.setattr(cli, "progress_line", progress_line)
    assert run.invoke(app, ["add", "scene-vlm-base", "--from", str(model()), *(["--json"] if as_json else [])]).exit_code == 0
    assert asked == [not as_json]


def test_results_and_their_objects_are_verified_too(repo: Path) -> None:
    result, md5 = repo / "results/mini/scores.parquet", "5d41402abc4b2a76b9719d911017c592"
    cached = object_path(repo / ".dvc/cache", md5)
    for file in (result, cached):
        file.parent.mkdir(parents=True)
        file.write_text("hello")
    lock = {"schema": "2.0", "stages": {"score": {"cmd": "c", "outs": [{"path": "results/mini/scores.parquet", "md5": md5}]}}}
    (repo / "dvc.lock").write_text(json.dumps(lock))
    done = run.invoke(app, ["verify"])
    assert (done.exit_code, done.output) == (0, "results/mini: 1 files checked, all as recorded\n")
    cached.write_text("jello")
    done = run.invoke(app, ["verify", "results/mini"])
    assert done.exit_code == 1
    assert f"damaged in DVC's cache: {cached.relative_to(repo)}, of results/mini/scores.parquet" in done.output
    assert "`qualm data verify --set-aside results/mini`, then `qualm run mini`" in done.output
    result.write_text("hallo")
    assert json.loads(run.invoke(app, ["verify", "--json"]).output)["results/mini"]["damaged"] == ["results/mini/scores.parquet"]
    assert run.invoke(app, ["verify", "--set-aside"]).exit_code == 1
    done = run.invoke(app, ["verify", "results/mini"])
    assert done.exit_code == 0 and "1 recorded files are not here, and not checked" in done.output
    done = run.invoke(app, ["verify", "results/typo"])
    assert done.exit_code == 2 and "results/typo: no dvc.lock records it; there are: results/mini" in done.output
    assert not result.exists() and not cached.exists()
    assert sorted(p.name for p in (repo / ".qualm/damaged").rglob("*") if p.is_file()) == sorted([md5, "scores.parquet"])
    assert run.invoke(app, ["verify"]).exit_code == 0  # what is not here is not damaged


@pytest.mark.slow
def test_what_was_not_checked_is_said(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.json").write_text("{}")
    for arguments in (["ls"], ["show", "inspect_logs"], ["add", "inspect_logs", "--from", str(logs)]):
        assert UNVERIFIED in " ".join(run.invoke(app, arguments).output.split()), arguments
    assert UNVERIFIED not in " ".join(run.invoke(app, ["show", "vlm_uncertainty_bench"]).output.split())


def test_problems_are_listed_and_exit_1(model: Callable[..., Path]) -> None:
    folder = model()
    (folder / "tokenizer.json").write_text("<html>")
    (folder / "config.json").unlink()
    done = run.invoke(app, ["add", "scene-vlm-base", "--from", str(folder)])
    assert done.exit_code == 1
    assert "nothing was added: 2 problems" in done.output and "config.json (the model's architecture): expected 1, found 0" in done.output
    done = run.invoke(app, ["add", "scene-vlm-base", "--from", str(folder), "--json"])
    assert done.exit_code == 1 and len(json.loads(done.output)["problems"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "scene-vlm", "--from", "."], "no card named 'scene-vlm'; did you mean 'scene-vlm-base'?"),
        (["show", "scenes"], "no entry or card named 'scenes'"),
        (["verify", "synthetic_scene"], "did you mean 'synthetic_scenes'?"),
        (["add", "x"], "--from"),
        (["lss"], "No such command"),
    ],
)
def test_misuse_exits_2(arguments: list[str], message: str) -> None:
    done = run.invoke(app, arguments)
    assert done.exit_code == 2 and message in " ".join(done.output.split()), done.output


def test_nothing_to_verify() -> None:
    done = run.invoke(app, ["verify"])
    assert done.exit_code == 0 and "there is nothing to verify here" in done.output


def test_help_teaches() -> None:
    for command in ("ls", "show", "add", "verify"):
        assert len(run.invoke(app, [command, "--help"]).output) > 300


def test_importing_is_light() -> None:
    code = "import sys, qualm.registry.entries.cli; print(sorted({m.split('.')[0] for m in sys.modules}))"
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=Path(__file__).parents[3]).stdout
    assert not [m for m in ("dvc", "torch", "pyarrow", "numpy", "pydantic", "yaml") if f"'{m}'" in modules]


@pytest.mark.slow
def test_tables_fit_a_narrow_terminal_and_say_what_is_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = tmp_path / "part"
    part.mkdir()
    (part / "HallusionBench.json").write_text("[{}]")
    (part / "hallusion_bench").mkdir()
    Image.new("RGB", (8, 8)).save(part / "hallusion_bench/a.png")
    done = run.invoke(app, ["add", "hallusionbench", "--from", str(part)])
    assert done.exit_code == 1 and "--skip-bad lets other counts and single bad files pass, and notes it" in done.output
    (part / "hallusion_bench/b.png").write_bytes(b"")
    (part / "HallusionBench.json").rename(part / "other.json")
    assert "pass (1 of these 2), and notes" in run.invoke(app, ["add", "hallusionbench", "--from", str(part)]).output
    assert "--skip-bad" not in run.invoke(app, ["add", "hallusionbench", "--from", str(tmp_path)]).output  # nothing is there
    (part / "other.json").rename(part / "HallusionBench.json")
    assert run.invoke(app, ["add", "hallusionbench", "--from", str(part), "--skip-bad"]).exit_code == 0
    monkeypatch.setenv("COLUMNS", "80")
    done = run.invoke(app, ["ls"])
    lines = done.output.splitlines()
    assert all(len(line) <= 80 for line in lines[: lines.index("")]) and len(lines[: lines.index("")]) == len(entries(Path.cwd())) + 1
    assert "here, in part" in done.output and "vqav2" in done.output.partition("licence\n")[2] and "in part: taken in by" in done.output
    assert "in part" in run.invoke(app, ["show", "hallusionbench"]).output
    assert json.loads(run.invoke(app, ["show", "hallusionbench", "--json"]).output)["skip_bad"] is True
    monkeypatch.setenv("COLUMNS", "60")
    narrow = run.invoke(app, ["ls"]).output.partition("\n\n")[0].splitlines()
    assert narrow[0].split() == ["name", "kind", "size", "where"] and not any("…" in line for line in narrow)
    monkeypatch.setenv("COLUMNS", "200")
    wide = run.invoke(app, ["ls"]).output.splitlines()
    assert wide[0].split()[-2:] == ["splits", "licence"]
