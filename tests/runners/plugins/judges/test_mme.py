import pytest

from qualm.runners.plugins.judges.mme import mme


@pytest.mark.parametrize(
    ("text", "official", "lmms_eval"),
    [
        ("Yes", 1, 1),
        ("yes.", 1, 1),
        (" No.\n", 0, 0),
        ("   No", -1, 0),
        ("..no", 0, 0),
        ("...no", -1, 0),
        ("y", -1, 1),
        ("N.", -1, 0),
        ("Yes, there is no dog", 1, 1),
        ("No, yes", 0, 0),
        ("Now", 0, 0),
        ("Not at all", 0, 0),
        ("a yes", -1, -1),
        ("The answer is yes", -1, -1),
        ("", -1, -1),
    ],
)
def test_the_first_four_characters(text, official, lmms_eval):
    """The official tool takes the answer as it stands; lmms-eval strips it first. Both rules written out from their sources."""
    for rule, said in (("official", official), ("lmms_eval", lmms_eval)):
        (one,) = mme(["Is there a dog? Please answer yes or no."], [["yes"]], [text], rule=rule)
        assert one.marks == {"said": said, "truth": 1}
        assert one.rating == float(said == 1)
