import pytest

from qualm.runners.plugins.judges.final_answer import final_answer


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("yes", "yes"),
        ("No.", "no"),
        ("Yes, there are two dogs and no cat.", "yes"),
        ("There are two dogs. So yes.", "yes"),
        ("1. the dog on the left\n2. the other dog\nThere is no way to tell.\nAnswer: yes", "yes"),
        ("At first I would say the answer is yes. Looking again there is one only.\n**Final answer:** No", "no"),
        ("ANSWER - NO", "no"),
        ("The answer is: no", "no"),
        ("It could be either, yes or no.", None),
        ("two", None),
        ("", None),
        ("nothing known, eyes", None),
        ("Answer: maybe", None),
    ],
)
def test_what_a_reply_comes_to(reply, said):
    for wanted in ("yes", "no"):
        (found,) = final_answer(["Is it unclear?"], [[wanted]], [reply])
        assert found.rating == (None if said is None else float(said == wanted))
        assert found.parse_ok == (said is not None)


def test_other_references_are_unscored_and_none_means_declining():
    found = final_answer(["?", "?", "?"], [["red"], [], []], ["yes", "I don't know.", "yes"])
    assert [j.rating for j in found] == [None, 1.0, 0.0]
