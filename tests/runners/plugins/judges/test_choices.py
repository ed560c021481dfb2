"""The reader of multiple-choice replies, held to labelled replies of our own (tests/data/choices.csv) and to itself."""

import csv
import string
import time
from collections import Counter
from pathlib import Path

import pytest

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._choices import OptionReading, judged, read
from qualm.runners.plugins.judges.rules import rules

LABELLED = list(csv.DictReader((Path(__file__).parents[3] / "data" / "choices.csv").open(encoding="utf-8")))
CUP = ["tea", "juice", "milk", "coffee"]


def reads(reply, choices=CUP, question="What is in the cup?"):
    """As the table has it: a letter, `idk`, or nothing where it cannot be read."""
    found = read(reply, choices, question)
    return "idk" if found.declines else "" if found.place is None else string.ascii_uppercase[found.place]


def agreement(split):
    rows = [r for r in LABELLED if r["split"] == split]
    return sum(reads(r["reply"], r["choices"].split("|"), r["question"]) == r["reads"] for r in rows) / len(rows)


def test_the_table_has_every_kind_and_none_twice():
    assert len(LABELLED) >= 260 and len({(r["choices"], r["reply"]) for r in LABELLED}) == len(LABELLED)
    kinds = Counter(r["kind"] for r in LABELLED)
    assert kinds.keys() == {
        *("letter", "letter and text", "announced", "reasoning", "text", "article", "denial", "several", "refusal"),
        *("yes or no", "numbers", "overlap"),
    }
    assert min(kinds.values()) >= 8 and {r["reads"] for r in LABELLED} >= {"", "idk", "A", "B", "C", "D"}


@pytest.mark.parametrize("split", ["dev", "later"])
def test_agreement_with_the_labels(split):
    """All: what a reader of these replies would say. The later ones were 81 of 84 before the rules were mended by them."""
    assert agreement(split) == 1


def test_the_sixteen_that_were_mis_scored():
    """Replies as VLMEvalKit records them; 11 of 16 name the right option, two decline, one names two."""
    replies = {
        "D": "D", "D. coffee": "D", "(D)": "D", "D)": "D", "The answer is (B)": "B", "coffee": "D", "A. coffee": "A", "**D**": "D",
        "Answer: D": "D", "the correct option is D.": "D", "It is coffee.": "D", "I am not sure": "idk", "D\n\nThe cup holds coffee.": "D",
        "A or D": "", "I cannot tell.": "idk", "d": "D",
    }  # fmt: skip
    assert {reply: reads(reply) for reply in replies} == replies
    found = rules(["What is in the cup?"] * 16, [["coffee", "D"]] * 16, list(replies), [CUP] * 16)
    assert sum(j.rating or 0 for j in found) == 11
    assert [j.pred_is_idk for j in found].count(True) == 2 and [j.parse_ok for j in found].count(False) == 1


def test_the_order_of_options_does_not_matter():
    """A text names its option wherever that stands; a letter its place."""
    for turned in (CUP, CUP[::-1], [*CUP[2:], *CUP[:2]]):
        place = turned.index("milk")
        letter = string.ascii_uppercase[place]
        for reply in ("milk", "A milk", "It is milk.", f"{letter}", f"{letter}. milk", f"The answer is {letter}.", f"({letter})"):
            assert read(reply, turned) == OptionReading(place), (reply, turned)


@pytest.mark.parametrize("letter", string.ascii_uppercase[:12])
def test_every_letter_in_every_dress(letter):
    options = [f"thing number {n}" for n in range(100, 112)]
    place = string.ascii_uppercase.index(letter)
    for dress in (
        "{}",
        "{}.",
        "({})",
        "{})",
        "[{}]",
        "**{}**",
        "{}: it fits",
        "The answer is {}",
        "Answer: {}",
        "Option {}",
        "\\boxed{{{}}}",
    ):
        assert read(dress.format(letter), options) == OptionReading(place), dress.format(letter)


@pytest.mark.parametrize("reply", ["(A) a red cube (B) a blue ball C", "A) a red cube, B) a blue ball; it must be C)"])
def test_two_options_that_are_said_again_are_not_the_choice(reply):
    assert read(reply, ["a red cube", "a blue ball", "two cats"]) == OptionReading(2)


@pytest.mark.parametrize("reply", ["", " ", "...", "?!", "\x00", "\ud800", "🙂", "\n\n", "|", "\\boxed{", "<answer>", "("])
def test_replies_of_no_words(reply):
    assert reads(reply) == ""


@pytest.mark.parametrize("options", [[], [""], ["", ""], ["?", "!"], ["tea", ""], ["tea", "tea"], ["A", "B"]])
def test_odd_options(options):
    assert read("tea and more", options).place in (None, 0)
    assert read("B", options).place == (1 if len(options) > 1 else None)


@pytest.mark.parametrize("words", ["D ", "coffee ", "the answer is ", "not ", "A or ", "tea coffee ", "(", "A. tea "])
def test_a_model_that_repeats_itself_is_soon_read(words):
    """Time grows with the length and not with its square."""
    start = time.process_time()
    read(words * (100_000 // len(words)), [*CUP, "tea coffee tea"])
    assert time.process_time() - start < 5


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


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("The answer is A. Or B.", ""),  # a word joins two options over the end of a sentence
        ("Answer: A. And B.", ""),
        ("Answer: A. Or maybe C.", ""),
        ("The answer is A. B is juice.", "A"),  # without one, another sentence is about another option
        ("The answer is A; B is juice.", "A"),
        ("Answer: A/B", ""),
    ],
)
def test_what_joins_two_options(reply, letter):
    assert reads(reply) == letter


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("C it is, as B is wrong", "C"),
        ("C it is, as B cannot be", "C"),
        ("C it is, as B can be ruled out", "C"),
        ("It is not B, it is milk", "C"),
        ("B is right, though A was my first thought", "B"),
        ("It is not so that B is right, A fits better", "A"),
        ("The answer is b", "B"),
        ("I looked at it. b", "B"),
        ("(A) (B)", ""),
        ("The answer is tea and the milk", ""),
        ("The answer is tea and contains no milk", "A"),  # too far behind "and" to be named with it
        ("My answer is as follows: the coffee, since tea is cold", "D"),
        ("My answer follows. The tea stands by the coffee.", ""),  # another sentence announces nothing
    ],
)
def test_what_is_said_of_other_options(reply, letter):
    assert reads(reply) == letter


@pytest.mark.parametrize(
    ("reply", "options", "letter"),
    [
        ("juice", ["tea"], ""),
        ("A is right", ["B is right", "A is right"], "B"),  # the words of an option, which come before its letters
        ("milk", ["tea", ""], ""),
        ("", ["tea", ""], ""),
        ("False, for it would be true of tea", ["true", "false"], "B"),
        ("No, they say yes at times", ["yes", "no"], "B"),
    ],
)
def test_few_options(reply, options, letter):
    assert reads(reply, options) == letter
