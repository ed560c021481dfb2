"""What `qualm plan` says of stored answers, held against what inference then computes."""

from __future__ import annotations

import json
import shutil

import pytest
from typer.testing import CliRunner

from qualm.compiler.commands.main import app
from qualm.compiler.project.checkout import Project
from qualm.compiler.project.kept_answers import _CacheHitCounter, kept_answers
from qualm.compiler.project.rebuilds import forecast
from qualm.compiler.project.views import describe_kept
from qualm.runners.data import answers
from qualm.runners.data.refusal import refuse
from qualm.runners.runtime import code_digest, libraries
from qualm.runners.runtime import stage as stages
from tests.support.checks.other_versions import installed, raised
from tests.support.projects.asked_project import INFER, PARTS, SPEC, asked_project, make

KEPT = "12 answers, 24 draws, 12 signals kept from version 0.1.0"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return asked_project(tmp_path_factory.mktemp("made") / "t").root


@pytest.fixture
def project(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path / "t", symlinks=True)
    monkeypatch.chdir(tmp_path / "t")
    monkeypatch.setenv("QUALM_DEVICE", "cpu")
    monkeypatch.setenv("COLUMNS", "160")
    return Project()


def told(project):
    plan = project.plan()
    forecasts = forecast(plan, project.root, "t")
    (one,) = kept_answers(plan, forecasts, project.root, project.settings)
    return one


def shown(*arguments):
    done = CliRunner().invoke(app, ["plan", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def edited(project, *changes):
    text = SPEC
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (project.root / "specs/t.yaml").write_text(text)
    project.compile(["t"])


def foretold(project):
    """What is said to be computed is what is computed, and what is said to be kept is what is taken from the store."""
    one = told(project)
    counters = make(project, INFER).counters
    assert {family: n for name, n in counters.items() if (family := name.removesuffix(" computed")) != name and n} == one.computed
    assert {family: n for name, n in counters.items() if (family := name.removesuffix(" stored")) != name and n} == dict(one.stored)
    return one


@pytest.mark.slow
def test_an_upgrade_that_changes_no_number_computes_nothing(project, monkeypatch):
    """Modules that move, names that change, a new release of ours, a patch of a library: all is kept, and said to be."""
    monkeypatch.setattr(answers, "__version__", "9.9.9")
    monkeypatch.setattr(stages, "__version__", "9.9.9")
    major, minor, patch = libraries.library_version("torch").split(".")
    installed(monkeypatch, "torch", f"{major}.{minor}.{int(patch) + 1}")
    monkeypatch.setattr(code_digest, "source_digest", lambda path: pytest.fail(f"{path} was read"))
    text = shown()
    assert f"{KEPT}, 0 to compute" in text and f"+ {INFER}" not in text and "+ data-scenes" not in text
    entries = {entry["stage"]: entry for entry in json.loads(shown("--json"))}
    assert entries[INFER]["action"] == entries["data-scenes"]["action"] == "unchanged"
    assert entries[INFER]["answers"] == {"kept": PARTS, "from": {"0.1.0": 48}, "to_compute_at_most": {}, "why": []}
    counters = make(project, INFER).counters  # even if it is run
    assert {name: n for name, n in counters.items() if n} == {f"{family} stored": n for family, n in PARTS.items()}


@pytest.mark.slow
def test_a_changed_sampling_rule_computes_the_draws(project, monkeypatch):
    raised(monkeypatch, "draws")
    project.compile(["t"])
    text = shown()
    assert f"+ {INFER} will run" in text and "our draws: version 1 -> 2" in text and "data-scenes" not in text
    line = "12 answers, 12 signals kept from version 0.1.0, at most 24 draws to compute"
    assert f"{INFER}: {line}" in text
    assert describe_kept(foretold(project)) == line
    assert told(project).computed == {} and "24 draws" in describe_kept(told(project))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ([("draws: 2", "draws: 3")], f"{KEPT}, at most 12 draws to compute"),
        ([("perturbations:\n  - blur: {radius: 1}\n", "")], "6 answers, 12 draws, 6 signals kept from version 0.1.0, 0 to compute"),
        ([("draws: 2", "draws: 2, temperature: 0.3")], "12 answers, 12 signals kept from version 0.1.0, at most 24 draws to compute"),
        ([("max_new_tokens: 3", "max_new_tokens: 4")], "0 answers kept, at most 12 answers, 24 draws, 12 signals to compute"),
        ([("[perplexity,", "[perplexity, p_true_sampling,")], f"{KEPT}, at most 12 signals to compute"),
        ([("p_true, semantic_entropy: {nli: lexical}", "p_true")], "12 answers, 12 signals kept from version 0.1.0, 0 to compute"),
        ([("radius: 1", "radius: [1, 2]")], f"{KEPT}, at most 6 answers, 12 draws, 6 signals to compute"),
        ([("dtype: float64", "dtype: float32")], "0 answers kept, at most 12 answers, 24 draws, 12 signals to compute"),
    ],
)
def test_an_edit_of_the_spec_is_reckoned(project, changes, line):
    edited(project, *changes)
    assert describe_kept(foretold(project)) == line


def test_questions_that_change_are_not_reckoned(project):
    edited(project, ("test: 6", "test: 8"))
    one = told(project)
    assert one.computed is None and one.why[0].startswith("not known before the stage runs: ") and "may change" in one.why[0]
    assert f"{INFER}: stored answers: not known before the stage runs: results/t/data/scenes may change" in shown()


def test_what_does_not_count_any_more_is_told(project, monkeypatch):
    edited(project, ("draws: 2", "draws: 3"))
    (folder,) = (p for p in (project.root / ".qualm/store").iterdir() if p.is_dir())
    installed(monkeypatch, "torch", "99.0.0")
    one = told(project)
    assert not sum(one.stored.values()) and one.why[0].startswith("those of version 0.1.0 do not count: torch ")
    assert one.why[0].endswith("-> 99.0.0 (setting `libraries` is minor)")
    monkeypatch.setenv("QUALM_LIBRARIES", "any")
    assert told(project).stored == PARTS
    refuse(folder, "audit: 3 of 4 differ")
    assert told(project).why == ("those of version 0.1.0 are refused: audit: 3 of 4 differ",)
    shutil.rmtree(folder)
    assert "not in the store any more" in told(project).why[0]


@pytest.mark.slow
def test_answers_of_several_releases(project, monkeypatch):
    edited(project, ("draws: 2", "draws: 3"))
    monkeypatch.setattr(answers, "__version__", "9.9.9")
    make(project, INFER)
    assert (
        describe_kept(told(project)) == "12 answers, 36 draws, 12 signals kept (48 from version 0.1.0, 12 from version 9.9.9), 0 to compute"
    )


def test_without_a_record_nothing_is_claimed(project):
    shutil.rmtree(project.root / ".qualm/runs")
    edited(project, ("draws: 2", "draws: 3"))
    assert told(project).why == ("not known before this stage first runs here",)


@pytest.mark.parametrize(
    ("kind", "stored", "comparable", "lost"),
    [
        ("p_true", {}, {"answer": 3}, True),
        ("p_true", {"answer": 1}, {"answer": 3}, False),
        ("p_true", {}, {}, False),
        ("p_true_sampling", {"answer": 3}, {"answer": 3, "draw": 6}, True),
        ("p_true_sampling", {"answer": 3, "draw": 1}, {"answer": 3, "draw": 6}, False),
        ("draw", {}, {"answer": 3}, False),
        ("answer", {}, {"answer": 3}, False),
    ],
)
def test_a_signal_is_lost_with_all_answers_or_all_draws_that_it_is_about(kind, stored, comparable, lost):
    assert bool(_CacheHitCounter._depends(None, kind, stored, comparable)) is lost
