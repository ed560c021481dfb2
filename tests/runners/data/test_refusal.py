"""Marks of folders that are not to be used."""

from qualm.runners.data.refusal import REFUSED, accept, refusal, refuse


def test_a_mark_says_why_and_can_be_taken_back(tmp_path):
    assert refusal(tmp_path) == "" and not accept(tmp_path)
    refuse(tmp_path, "3 of 4 differ")
    assert refusal(tmp_path) == "3 of 4 differ" and accept(tmp_path) and refusal(tmp_path) == ""


def test_a_mark_that_cannot_be_read_is_one(tmp_path):
    for text in ("", "[]", '{"why": ""}', "{"):
        (tmp_path / REFUSED).write_text(text)
        assert refusal(tmp_path) == "unknown"
