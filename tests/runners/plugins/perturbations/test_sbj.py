"""SBJ: by rules, and by a server with a prompt of one's own."""

import pytest

from tests.support.checks import rewriting_checks


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_rules_know_their_own_questions_only():
    rewriting_checks.rules_know_their_own_questions_only("sbj")


def test_a_prompt_of_ones_own(tmp_path):
    rewriting_checks.a_prompt_of_ones_own("sbj", tmp_path / "mine.md")
