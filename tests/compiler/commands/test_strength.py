"""`qualm strength` on a project: which perturbation, a search with a real model, the curve, and what is written into the spec."""

from __future__ import annotations

import csv
import re
import xml.etree.ElementTree as ET
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from qualm.compiler.commands import strength as strength_command
from qualm.compiler.commands.edit_yaml import EditTarget
from qualm.compiler.commands.main import app
from qualm.compiler.commands.strength import choose_strength, open_bench
from qualm.compiler.commands.strength_entry import find_entry
from qualm.compiler.commands.strength_request import StrengthRequest
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.spec.sentences import PAGE_IS_OPEN
from qualm.runners.review import strength_page as page
from qualm.runners.review.strength_session import StrengthSession, WriteError
from tests.support.models.tiny_clip import tiny_clip
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.calibration_project import SPEC, calibration_project

CURVES = ".qualm/calibrations/s"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llava(tmp_path_factory.mktemp("model"))


@pytest.fixture
def project(tmp_path: Path, model: Path) -> Project:
    return calibration_project(tmp_path, model)


def spec_of(project: Project) -> Path:
    return project.root / "specs" / "s.yaml"


def squeezed(path: Path) -> list[str]:
    """Return the lines of a spec, with one space before each comment."""
    return re.sub(" +#", " #", path.read_text()).splitlines()


def respell(project: Project, old: str, new: str) -> Project:
    text = spec_of(project).read_text()
    assert old in text
    spec_of(project).write_text(text.replace(old, new))
    return Project(project.root)


@pytest.mark.slow
def test_a_share_of_answers_by_a_real_model(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = StrengthRequest("gaussian_noise", auto=True, share=0.3, samples=20, write=True)
    assert choose_strength(project, "s", wanted)
    said = capsys.readouterr().out
    assert "chosen: sigma " in said and "answers computed" in said
    with (project.root / CURVES / "gaussian_noise_sigma_share-0.3_scenes_tiny.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(r["strength"]) for r in rows] == sorted(float(r["strength"]) for r in rows)
    assert rows[0]["value"] == "0" and all(r["n"] == "20" for r in rows)
    (chosen,) = [r for r in rows if r["chosen"] == "1"]
    assert float(chosen["low"]) <= 0.3 <= float(chosen["high"])
    drawing = ET.fromstring((project.root / CURVES / "gaussian_noise_sigma_share-0.3_scenes_tiny.svg").read_text())
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    written = spec_of(project).read_text()
    comment = next(line for line in written.splitlines() if "# calibrated" in line)
    assert comment.startswith(f"  # calibrated: gaussian_noise.sigma {chosen['strength']}: share of answers that change 0.")
    expected = SPEC.replace("sigma: 40 ", f"sigma: {chosen['strength']} ")
    assert written.replace(f"{comment}\n", "").split() == expected.split()

    assert choose_strength(Project(project.root), "s", wanted)  # again: nothing is asked, the same is found, one comment
    again = capsys.readouterr().out
    assert "0 answers computed" in again and f"chosen: sigma {chosen['strength']}" in again
    assert spec_of(project).read_text() == written


def test_a_distance_of_pictures_needs_no_model(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert choose_strength(project, "s", StrengthRequest("jpeg", auto=True, distance="psnr=12", samples=6))
    assert "PSNR, dB" in capsys.readouterr().out
    assert choose_strength(project, "s", StrengthRequest("blur@radius=2", auto=True, distance="1-ssim=0.5", samples=6, write=True))
    said = capsys.readouterr().out
    value = said.split("chosen: radius ")[1].split(":")[0]
    lines = spec_of(project).read_text().splitlines()
    assert f"  - blur: {{radius: [1, {value}]}} # a sweep" in squeezed(spec_of(project))
    assert any(line.startswith(f"  # calibrated: blur.radius {value}: 1 - SSIM 0.") for line in lines)
    assert not (project.root / ".qualm" / "store").exists()


def test_no_crossing_is_said_with_the_curve_and_nothing_is_written(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = StrengthRequest("jpeg", auto=True, distance="1-ssim=1.9", samples=4, write=True)
    assert not choose_strength(project, "s", wanted)
    said = capsys.readouterr().out
    assert "no strength: even 1 has less effect than asked for" in said and "curve: .qualm/calibrations/s/jpeg_quality_1-ssim-1.9" in said
    assert spec_of(project).read_text() == SPEC


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (StrengthRequest("blur", auto=True, share=0.1, distance="psnr=20"), "--share and --distance both name a target effect"),
        (StrengthRequest("blur", auto=True, distance="ssim=0.3"), "expected a distance of 1-ssim, psnr, got 'ssim'; write METRIC=VALUE"),
        (StrengthRequest("typos", auto=True, distance="psnr=20"), "typos edits questions, and --distance is of images"),
        (StrengthRequest("blur", auto=True, range="5"), "--range: expected LOW:HIGH, two numbers, got '5'"),
        (StrengthRequest("jpeg", auto=True, range="0:50", distance="psnr=30"), "--range: expected quality from 1 to 100, got 0:50"),
        (StrengthRequest("blur", auto=True, model="huge"), "has no model 'huge'"),
        (StrengthRequest("blur", auto=True, dataset="scene"), "no dataset 'scene'; did you mean 'scenes'"),
        (StrengthRequest("blur", parameter="sigma"), "blur has no numeric parameter 'sigma'; there are: radius"),
        (StrengthRequest("blur", auto=True, scale="cubic", distance="psnr=20"), "--scale: expected auto, linear or log, got 'cubic'"),
    ],
)
def test_wrong_questions_are_answered(project: Project, wanted: StrengthRequest, says: str) -> None:
    with pytest.raises(ProjectError, match=says):
        choose_strength(project, "s", wanted)
    assert spec_of(project).read_text() == SPEC


def test_what_is_missing_comes_with_what_makes_it(project: Project) -> None:
    (project.root / "results" / "s" / "data" / "scenes" / "samples.parquet").unlink()
    with pytest.raises(
        ProjectError, match=r"not made yet; make it in the project's root: `qualm compile [a-z]+ && dvc repro --pull data-scenes`"
    ):
        choose_strength(project, "s", StrengthRequest("blur", auto=True))


CLIP = """  - jpeg: {quality: 30}
  - clip_mask: {artifact: clip}
  - inv: {prompt: inv}
"""


def with_clip(project: Project, folder: Path) -> Project:
    (project.root / "specs" / "prompts").mkdir()
    (project.root / "specs" / "prompts" / "inv.md").write_text("Write it anew: {question}")
    (project.root / "registry" / "data" / "clip").symlink_to(tiny_clip(folder))
    return respell(project, "  - jpeg: {quality: 30}\n", CLIP)


@pytest.mark.slow
def test_the_strength_of_a_mask_is_searched(project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    masked = with_clip(project, tmp_path / "clip")
    assert choose_strength(masked, "s", StrengthRequest("clip_mask", auto=True, distance="psnr=22", samples=6, write=True))
    said = capsys.readouterr().out
    value = said.split("chosen: strength ")[1].split(":")[0]
    assert f"  - clip_mask: {{artifact: clip, strength: {value}}}" in spec_of(project).read_text().splitlines()
    with (project.root / CURVES / "clip_mask_strength_psnr-22_scenes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert (rows[0]["strength"], rows[-1]["strength"], rows[0]["value"]) == ("0", "1", "inf")  # no mask changes nothing
    assert choose_strength(Project(project.root), "s", StrengthRequest("clip_mask", auto=True, share=0.4, samples=6, model="tiny")) in (
        True,
        False,
    )
    assert "answers computed" in capsys.readouterr().out
    with pytest.raises(ProjectError, match="clip_mask has no numeric parameter 'layer'; there are: strength"):
        choose_strength(Project(project.root), "s", StrengthRequest("clip_mask", parameter="layer"))
    (project.root / "registry" / "data" / "clip").unlink()
    with pytest.raises(ProjectError, match=r"clip_mask@\S+: registry/data/clip is not on this disk; `qualm plan s` says how to get it"):
        choose_strength(Project(project.root), "s", StrengthRequest("clip_mask", auto=True, distance="psnr=20"))


@pytest.mark.parametrize("wanted", [StrengthRequest("inv", auto=True), StrengthRequest("inv", parameter="temperature")])
def test_what_has_no_strength_is_looked_at_and_not_searched(project: Project, tmp_path: Path, wanted: StrengthRequest) -> None:
    masked = with_clip(project, tmp_path / "clip")
    ways = "`generator:`, `prompt:`, `temperature:`"
    says = f"inv has no strength to search for.* depends on {ways} of the spec.*`qualm strength s -p inv` shows"
    with pytest.raises(ProjectError, match=says):
        choose_strength(masked, "s", wanted)


def test_an_inherited_section_is_not_written_into(project: Project) -> None:
    (project.root / "specs" / "t.yaml").write_text("extends: s.yaml\nname: t\n")
    with pytest.raises(ProjectError, match=r"the perturbations are in s\.yaml, which this spec extends"):
        choose_strength(Project(project.root), "t", StrengthRequest("blur", auto=True, write=True))


@pytest.mark.slow
def test_the_command_line(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.root)
    told = CliRunner().invoke(app, ["strength", "--help"], env={"COLUMNS": "120"})
    assert told.exit_code == 0 and "qualm strength SPEC -p blur -m base --auto" in told.output
    command = ["strength", "s", "-p", "jpeg", "--auto", "--distance", "1-ssim=1.9", "-n", "3"]
    assert CliRunner().invoke(app, command).exit_code == 1
    command = ["strength", "s", "-p", "typos", "--auto", "--share", "0.5", "-n", "4", "--output", "curves", "--write", "--add"]
    monkeypatch.chdir(project.root / "specs")  # a relative folder is one of where the command is typed
    assert CliRunner().invoke(app, command).exit_code in (0, 1)
    assert len(list((project.root / "specs/curves").iterdir())) == 2


@pytest.fixture
def modelless(tmp_path: Path) -> Project:
    return calibration_project(tmp_path, tmp_path / "no-model", samples=3, side=16)


class Served:
    """What would be served, and what would be printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.session: StrengthSession | None = None
        self.title, self.port, self.printed, self.browser = "", None, "", None
        monkeypatch.setattr(page, "serve", self._serve)
        monkeypatch.setattr(strength_command, "until_stopped", self._until_stopped)

    def _serve(self, session: StrengthSession, title: str, port: int | None) -> None:
        self.session, self.title, self.port = session, title, port

    def _until_stopped(self, serve: Any, banner: Any, browser: Path | None) -> None:
        serve()
        self.printed, self.browser = banner("http://x/"), browser


def serve(modelless: Project, request: StrengthRequest, own: bool = True) -> None:
    path, resolved, plan = modelless.spec_path("s"), modelless.resolve("s"), modelless.plan("s")
    entry = find_entry(path, modelless.root, resolved, request.perturbation)
    with chdir(modelless.root), open_bench(modelless, resolved, plan, entry, request, None) as (bench, knobs, _):
        strength_command.serve_page(resolved, bench, knobs, request, entry, EditTarget(path, entry.index, entry.plugin.name, ""), own)


def test_what_is_served_and_said(modelless: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch)
    serve(modelless, StrengthRequest("blur", reviewer="ann", port=4321))
    assert (served.title, served.port, served.browser) == ("blur in s", 4321, Path(".qualm/pages"))
    assert served.printed.splitlines() == [
        "ann chooses the strength of blur in s at http://x/",
        PAGE_IS_OPEN,
        "Ctrl-C here ends it; votes are in .qualm/calibrations/s/votes.csv",
    ]
    monkeypatch.setattr(strength_command, "login_name", lambda: "login")
    serve(modelless, StrengthRequest("blur", browse=False))
    assert served.browser is None and served.printed.startswith("login chooses the strength of ")


def turned(modelless: Project, served: Served, radius: float, add: bool = False) -> list[str]:
    assert served.session is not None
    served.session.turn({"radius": radius})
    with chdir(modelless.root):
        return served.session.write(add)


def test_values_go_into_the_spec(modelless: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    served, path = Served(monkeypatch), modelless.spec_path("s")
    serve(modelless, StrengthRequest("blur@radius=2"))
    (line,) = turned(modelless, served, 3.5)
    assert line.endswith("; next: qualm compile s") and "  - blur: {radius: [1, 3.5]} # a sweep" in squeezed(path)
    turned(modelless, served, 4.5)  # the point that is meant is the one that was written
    assert "  - blur: {radius: [1, 4.5]} # a sweep" in squeezed(path)
    turned(modelless, served, 5.5, add=True)
    assert "  - blur: {radius: [1, 4.5, 5.5]} # a sweep" in squeezed(path)
    turned(modelless, served, 6.5)
    assert "  - blur: {radius: [1, 6.5, 5.5]} # a sweep" in squeezed(path)


def test_a_sweep_as_a_whole_is_replaced(modelless: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch)
    serve(modelless, StrengthRequest("blur"))
    turned(modelless, served, 3.5)
    assert "  - blur: {radius: 3.5} # a sweep" in squeezed(modelless.spec_path("s"))


def test_what_cannot_be_written_is_said_on_the_page(modelless: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch)
    serve(modelless, StrengthRequest("blur@radius=2"))
    modelless.spec_path("s").write_text("qualm: [")
    with pytest.raises(WriteError):
        turned(modelless, served, 3.5)
    assert modelless.spec_path("s").read_text() == "qualm: ["


def test_the_page_does_not_write_into_an_inherited_section(modelless: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch)
    serve(modelless, StrengthRequest("blur"), own=False)
    with pytest.raises(WriteError, match="are in a spec that this one extends"):
        turned(modelless, served, 3.5)
    assert modelless.spec_path("s").read_text() == SPEC
