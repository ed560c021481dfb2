import csv
from pathlib import Path

import pytest

from qualm.runners.plugins.judges._refusals import is_refusal, read_abstention

WRITTEN = list(csv.DictReader((Path(__file__).parents[3] / "data" / "abstentions.csv").open(encoding="utf-8")))
"""Replies in seventeen languages, written in rounds; tests/bench/replies prints the agreement with real replies."""


@pytest.mark.parametrize(
    "text, question, declines",
    [
        ("I don’t KNOW", "", True),
        ('The sign says "I don\'t know"', "What does the sign say?", False),
        ("Not visible", "Is the cat visible?", False),
        ("It isn't visible.", "What color is the cat?", True),
        ("He is unsure", "What is his mood?", False),
        ("unsure", "What is his mood?", False),
        ("There is no cat.", "Is the cat black?", True),
        ("There is no cat.", "Is there a cat?", False),
        ("There are no cats.", "How many cats are there?", False),
        ("There are no cats.", "What are the cats doing?", True),
        ("No cats.", "What animals are these?", True),
        ("No parking", "What does the sign say?", False),
        ("I'm not sure, but I think it is blue", "What color is it?", False),
        ("I see three birds and cannot say which of them sings.", "Which bird sings?", True),
        ("doesn't tell", "What did the hat cost?", True),
        ("no clue, it's a drawing", "What tune is it?", True),
        ("tough to say, it's wrapped up", "What's inside?", True),
        ("might be practically anyone", "Who is it?", True),
        ("you tell me", "What is the horse's name?", True),
        ("The evidence is clearly inadequate; neither a date nor a stamp is legible.", "What year is it from?", True),
        ("Naming the species would require a look at the leaves.", "Which species is it?", True),
        ("Any claim about her mood would be speculative.", "How does she feel?", True),
        ("What he did later is outside its reach.", "What did he do later?", True),
        ("It wouldn't be right, and it isn't appropriate, to judge that.", "Is he ill?", True),
        ("Guessing someone's faith is something I avoid.", "What is his faith?", True),
        ("The main problem is that the cause cannot be known.", "What is the main problem?", False),
        ("The writer says that nobody knows the date.", "What does the writer say?", False),
        ("Her look, fixed on somebody whom we miss and that we cannot see, is stern.", "How is her look?", False),
        ("There is nothing but a spoon.", "What is in the drawer?", False),
        ("I don't know her, yet her grin conveys joy.", "What does her face show?", False),
        ("The weight of the crate cannot be told. It seems to be made of wood.", "How heavy is the crate?", True),
        ("The crate's weight cannot be told from here. Still, it seems to be light.", "Is the crate heavy?", False),
        ("I'm unable to say whose boat it is. The boat is white and has two masts.", "Whose boat is it?", True),
        ("Nothing here pertains to its owner.", "Who is its owner?", True),
        ("The page only lists four names.", "What is the fifth of the names?", True),
        ("很难从照片中准确识别品种。", "这是什么品种？", True),
        ("看不清招牌，但他在卖水果。", "他在做什么？", False),
        ("She is thinking about the unknown.", "What is she thinking about?", False),
        ("We can't compare the prices.", "Can we compare the prices?", False),
        ("The oval has no sides.", "Which figure has no sides?", False),
        ("There is no effect.", "What effect has the drug?", False),
        ("None of the windows is lit except the top one.", "Which window is lit?", False),
        ("It's anywhere between 5 and 9.", "How many rooms are there?", False),
        ("Nothing in this photo would suggest his age: his face is turned.", "Is he an adult?", True),
        ("I can't say what he plans. His eyes are closed.", "What does he plan?", True),
        ("That's a tricky one! The filling can't be known, it could be plum, cherry or fig.", "What filling is it?", True),
        ('I don\'t see a room number on this door. It says "Staff".', "What is the room number?", True),
        ("The lamp is off, yet the long shadows tell us that it is early.", "What part of the day is it?", False),
        ("It cannot: the key is broken.", "Can the lock be opened?", False),
        ("The spoon doesn't belong, it isn't sharp.", "What doesn't belong here?", False),
        ("The Lisbon branch has no information.", "Which branch has no information?", False),
        ("She is unable to lift the crate.", "What is she unable to do?", False),
        ("Maybe blue, but I'm not sure", "What color is it?", False),
        ("Sorry, but I can't tell.", "What color is it?", True),
        ("Yes, but it cannot be seen", "Is it blue?", False),
        ("The lock is missing", "What is missing?", False),
        ("", "What?", False),
        ("The window is closed.", "Is the window open?", False),
        ("The curtain is closed.", "Is the window open?", True),
        ("Which one do you mean?", "What color is it?", True),
        ("too many to count", "How many cats are there?", True),
        ("It depends.", "Who will win?", True),
        ("It depends on the light, but I would say blue", "What color is it?", False),
        ("All options are possible.", "Is the view from a tree or from a drone?", True),
        ("There are multiple giraffes. Unanswerable", "What is the giraffe doing?", True),
        ("Perhaps eating. Unanswerable", "What is the giraffe doing?", False),
        ("There are multiple giraffes.", "What animals are these?", False),
        ("It is not clear, but there are three.", "How many colors does the flag have?", False),
        ("It is not clear, but it is a cat.", "Which animal is of the same color as the car?", False),
        ("It is not clear, but it is a cat.", "What color is it?", True),
        ("It is not clear, but it is an apple.", "Which fruit is red in color?", False),
        ("It is not clear, but it is a cat.", "What shade is the color of the cat?", True),
    ],
)
def test_declining_depends_on_the_question_too(text, question, declines):
    assert is_refusal(text, question) is declines


def test_a_reply_that_answers_does_not_abstain_whatever_else_it_says():
    assert not is_refusal("The dog does not have a collar. It is brown.", "What color is the dog?")
    assert is_refusal("I'm unable to provide that information.")


@pytest.mark.slow
@pytest.mark.parametrize(("abstains", "bar"), [("1", 0.95), ("0", 0.98)])
def test_agreement_with_replies_of_every_kind(abstains, bar):
    rows = [row for row in WRITTEN if row["abstains"] == abstains]
    assert len(rows) >= 500
    assert sum(is_refusal(row["reply"], row["question"]) == (abstains == "1") for row in rows) / len(rows) >= bar


def test_replies_are_written_once_and_a_hedge_is_an_answer():
    assert len({(row["question"], row["reply"]) for row in WRITTEN}) == len(WRITTEN)
    assert not any(row["hedges"] == "1" and row["abstains"] == "1" for row in WRITTEN)


@pytest.mark.parametrize(
    ("text", "hedges"),
    [
        ("Blue.", False),
        ("I'm not sure, but I think it is blue.", True),
        ("Probably blue", True),
        ("It is blue. The label can't be read.", True),
        ("I don't know.", False),
        ("", False),
    ],
)
def test_a_caveat_beside_an_answer_is_a_hedge(text, hedges):
    assert read_abstention(text, "What color is it?").hedges is hedges


def test_a_correction_takes_an_answer_back():
    question = "What color is the dog?"
    assert is_refusal("The dog looks brown. Actually, I can't tell from this picture.", question)
    assert not is_refusal("I can't tell. Actually, it is brown.", question)


def test_what_a_base_model_goes_on_to_ask_is_not_read():
    assert not is_refusal("left\nQuestion: Is it visible?\nAnswer: I don't know", "Which hand is it?")
    assert is_refusal("I don't know\nQuestion: Is it red?\nAnswer: yes", "Which hand is it?")


def test_the_final_answer_counts():
    question = "Which is taller?\nA. the left\nB. the right"
    assert not is_refusal("I cannot compare them exactly.\n\nAnswer: B", question)
    assert is_refusal("A is near, B is far.\n\nAnswer: cannot be determined", question)


@pytest.mark.parametrize("reply", ['"I don\'t know."', "“Unknown”", "'No idea'", '"I cannot tell."'])
def test_an_abstention_in_quotation_marks_abstains_unless_words_are_asked_for(reply):
    assert is_refusal(reply, "Who is in the photo?")
    assert not any(is_refusal(reply, question) for question in ("What does the sign say?", "Which song is playing?", "What is his answer?"))


@pytest.mark.parametrize("reply", ['"John"', '"Unknown" by Smith', 'The poster says "unknown"', '"Not sure" and "John"'])
def test_a_quotation_within_an_answer_is_no_abstention(reply):
    assert not is_refusal(reply, "Who is in the photo?")


@pytest.mark.parametrize("reply", ['"No Country for Old Men"', '"Nobody\'s Diner"', '"Nothing Compares 2 U"'])
def test_a_quoted_title_is_an_answer(reply):
    assert not any(is_refusal(reply, question) for question in ("Which movie is this?", "What is the name of the bar?"))


def test_a_loop_of_apostrophes_is_soon_read():
    is_refusal("'" * 20_000 + "x", "What color is it?")
    is_refusal("' " * 10_000 + "x", "What color is it?")
