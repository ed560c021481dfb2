import pytest

from qualm.runners.contracts.saliency import answer_of

ROW = {"answerable": True, "references": [], "choices": [], "answer_index": None}


@pytest.mark.parametrize(
    "changes, answer",
    [
        ({"references": ["red", "blue", "blue"]}, "blue"),
        ({"references": ["red", "blue"]}, "red"),
        ({"choices": ["cat", "dog"], "answer_index": 1}, "dog"),
        ({"choices": ["cat", "dog"], "answer_index": 0, "references": ["cow"]}, "cow"),
        ({}, None),
        ({"answerable": False, "references": ["I don't know"]}, None),
    ],
)
def test_the_answer_is_the_commonest_reference_or_the_right_option(changes, answer):
    assert answer_of({**ROW, **changes}) == answer
