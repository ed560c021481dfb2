"""What is generated for this repository is ours alone, and compiling writes none of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from qualm.registry.plugins.registry import ROOT
from tests import generated_pages as pages
from tests.end_to_end.clone import Clone, make_clone
from tests.generated_pages import PAGES, out_of_step

PLUGIN = '''
from qualm.registry.plugins.protocols import MetricMeta
META = MetricMeta(higher_is_better=True)

def brand_new(correct, weights, *, power: int = 2):
    """A metric of somebody else's."""
    return correct
'''


def test_what_is_out_of_step_is_said_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "PAGES", {name: lambda name=name: f"# {name}\n" for name in ("a.md", "b.md", "c.md")})
    (tmp_path / "a.md").write_text("# a.md\n")
    (tmp_path / "b.md").write_text("edited")
    told = "out of step: b.md\nout of step: c.md\nrun `make docs-reference`, and commit what it writes\n"
    assert pages.main(check=True) == 1 and capsys.readouterr().out == told and (tmp_path / "b.md").read_text() == "edited"
    assert pages.main(check=False) == 0 and capsys.readouterr().out == "wrote: b.md\nwrote: c.md\n"
    for check in (True, False):
        assert pages.main(check) == 0 and capsys.readouterr().out == ""
    assert [(tmp_path / f"{name}.md").read_text() for name in "abc"] == [f"# {name}.md\n" for name in "abc"]


def test_pages_are_in_step() -> None:
    assert not out_of_step(ROOT), "run `make docs-reference`"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    """With another package installed that brings a metric."""
    package = tmp_path / "site"
    info = package / "theirs-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "brand_new_metric.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[qualm.metrics]\nbrand_new = brand_new_metric\n")
    made = make_clone(tmp_path / "clone", "quickstart")
    made.commit("compiled")
    monkeypatch.setenv("PYTHONPATH", str(package))
    return made


@pytest.mark.slow
def test_what_is_installed_reaches_editors_and_nothing_that_git_tracks(clone: Clone) -> None:
    clone.qualm("compile")
    assert clone.run("git", "status", "--porcelain").stdout == ""
    (clone.root / "specs/spec.schema.json").unlink()
    clone.qualm("new", "mine")
    first = (clone.root / "specs/mine.yaml").read_text().splitlines()[0]
    schema = clone.root / "specs" / first.partition("$schema=")[2]
    assert "brand_new" in schema.read_text()
    assert clone.run("git", "status", "--porcelain").stdout.split() == ["??", "specs/mine.yaml"]


@pytest.mark.slow
def test_the_maintainers_command_leaves_it_out(clone: Clone) -> None:
    assert "brand_new" in clone.qualm("ls", "metrics").stdout
    (clone.root / "tests").mkdir()
    shutil.copy2(ROOT / "tests/generated_pages.py", clone.root / "tests")
    command = (clone.python, "-m", "tests.generated_pages")
    clone.run(*command, "--check")
    (clone.root / "docs/reference/spec.md").write_text("edited")
    done = clone.run(*command, "--check", check=False)
    assert done.returncode == 1 and "out of step: docs/reference/spec.md" in done.stdout
    clone.run(*command)
    assert all((clone.root / page).read_text() == (ROOT / page).read_text() for page in PAGES)
