"""What the record of a run says of whose answers it got."""

import json
from contextlib import chdir

import pytest

from qualm.runners.data import answers
from qualm.runners.runtime import libraries
from qualm.runners.runtime.stage import ANSWERS, read_record, write_record
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.tiny_project import BLUR, CLEAN, NEEDS, Project


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("model"))


@pytest.fixture
def project(tmp_path, model):
    made = Project(tmp_path, model)
    made.dataset("open", 3)
    made.dataset("mc", 2, choices=True)
    made.stage(["open", "mc"], [CLEAN, BLUR])
    return made


def test_releases_libraries_and_counts(project, monkeypatch):
    first = project.run().facts[ANSWERS]
    (origin,) = first["from"]
    assert origin["parts"] == {"answer": 6, "options": 4} and origin["libraries"] == libraries.library_versions()
    assert (origin["qualm"], origin["versions"]) == (answers.__version__, {})
    assert first["asked"] == {name: {"choice": 2, "open": 3} for name in ("blur@radius=2.0", "clean")}
    before = project.output("open").read_bytes()
    monkeypatch.setattr(answers, "__version__", "9.9.9")
    again = project.run().facts[ANSWERS]
    assert again["from"] == first["from"] and project.output("open").read_bytes() == before
    project.stage(["open", "mc"], [CLEAN, BLUR], needs=[*NEEDS, "p_true"])
    parts = {origin["qualm"]: origin["parts"] for origin in project.run().facts[ANSWERS]["from"]}
    assert parts == {answers.__version__: {"p_true": 6}, first["from"][0]["qualm"]: {"answer": 6, "options": 4}}


def test_the_record_has_it_and_the_table_has_not(project):
    stage = project.run()
    with chdir(project.folder):
        write_record(stage, 1.5)
    record = read_record(project.folder, "t", "infer")
    assert record[ANSWERS] == json.loads(json.dumps(stage.facts[ANSWERS])) and record["seconds"] == 1.5
    assert read_record(project.folder, "t", "other") == {}
    assert b"folder" not in project.output("open").read_bytes()
