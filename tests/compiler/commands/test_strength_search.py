"""`qualm strength --auto` on drawn pictures: what it prints, the curve on disk, what it writes into the spec. No model is asked."""

from __future__ import annotations

import csv
import re
import xml.etree.ElementTree as ET
from contextlib import chdir
from pathlib import Path

import pytest

from qualm.compiler.commands.edit_yaml import EditTarget
from qualm.compiler.commands.strength import open_bench, search_strength
from qualm.compiler.commands.strength_entry import find_entry
from qualm.compiler.commands.strength_request import StrengthRequest, goal_of
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError
from tests.support.projects.calibration_project import SPEC, calibration_project

CURVES = Path(".qualm/calibrations/s")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return calibration_project(tmp_path, tmp_path / "no-model", samples=4, side=32)


def searched(project: Project, request: StrengthRequest, counters: dict[str, int] | None = None) -> bool:
    path, resolved, plan = project.spec_path("s"), project.resolve("s"), project.plan("s")
    entry = find_entry(path, project.root, resolved, request.perturbation)
    goal = goal_of(request, entry)
    with chdir(project.root), open_bench(project, resolved, plan, entry, request, goal) as (bench, knobs, stage):
        stage.counters.update(counters or {})
        place = EditTarget(path, entry.index, entry.plugin.name, "")
        return search_strength(resolved, entry, bench, knobs[0], goal, request, place, stage)


def test_the_curve_is_shown_kept_and_the_strength_named(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert searched(project, StrengthRequest("jpeg", distance="psnr=12"), {"answers computed": 1234, "batches": 5})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["jpeg:", "quality,", "PSNR,", "dB,", "scenes"] and lines[1].split()[:3] == ["strength", "value", "95%"]
    curve = [line for line in lines if line.startswith("curve: ")]
    assert curve == [f"curve: {CURVES / 'jpeg_quality_psnr-12_scenes.csv'}", f"curve: {CURVES / 'jpeg_quality_psnr-12_scenes.svg'}"]
    assert "engine: 1,234 answers computed, 5 batches" in lines
    with (project.root / CURVES / "jpeg_quality_psnr-12_scenes.csv").open() as file:
        rows = list(csv.DictReader(file))
    (chosen,) = [row for row in rows if row["chosen"] == "1"]
    assert lines[-1].startswith(f"chosen: quality {chosen['strength']}: PSNR, dB ") and " of 4" in lines[-1]
    (marked,) = [line for line in lines if line.rstrip().endswith("  chosen")]
    assert marked.split()[0] == chosen["strength"] and len([line for line in lines if " to " in line]) == len(rows)
    assert ET.fromstring((project.root / CURVES / "jpeg_quality_psnr-12_scenes.svg").read_text()).tag.endswith("svg")
    assert project.spec_path("s").read_text() == SPEC


def test_the_curve_of_another_folder(project: Project, tmp_path: Path) -> None:
    assert searched(project, StrengthRequest("jpeg", distance="psnr=12", output=tmp_path / "deep/curves"))
    assert sorted(p.name for p in (tmp_path / "deep/curves").iterdir()) == [
        "jpeg_quality_psnr-12_scenes.csv",
        "jpeg_quality_psnr-12_scenes.svg",
    ]
    assert not (project.root / CURVES).exists()


def test_the_strength_is_written_with_a_comment(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert searched(project, StrengthRequest("jpeg", distance="psnr=12", write=True))
    said = capsys.readouterr().out
    value = said.split("chosen: quality ")[1].split(":")[0]
    assert said.splitlines()[-1].endswith("; next: qualm compile s") and "engine:" not in said
    lines = project.spec_path("s").read_text().splitlines()
    assert f"  - jpeg: {{quality: {value}}}" in lines
    (comment,) = [line for line in lines if "# calibrated" in line]
    assert comment.startswith(f"  # calibrated: jpeg.quality {value}: PSNR, dB ")
    assert comment.endswith("for scenes; `qualm strength --auto --distance psnr=12`, seed 7")


def test_one_point_of_a_sweep_or_one_more(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert searched(project, StrengthRequest("blur@radius=2", distance="psnr=16", write=True))
    value = capsys.readouterr().out.split("chosen: radius ")[1].split(":")[0]
    assert f"  - blur: {{radius: [1, {value}]}} # a sweep" in re.sub(" +#", " #", project.spec_path("s").read_text()).splitlines()
    project.spec_path("s").write_text(SPEC)
    assert searched(project, StrengthRequest("blur", distance="psnr=16", write=True, add=True))
    assert (
        f"radius: [1, 2, {value}]" in project.spec_path("s").read_text() or f"radius: [{value}, 1, 2]" in project.spec_path("s").read_text()
    )


def test_no_strength_is_said(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert not searched(project, StrengthRequest("jpeg", distance="1-ssim=1.9", write=True))
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("no strength: even 1 has less effect than asked for") and lines[-2].startswith("curve: ")
    assert project.spec_path("s").read_text() == SPEC


@pytest.mark.parametrize("scale", ["auto", "linear", "log"])
def test_scales(project: Project, scale: str) -> None:
    assert searched(project, StrengthRequest("jpeg", distance="psnr=12", scale=scale, range="2:90"))


def test_no_such_scale(project: Project) -> None:
    with pytest.raises(ProjectError, match=r"^--scale: expected auto, linear or log, got 'Log'$"):
        searched(project, StrengthRequest("jpeg", distance="psnr=12", scale="Log"))
