import pytest

from qualm.runners.plugins.judges.oodcv_vqa import oodcv_vqa


def rating(reference, prediction):
    (one,) = oodcv_vqa(["How many cats are there in the image?"], [[reference]], [prediction])
    return one.rating


@pytest.mark.parametrize(
    ("reference", "prediction", "right"),
    [
        ("2", "There are two cats.", 1),
        ("2", "Two", 0),
        ("2", "2", 1),
        ("2", "12", 1),
        ("1", "none", 1),
        ("1", "a single cat", 1),
        ("1", "There is a cat", 0),
        ("0", "0", 0),
        ("0", "There are not any", 1),
        ("0", "zero", 1),
        ("3", "3.5, four", 1),
        ("5", "3.5", 0),
        ("4", "There are .4 of them. four", 0),
        ("4", "I see a dog. There are four cats.", 1),
        ("4", "a.b" * 32 + " four", 1),
        ("4", "a.b" * 33 + " four", 0),  # as in VQA's evaluation, 32 full stops are deleted and no more
        ("4", "twenty-four", 1),
        ("2", "t-wo", 0),
        ("2", "t?wo t? ", 1),
        ("Yes", "Yes, there is.", 1),
        ("Yes", "YES", 0),
        ("Yes", "Yeah", 1),
        ("No", "I do not know", 1),
        ("No", "Yes", 0),
    ],
)
def test_as_the_script_reads(reference, prediction, right):
    assert rating(reference, prediction) == right


def test_what_it_is_not_for():
    found = oodcv_vqa(["?"] * 3, [["red"], ["1", "2"], []], ["red", "one", "I don't know"])
    assert [(j.rating, j.parse_ok) for j in found] == [(None, False), (None, False), (1.0, True)]
