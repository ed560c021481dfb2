import pytest

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._yes_no import judged, yes_or_no


@pytest.mark.parametrize(
    "text, told",
    [
        ("Yes, it is.", "yes"), ("NO", "no"), ("  **yes**", "yes"), ("The answer is no.", "no"), ("answer: yes. Final answer: no", "no"),
        ("No, the answer is yes", "yes"), ("I see no reason to say yes", None), ("It is no cat", "no"), ("nothing", None), ("", None),
        ("yesterday", None), ("maybe yes", "yes"),
    ],
)  # fmt: skip
def test_what_a_reply_comes_to(text, told):
    assert yes_or_no(text) == told


def test_judgements_hold_what_was_said_to_the_reference():
    references = [["Yes"], ["yes"], ["no", "No."], ["maybe"], ["yes", "no"], [], []]
    predictions = ["yes", "no", "hm", "yes", "yes", "I don't know", "yes"]
    assert judged(yes_or_no, ["Q?"] * 7, references, predictions) == [
        Judgement(1.0, False, marks={"said": 1.0, "truth": 1.0}),
        Judgement(0.0, False, marks={"said": 0.0, "truth": 1.0}),
        Judgement(0.0, False, marks={"said": -1.0, "truth": 0.0}),
        Judgement(None, False, parse_ok=False),
        Judgement(None, False, parse_ok=False),
        Judgement(1.0, True),
        Judgement(0.0, False),
    ]
