import pytest

from qualm.runners.plugins.perturbations._wording import as_question, finish_edit


@pytest.mark.parametrize(
    "words, question",
    [
        ("How many ", "How many?"), ("Count them.", "Count them?"), ("Why?", "Why?"), ("Why? ", "Why?"), ("为什么？", "为什么？"),
        ("Count. , !", "Count?"), ("e.g. this", "e.g. this?"), ("", "?"), ("Why?.", "Why??"),
    ],
)  # fmt: skip
def test_edited_questions_end_with_a_question_mark(words, question):
    assert as_question(words) == question


def test_an_edit_that_changed_nothing_gives_the_very_question_back():
    assert finish_edit("Count them.", "Count them.") == "Count them." and finish_edit("Count them.", "Count") == "Count?"
