"""INV: by rules, and by a server that is asked until its reply can be used; a rerun asks nothing."""

import pytest

from tests.support.checks import rewriting_checks


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_rules_know_their_own_questions_only():
    rewriting_checks.rules_know_their_own_questions_only("inv")


def test_a_server_is_asked_with_the_question_alone_until_its_reply_can_be_used():
    rewriting_checks.a_server_is_asked_with_the_question_alone_until_its_reply_can_be_used("inv")


def test_a_prompt_of_ones_own(tmp_path):
    rewriting_checks.a_prompt_of_ones_own("inv", tmp_path / "mine.md")


def test_one_sample_has_one_reply_in_any_batch():
    rewriting_checks.one_sample_has_one_reply_in_any_batch("inv")
