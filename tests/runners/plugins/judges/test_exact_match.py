import pytest

from qualm.runners.plugins.judges.exact_match import exact_match


@pytest.mark.parametrize(
    ("said", "rating"), [("yes", 1), ("Yes", 1), (" yes\n", 1), ("yes.", 0), ("yes, it is", 0), ("the yes", 0), ("", 0), ("no", 0)]
)
def test_letter_by_letter(said, rating):
    (found,) = exact_match(["Is it red?"], [["yes"]], [said])
    assert (found.rating, found.pred_is_idk) == (rating, False)


def test_options():
    asked = (["?"] * 5, [["T-shirt"]] * 5, ["t-shirt.", "T-shirt", "T-shirt..", "t-shirt", "t-shirt ."])
    assert [j.rating for j in exact_match(*asked, period=True)] == [1, 1, 0, 1, 1]
    assert [j.rating for j in exact_match(*asked, case=True)] == [0, 1, 0, 0, 0]
    assert [j.rating for j in exact_match(["?"] * 2, [["dog", "Dog."]] * 2, ["Dog.", "dog"])] == [1, 1]
