"""`qualm prompt`: what a model is sent."""

from __future__ import annotations

import json
import shutil

import pytest
from typer.testing import CliRunner

from qualm.compiler.commands.main import complete_app
from tests.support.projects.asked_project import SPEC, asked_project


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return asked_project(tmp_path_factory.mktemp("made") / "t").root


def qualm(root, monkeypatch, *arguments):
    monkeypatch.chdir(root)
    return CliRunner().invoke(complete_app(), ["prompt", *arguments])


@pytest.mark.slow
def test_a_local_model_s_text_has_special_tokens_and_names_the_image(made, monkeypatch):
    done = qualm(made, monkeypatch, "t", "base", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    (image,) = told["images"]
    assert image in told["text"] and told["text"].startswith("USER:") and told["text"].endswith("ASSISTANT:")
    again = qualm(made, monkeypatch, "t", "--sample", told["sample"])
    assert told["text"] in again.stdout and "earlier version" not in again.stderr


def test_stored_answers_to_another_prompt_are_told_of(made, monkeypatch, tmp_path):
    root = shutil.copytree(made, tmp_path / "edited")
    (root / "specs/t.yaml").write_text(SPEC + "prompt: {system: Be brief.}\n")
    done = qualm(root, monkeypatch, "t", "--json")
    assert "Be brief." in json.loads(done.stdout)["text"]
    assert "results are of an earlier version of specs/t.yaml or params.yaml (infer-base-scenes: parameter prompt" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("t", "bose"), "expected a model that is asked, got 'bose'; did you mean 'base'?"),
        (("t", "--sample", "none"), "has no sample 'none' that models answer"),
        (("t", "--variant", "blurr"), "expected a variant of dataset"),
    ],
)
def test_what_is_not_there_is_said(made, monkeypatch, arguments, message):
    assert message in str(qualm(made, monkeypatch, *arguments).exception)
