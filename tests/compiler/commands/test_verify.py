"""`qualm verify` on a project: which pair set, which entry, a review in a terminal, and the registry afterwards."""

from __future__ import annotations

import signal
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from qualm.compiler.commands import verify as verify_module
from qualm.compiler.commands.verify import ReviewRequest, ReviewTarget, find_target, merge, verify
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.viewing.serving import OPENING
from qualm.registry.entries.entries import find
from qualm.runners.data.curation import Decision, read_decisions, write_decisions
from tests.support.checks.plugin_files import made_up
from tests.support.data.tiny_pairs import write_pairs
from tests.support.data.tiny_questions import write_questions
from tests.support.processes.pseudo_terminal import Terminal
from tests.support.processes.waiting import TIMEOUT

ROOT = Path(__file__).resolve().parents[3]
RECIPE = """
from qualm.registry.plugins.registry import DatasetName
def inpainted(context, *, dataset: DatasetName, category: str = "epistemic/extraneous"): ...
"""
SPEC = """\
qualm: 1
name: s
taxonomy: {epistemic: {extraneous: {}}}
datasets:
  scenes: {card: synthetic_scenes, test: 10}
pairs:
  ours:
    recipes: [inpainted: {dataset: scenes}]
"""
PHOTOS = """\
datasets:
  photos: {card: vizwiz_ans_difference, where: clean or image, curated: my-reviews, splits: [val]}
"""
WHOLE = "results/s/data/photos"
CODE = """
import sys
from pathlib import Path
from qualm.compiler.project.checkout import Project
from qualm.compiler.commands import verify as verify_module
from qualm.compiler.viewing.serving import OPENING
from qualm.compiler.commands.verify import ReviewRequest, verify
from tests.support.checks.plugin_files import made_up
with made_up(Path(sys.argv[1])) as add:
    add("pairs", "inpainted", sys.argv[2])
    verify(Project(Path(sys.argv[1])), "s", ReviewRequest(reviewer="ann", sample=2))
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "s.yaml").write_text(SPEC)
    (tmp_path / "params.yaml").write_text("default: s\n")
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc" / "config").write_text("[core]\n    no_scm = true\n    analytics = false\n")
    (tmp_path / "registry").mkdir()
    for part in [ROOT / "runners", *(p for p in (ROOT / "registry").iterdir() if p.name != "data")]:  # whose imports a plan lists
        (tmp_path / part.relative_to(ROOT)).symlink_to(part)
    with made_up(tmp_path) as add:
        add("pairs", "inpainted", RECIPE)
        yield Project(tmp_path)


def respell(project: Project, old: str, new: str) -> Project:
    (project.root / "specs" / "s.yaml").write_text(SPEC.replace(old, new))
    return Project(project.root)


def target(project: Project, pairs: str | None = None) -> ReviewTarget:
    return find_target(project.resolve("s"), project.plan("s"), pairs, project.root)


def test_the_entry_is_the_curated_one_or_a_name_that_says_what_it_is(project: Project) -> None:
    assert (target(project).entry, target(project).curated) == ("s-ours-reviews", False)
    named = target(respell(project, "    recipes", "    curated: ours-reviews\n    recipes"))
    assert (named.entry, named.curated) == ("ours-reviews", True)
    assert [s.name for s in named.makers] == ["pair-ours-inpainted"]
    assert named.sources == (project.root / "results/s/data/scenes",)


def test_which_set_is_asked_for_must_be_clear(project: Project) -> None:
    with pytest.raises(ProjectError, match="no dataset 'our'; did you mean 'ours'"):
        target(project, "our")
    with pytest.raises(ProjectError, match="several datasets; say which: ours, more, scenes"):
        target(two(project))
    with pytest.raises(ProjectError, match="s has no dataset to verify; add one under `datasets:`"):
        target(respell(project, SPEC[SPEC.index("taxonomy:") :], "datasets: {}\n"))


def test_a_data_set_is_reviewed_as_its_adapter_gave_it(project: Project) -> None:
    assert target(project, "scenes").makers == (project.plan("s").stage("data-scenes"),)
    alone = respell(project, SPEC[SPEC.index("taxonomy:") :], PHOTOS)
    found = target(alone)
    assert (found.section, found.name, found.entry, found.curated, found.rule.splits) == (
        "datasets",
        "photos",
        "my-reviews",
        True,
        ("val",),
    )
    assert found.subsets["cross"] == "meta.AMB == 5 or meta.IVE == 5"
    assert [s.name for s in found.makers] == ["data-photos"] and alone.plan("s").stage("data-photos").outputs["dataset"] == WHOLE
    with pytest.raises(
        ProjectError,
        match=r"questions of 'photos' are not made yet; make them in the project's root: `qualm compile s && dvc repro --pull data-photos`",
    ):
        verify(alone, "s", ReviewRequest())


@pytest.mark.slow
def test_a_review_of_a_data_set_in_a_terminal(project: Project) -> None:
    alone = respell(project, SPEC[SPEC.index("taxonomy:") :], PHOTOS)
    write_questions(project.root / WHOLE)
    reviewer = Terminal([sys.executable, "-c", CODE.replace("sample=2", 'category="image", sample=2'), str(project.root), RECIPE])
    shown = reviewer.until("[q]uit")
    assert "Question 1 of 2" in shown and "image: LQI >= 4 and" in shown and "[w]rong subset" in shown and "[o]ther" not in shown
    assert "LQI 5 · IVE 1" in shown and "unanswerable ×7 / red ×2 / dark red" in shown
    assert "The set says that it is in the subset image. Is that so, and are the answers right?" in shown.replace("\r\n", " ")
    reviewer.press("wv")
    reviewer.until("1 valid, 0 invalid, 1 in the wrong subset, 0 skipped, 0 left")
    reviewer.until("registry/data/my-reviews: added, version")
    assert reviewer.process.wait(TIMEOUT) == 0
    assert sorted(d.decision for d in read_decisions(find(alone.root, "my-reviews").path)) == ["misplaced", "valid"]


def two(project: Project) -> Project:
    return respell(project, "scenes}]\n", "scenes}]\n  more:\n    recipes: [inpainted: {dataset: scenes}]\n")


def test_pairs_that_are_not_made_yet_come_with_the_command_that_makes_them(project: Project) -> None:
    with pytest.raises(
        ProjectError,
        match=r"are not made yet; make them in the project's root: `qualm compile [a-z]+ && dvc repro --pull pair-ours-inpainted",
    ):
        verify(project, "s", ReviewRequest())


def test_no_terminal_is_said(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_pairs(project.root)
    monkeypatch.setattr("sys.stdin", (tmp_path / "in").open("w+"))
    with pytest.raises(ProjectError, match="needs a terminal; --page"):
        verify(project, "s", ReviewRequest(reviewer="ann"))


@pytest.mark.slow
def test_the_page_is_served_until_ctrl_c_and_then_published(project: Project) -> None:
    pytest.importorskip("gradio", reason="the page needs the extra `pages`")
    write_pairs(project.root)
    code = CODE.replace('ReviewRequest(reviewer="ann", sample=2)', 'ReviewRequest(reviewer="ann", page=True, browse=False)')
    serving = Terminal([sys.executable, "-c", code, str(project.root), RECIPE])
    url = serving.until("writes the decisions to registry/data").split("at ")[1].split()[0]
    assert url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(url, timeout=TIMEOUT) as reply:
        assert reply.status == 200
    serving.process.send_signal(signal.SIGINT)
    serving.until("registry/data/s-ours-reviews: nothing new")
    assert serving.process.wait(TIMEOUT) == 0


@pytest.mark.parametrize("browse", [True, False])
def test_the_page_is_opened_in_the_browser_unless_told_not_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, browse: bool) -> None:
    served, told = list[Any](), list[Any]()

    def until_stopped(serve: Callable[[], Any], banner: Callable[[str], str], browser: Path | None) -> None:
        serve()
        told.append((banner("http://x"), browser))

    page = SimpleNamespace(serve=lambda session, title, port: served.append((title, port)))
    monkeypatch.setitem(sys.modules, "qualm.runners.review.page", page)
    monkeypatch.setattr(verify_module, "until_stopped", until_stopped)
    session: Any = SimpleNamespace(journal=SimpleNamespace(reviewer="ann"))
    verify_module._review(session, "ours (s)", ReviewRequest(page=True, port=7, browse=browse), tmp_path)
    ((said, browser),) = told
    assert served == [("ours (s)", 7)] and browser == (tmp_path / OPENING if browse else None)
    assert said.startswith("ann reviews ours (s) at http://x\n") and said.endswith(
        "Ctrl-C here ends the review and writes the decisions to registry/data"
    )


@pytest.mark.slow
def test_a_review_enters_the_registry(project: Project) -> None:
    write_pairs(project.root)
    reviewer = Terminal([sys.executable, "-c", CODE, str(project.root), RECIPE])
    reviewer.until("Question 1 of 4")
    reviewer.until("[q]uit")
    reviewer.press("vviq")
    reviewer.until("2 valid, 1 invalid, 0 skipped, 1 left")
    said = reviewer.until("under pairs.ours of the spec")
    assert "registry/data/s-ours-reviews: added, version" in said
    assert "registry/data/s-ours-reviews.dvc" in said.partition("next: git add ")[2]
    assert "write `curated: s-ours-reviews`" in said
    assert reviewer.process.wait(TIMEOUT) == 0
    entry = find(project.root, "s-ours-reviews")
    assert (entry.card, entry.where) == ("reviews", "here")
    decisions = read_decisions(entry.path)
    assert sorted(d.decision for d in decisions) == ["invalid", "valid", "valid"]

    write_decisions(project.root / "bob.csv", [Decision(d.sample_id, d.content, "bob", "valid") for d in decisions])
    assert "replaced, version" in merge(project, "s", None, [project.root / "bob.csv"])
    assert merge(project, "s", None, [project.root / "bob.csv"]).endswith("nothing new")
    assert len(read_decisions(find(project.root, "s-ours-reviews").path)) == 6
    with pytest.raises(ProjectError, match=r"no such file; --merge takes a decisions\.csv"):
        merge(project, "s", None, [project.root / "eve.csv"])


@pytest.mark.slow
def test_another_reviewers_table_is_taken_in(project: Project) -> None:
    write_decisions(project.root / "bob.csv", [Decision("a", "c", "bob", "valid")])
    tables = [project.root / "bob.csv"]
    assert merge(project, "s", None, tables).startswith("registry/data/s-ours-reviews: added, version ")
    assert merge(project, "s", None, tables) == "registry/data/s-ours-reviews: nothing new"
    assert read_decisions(find(project.root, "s-ours-reviews").path) == [Decision("a", "c", "bob", "valid")]
    with pytest.raises(ProjectError, match=r"eve\.csv: no such file; --merge takes a decisions\.csv of another reviewer"):
        merge(project, "s", None, [*tables, project.root / "eve.csv"])
