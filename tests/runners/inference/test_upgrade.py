"""Stored answers after an upgrade: what moves no number computes nothing, what may move one computes exactly what it may move."""

import shutil
from dataclasses import replace

import pytest

from qualm.runners.contracts.models import Part
from qualm.runners.data import answers
from qualm.runners.data.answers import Store, base_key, decoding_bytes, part_key, read_about, subject_digest
from qualm.runners.data.maintenance import list_holdings
from qualm.runners.data.refusal import accept, refuse
from qualm.runners.runtime import code_digest, libraries
from qualm.runners.runtime.code_digest import Engine
from qualm.runners.runtime.settings import Settings
from tests.support.checks.other_versions import installed, raised
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.tiny_project import NEEDS, Project

ALL = {"answers computed": 4, "answers stored": 0, "draws computed": 8, "draws stored": 0, "signals computed": 8, "signals stored": 0}
NONE = {"answers computed": 0, "answers stored": 4, "draws computed": 0, "draws stored": 8, "signals computed": 0, "signals stored": 8}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def answered(tmp_path_factory, model):
    made = Project(tmp_path_factory.mktemp("answered"), model)
    made.dataset("open", 4)
    made.stage(["open"], needs=[*NEEDS, "draws", "p_yes", "p_true_sampling"], draws=2, temperature=0.9)
    assert made.run().counters == ALL
    return made.folder


@pytest.fixture
def project(tmp_path, model, answered):
    shutil.copytree(answered, tmp_path, symlinks=True, dirs_exist_ok=True)
    return Project(tmp_path, model)


def later(library, minor=0, patch=0):
    first, second, third = (int(n) for n in libraries.library_version(library).split("."))
    return f"{first}.{second + minor}.{third + patch}"


def test_our_own_source_is_in_no_key(project, monkeypatch):
    """So a module that moves, or a variable that is renamed, computes nothing."""
    monkeypatch.setattr(code_digest, "source_digest", lambda path: pytest.fail(f"{path} was read"))
    rows = project.rows("open")
    assert project.run().counters == NONE and project.rows("open") == rows


def test_a_release_or_a_patch_of_a_library_computes_nothing(project, monkeypatch):
    rows = project.rows("open")
    installed(monkeypatch, "torch", later("torch", patch=1))
    monkeypatch.setattr(answers, "__version__", "9.9.9")
    assert project.run().counters == NONE and project.rows("open") == rows
    assert {about["qualm"] for about in map(read_about, stores(project))} == {"0.1.0", "9.9.9"}


@pytest.mark.parametrize(
    ("policy", "library", "moved", "computed"),
    [("minor", "torch", (1, 0), ALL), ("any", "torch", (1, 0), NONE), ("exact", "numpy", (0, 1), ALL), ("minor", "numpy", (1, 0), NONE)],
)
def test_the_policy_says_which_libraries_count_as_the_same(project, monkeypatch, policy, library, moved, computed):
    monkeypatch.setattr("tests.support.projects.tiny_project.Settings", lambda **given: Settings(**given, libraries=policy))
    installed(monkeypatch, library, later(library, *moved))
    assert project.run().counters == computed


@pytest.mark.slow
def test_a_version_that_is_raised_computes_what_depends_on_it(project, monkeypatch):
    raised(monkeypatch, "draws")
    about_draws = {"signals computed": 4, "signals stored": 4}  # P(True) over samples, whose samples are not known before
    assert project.run().counters == {**NONE, "draws computed": 8, "draws stored": 0, **about_draws}
    assert project.run().counters == NONE
    raised(monkeypatch, "self_reports")
    assert project.run().counters == {**NONE, "signals computed": 8, "signals stored": 0}
    raised(monkeypatch, "answers")
    assert project.run().counters == ALL
    monkeypatch.undo()
    assert project.run().counters == NONE, "and back"


def test_a_signal_is_about_the_answer_that_counts(project, monkeypatch):
    """Another machine's answer, written first: what was asked about our own is not taken for it."""
    (folder,) = stores(project)
    own = read_about(folder)
    first = Store(folder.parent, own["model"], own["engine"], libraries={**own["libraries"], "numpy": own["libraries"]["numpy"] + ".1"})
    rows = [(k, n, p) for k, n, p in parts(folder) if n == "answer"]
    first.put([rows[0][0]], ["answer"], [replace(rows[0][2], text="cone", tokens=[*rows[0][2].tokens[:-1], 9])])
    (written,) = first.folder.glob("*.segment")
    written.rename(written.with_name("0" * 20 + written.name[20:]))
    assert project.run().counters == {**NONE, "signals computed": 2, "signals stored": 6}
    assert [row["text"] for row in project.rows("open") if row["draw"] == 0].count("cone") == 1
    assert project.run().counters == NONE


def test_refused_answers_are_computed_again(project):
    (folder,) = stores(project)
    refuse(folder, "3 of 4 answers differ")
    assert project.run().counters == ALL
    assert {h.refusal for h in list_holdings(folder.parent)} == {"", "3 of 4 answers differ"}
    (other,) = set(stores(project)) - {folder}
    refuse(other, "so do these")
    assert accept(folder) and not accept(folder)
    assert project.run().counters == NONE


def test_parts_of_a_plugin_of_anybody_elses_depend_on_every_version_it_stands_on():
    own = Engine((), {"draws": 2, "answers": 1}, "content")
    assert own.changed_versions("answer") == own.changed_versions("draw 1") == {"draws": 2}
    assert not own.accepts("answer", {}) and own.identity != Engine((), {}, "other").identity


def test_keys_of_signals_hold_the_answer():
    base, how = base_key("m", "e", "p", None, "q"), decoding_bytes("p_true", {})
    abouts = [
        subject_digest(Part("red", [1])),
        subject_digest(Part("red", [2])),
        subject_digest(Part("red")),
        subject_digest(Part("red", [1]), ["red"]),
        b"",
    ]
    assert len({part_key(base, how, 0, about) for about in abouts}) == len(abouts)
    assert decoding_bytes("p_true", {}, {"answers": 2}) != how


def stores(project):
    return sorted(path for path in (project.folder / ".qualm" / "store").iterdir() if path.is_dir())


def parts(folder):
    from qualm.runners.data.answers import open_segments

    source = open_segments(folder)
    for name in source.names():
        for row in source.read(name).to_pylist():
            key, part = row.pop("key"), row.pop("part")
            yield key, part, Part(**row)
