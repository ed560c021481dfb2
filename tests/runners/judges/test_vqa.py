import pytest

from runners.judges.vqa import accuracy, normalise, vqa


@pytest.mark.parametrize(("same", "expected"), [(0, 0), (1, 0.3), (2, 0.6), (3, 0.9), (4, 1), (7, 1), (10, 1)])
def test_agreement_with_ten_people(same, expected):
    assert accuracy("cat", ["cat"] * same + ["dog"] * (10 - same)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,000", "1000"),
        ("The Cat.", "cat"),
        ("ice-cream", "ice cream"),
        ("dont know", "don't know"),
        ("U.S.A.", "usa"),
        ("3.5", "3.5"),
        ("5.", "5"),
        ("$5.00", "$5.00"),
        ("5:30 pm", "5:30 pm"),
        ("none", "0"),
        ("a", ""),
        ("yes,it is", "yes it is"),
        ("it's", "it's"),
    ],
)
def test_normalisation(text, expected):
    assert normalise(text) == expected


def test_normalised_only_where_the_references_differ():
    found = vqa(["?"] * 2, [["yes"] * 10, ["yes"] * 9 + ["no"]], ["Yes", "Yes"])
    assert [j.rating for j in found] == [0, 1]


def test_fewer_references_and_refusals():
    assert accuracy("cat", ["cat", "cat", "dog"]) == pytest.approx((1 / 3 + 1 / 3 + 2 / 3) / 3)
    found = vqa(["?"] * 3, [["cat"], [], ["cat", "cat"]], ["cat", "I don't know", "I don't know"])
    assert [(j.rating, j.pred_is_idk) for j in found] == [(None, False), (1, True), (0, True)]


def test_a_refusal_may_stand_for_what_people_wrote():
    people = ["unanswerable"] * 3 + ["soup"] * 7
    asked = (["What is in the can?"] * 3, [people] * 3, ["I can't tell from the picture.", "unanswerable", "soup"])
    assert [j.rating for j in vqa(*asked)] == pytest.approx([0.0, 0.9, 1.0])
    as_people_say = vqa(*asked, refusal="unanswerable")
    assert [j.rating for j in as_people_say] == pytest.approx([0.9, 0.9, 1.0])
    assert as_people_say[0].pred_is_idk is True
