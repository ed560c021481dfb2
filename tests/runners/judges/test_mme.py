import pytest

from runners.judges.mme import mme


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Yes", 1),
        ("yes.", 1),
        (" No.\n", 0),
        ("y", 1),
        ("N.", 0),
        ("Yes, there is no dog", 1),
        ("No, yes", 0),
        ("Now", 0),
        ("Not at all", 0),
        ("a yes", -1),
        ("The answer is yes", -1),
        ("", -1),
    ],
)
def test_the_first_four_characters(text, said):
    (one,) = mme(["Is there a dog? Please answer yes or no."], [["yes"]], [text])
    assert one.marks == {"said": said, "truth": 1}
    assert one.rating == float(said == 1)
