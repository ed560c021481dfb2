"""IVE: by rules from scene graphs, and by a server that sees; null is left out and counted, and one reply serves AMB and IVE."""

import pytest

from tests.support.checks import rewriting_checks


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_by_rules_from_the_scene_graph():
    rewriting_checks.rules_read_the_scene_graph("ive", "reason_unanswerable")


def test_a_server_that_sees_and_null_is_left_out():
    rewriting_checks.a_server_sees_and_null_is_left_out("ive", "amb", "What does the dog look at?", {"reason_unanswerable": "Out of Frame"})
