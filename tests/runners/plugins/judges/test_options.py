import pytest

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._choices import OptionReading
from qualm.runners.plugins.judges._options import judged


@pytest.mark.parametrize(
    "reading, references, on_failure, expected",
    [
        (OptionReading(1), ["dog", "B"], "unscored", Judgement(1.0, False)),
        (OptionReading(0), ["dog", "B"], "unscored", Judgement(0.0, False)),
        (OptionReading(declines=True), ["dog", "B"], "unscored", Judgement(0.0, True)),
        (OptionReading(declines=True), [], "unscored", Judgement(1.0, True)),
        (OptionReading(1), [], "unscored", Judgement(0.0, False)),
        (OptionReading(), ["dog", "B"], "unscored", Judgement(None, False, parse_ok=False)),
        (OptionReading(), ["dog", "B"], "wrong", Judgement(0.0, False, parse_ok=False)),
    ],
)
def test_the_option_that_is_named_is_held_to_the_right_one(reading, references, on_failure, expected):
    asked = []

    def read(prediction, choices, question):
        asked.append((prediction, choices, question))
        return reading

    assert judged("Q?", references, "reply", ["cat", "dog"], read, on_failure) == expected
    assert asked == [("reply", ["cat", "dog"], "Q?")]


@pytest.mark.parametrize("on_failure", ["unscored", "wrong"])
def test_a_question_without_options_is_not_scored(on_failure):
    unread = Judgement(None, None, parse_ok=False)
    assert judged("Q?", ["dog"], "dog", [], lambda *_: OptionReading(1), on_failure) == unread
