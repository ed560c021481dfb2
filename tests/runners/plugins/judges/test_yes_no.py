import pytest

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._yes_no import rate_yes_no, yes_or_no
from qualm.runners.plugins.judges.rules import rules

READINGS = {
    "yes": [
        "Yes", "yes.", "YES!", "Yeah", "yep, that's a dog", "Yup", "Sure.", "Of course.", "Absolutely", "That's correct.",
        "It is true.", "Correct.", "Indeed, it is.", "是的", "是的,图中有一只狗。", "对", "はい", "はい、そうです。", "ええ",
        "Oui", "Oui, il y en a un.",
        "sí", "Sí, hay un perro.", "Ja", "Ja, das ist richtig.", "Да", "Да, есть.", "Sim", "네", "예, 있습니다.", "نعم", "Tak.", "Evet",
        "हाँ", "The answer is yes.", "**Answer:** Yes", "Answer: yes, there are two", "\\boxed{yes}", "No. Wait, actually yes.",
        "no longer in doubt: yes", "There is no doubt: yes, it is.", "{\"answer\": \"yes\"}", "<answer>Yes</answer>",
        "I would say yes.", "So the answer is definitely yes.", "Final answer - YES", "Yes, there is no cat but there is a dog.",
        "I'd say yes, since I see the tail", "The dog is there. So yes.", "I looked twice.\nYes", "No\n\nYes", "Hmm, yes.", "Affirmative",
        "The statement is true.", "Yes, I believe so, although there is some blur.", "it's a yes from me", "My answer: Yes", "y",
        "I guess so", "Seems so.", "Seems like it", "Sure is.", "Without a doubt.", "Most certainly", "Apparently so", "Indeed there is.",
        "ใช่", "They do", "It has.", "Maybe yes", "Yes, and no cats are visible.",
        "Yes, there is a dog. There is also no cat.", "Yes, probably not a big dog.",
    ],
    "no": [
        "No", "no.", "NO!", "Nope", "nah", "No way.", "Not at all.", "Not that I can see", "Not really.", "Definitely not.",
        "That's not correct.", "That is false.", "Incorrect.", "I don't think so.", "There is no dog.", "There isn't one.",
        "There are no dogs in the image.", "不是", "不是,这是一只猫。", "没有", "否", "いいえ", "いいえ、違います",
        "Non", "Non, il n'y en a pas.", "Nein",
        "nein, da ist kein Hund", "Нет", "Não", "아니요", "아니요, 없습니다.", "لا", "Nie.", "Hayır", "नहीं", "The answer is no.",
        "The answer is not yes", "**Final answer:** No", "Yes. Hmm, actually: No.", "Yes... no, sorry, the answer is no.",
        "At first I thought yes, but the answer is no.", "\\boxed{\\text{No}}", "I would say no.", "Therefore, no.",
        "No, it is not.", "It is not the case.", "Not in this image.", "I can't see any.", "n", "Negative", "Not true.",
        "They don't.", "It cannot.", "She is not.", "Doesn't seem so", "It does not appear so.", "It appears not.", "Apparently not",
        "Nothing of the sort.", "ไม่ใช่", "Apparently there is no dog", "I think not.", "Certainly, no dog is here.",
    ],
    None: [
        "Yes/No", "yes or no", "Yes and no", "[Yes/No]", "maybe", "It depends.", "I don't know.",
        "I cannot tell whether the answer is yes or no.", "No idea.", "", "...", "The dog is brown.", "nothing", "Not sure.",
        "It could be yes, it could be no.", "no doubt about it", "No one can tell.", "Choose yes or no.", "Is it yes? Is it no?",
        "I can't say yes.", "two", "Noah", "yesterday", "No. 5", "Not necessarily.", "It's hard to say yes with certainty.",
        "Perhaps", "The answer is unclear.", "ninguno", "Surely you jest", "It appears not to be raining.", "None", "Absent", "Not there.",
        "There is not; perhaps yes", "It is not, but maybe yes", "It is yes, maybe no",
        "Maybe yes, maybe no", "Maybe yes, maybe not.", "Perhaps yes, perhaps no. The image is blurry.", "Perhaps yes, perhaps not",
        "It may be no, or it may be yes.", "Maybe yes.\nMaybe no.\nIt is blurry.", "The answer is maybe yes, maybe no.",
        "Yes, no", "No. Yes.", "Yes, or no", "Yes, but also no.", "Yes, maybe not", "It could be yes or no", "Probably not, possibly yes",
    ],
}  # fmt: skip
"""Replies by what they say: plain, informal, corrected, denied, foreign; or neither."""


@pytest.mark.parametrize(("said", "rated"), [("yes", {(1, 0)}), ("no", {(0, 1)}), (None, {(None, None), (0, 0)})])
def test_every_way_to_say_it(said, rated):
    """Read, and rated against yes and against no; what says neither is unscored, or an abstention."""
    for reply in READINGS[said]:
        judged = rules(["Is there a dog in the image?"] * 2, [["yes"], ["no"]], [reply] * 2)
        assert yes_or_no(reply) == said and tuple(j.rating for j in judged) in rated, reply
        assert (said is None and judged[0].rating == 0) is judged[0].pred_is_idk, reply


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
    assert rate_yes_no(yes_or_no, ["Q?"] * 7, references, predictions) == [
        Judgement(1.0, False, marks={"said": 1.0, "truth": 1.0}),
        Judgement(0.0, False, marks={"said": 0.0, "truth": 1.0}),
        Judgement(0.0, False, marks={"said": -1.0, "truth": 0.0}),
        Judgement(None, False, parse_ok=False),
        Judgement(None, False, parse_ok=False),
        Judgement(1.0, True),
        Judgement(0.0, False),
    ]
