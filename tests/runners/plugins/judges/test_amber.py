import pytest

from qualm.runners.plugins.judges.amber import amber


@pytest.mark.parametrize(
    ("text", "exact", "first_word"),
    [
        ("Yes", 1, 1),
        ("No", 0, 0),
        ("yes", -1, 1),
        ("No.", -1, 0),
        (" No", -1, 0),
        (" Yes", -1, 1),
        ("No, it is not", -1, 0),
        ("**Yes**, it is", -1, 1),
        ("Not at all", -1, -1),
        ("It is", -1, -1),
        ("", -1, -1),
    ],
)
def test_only_the_two_words_count(text, exact, first_word):
    for match, said in (("exact", exact), ("first_word", first_word)):
        (one,) = amber(["Is the sky sunny in this image?"], [["no"]], [text], match=match)
        assert one.marks == {"said": said, "truth": 0}
        assert one.rating == float(said == 0), "what is neither is wrong"
