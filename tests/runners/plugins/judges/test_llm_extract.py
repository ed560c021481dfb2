from collections import Counter

import pytest

from qualm.runners.scoring.apply_judge import Answered, judge
from tests.support.servers.asked_judge import SETTINGS, prompt_of
from tests.support.servers.small_server import serving

CUP = ("tea", "juice", "milk", "coffee")
EXTRACTED = {
    "It is the drink that cows give.": "C",
    "I weighed both of them and cannot settle on one.": "NO ANSWER",
    "The picture is too blurred for me.": "**DECLINES**",
    "Two rows of seven, so fourteen.": "Answer: 14",
    "It came to 3 and then to 4.": "no answer.",
    "The lamp glows.": "yes",
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def extract(body, nth):
    return next(short for reply, short in EXTRACTED.items() if f"Reply: {reply}" in prompt_of(body))


def apply(server, name, answers, **args):
    by = {"plugin": "openai", "args": {"model": "m", "base_url": server.url}}
    fallback = {"plugin": "llm_extract", "args": {"by": by}}
    counters = Counter()
    ref = {"label": name, **(fallback if name == "llm_extract" else {"plugin": name, "args": {"otherwise": fallback, **args}})}
    return judge(ref, answers, SETTINGS, counters), counters


def of_cup(reply, right="C"):
    return Answered("What is in the cup?", (CUP["ABCD".index(right)], right), reply, choices=CUP)


def test_options_that_a_reply_describes_are_read():
    answers = [of_cup("It is the drink that cows give."), of_cup("It is the drink that cows give.", "A"), of_cup("(C)")]
    with serving(extract) as server:
        judged, counters = apply(server, "option_match", answers)
    assert [j.rating for j in judged] == [1, 0, 1]
    assert [j.reply for j in judged] == ["C", "C", None], "what the model said is kept; a reply that rules read is not sent"
    assert counters["left to another judge"] == 2 and counters["replies computed"] == 1, "equal prompts are asked once"


def test_the_model_sees_no_reference():
    with serving(extract) as server:
        apply(server, "option_match", [of_cup("It is the drink that cows give.")])
        sent = prompt_of(server.bodies[0])
    assert "Options: \nA. tea\nB. juice\nC. milk\nD. coffee\n" in sent
    assert sent.count("milk") == 1, "among the options alone"


def test_options_beyond_the_letters_are_listed_with_their_numbers():
    options = tuple(f"thing number {n}" for n in range(100, 130))
    said = Answered("Which?", (options[27], "28"), "It is the last but two.", choices=options)
    with serving(lambda body, nth: "28") as server:
        judged, _ = apply(server, "option_match", [said])
        assert "\nZ. thing number 125\n27. thing number 126\n28. thing number 127\n" in prompt_of(server.bodies[0])
    assert [(j.rating, j.reply) for j in judged] == [(1, "28")]


def test_no_answer_and_declining_are_no_guess():
    with serving(extract) as server:
        judged, _ = apply(server, "option_match", [of_cup("I weighed both of them and cannot settle on one.")])
        alone, _ = apply(
            server,
            "llm_extract",
            [
                Answered("How many?", ("4",), "It came to 3 and then to 4."),
                Answered("How many?", ("4",), "The picture is too blurred for me."),
                Answered("How many?", (), "The picture is too blurred for me."),
            ],
        )
    assert [(j.rating, j.parse_ok) for j in judged] == [(None, False)]
    assert [(j.rating, j.pred_is_idk, j.parse_ok) for j in alone] == [(None, False, False), (0, True, True), (1, True, True)]


def test_open_answers_are_extracted_and_then_judged_by_rules():
    answers = [Answered("How many?", (right,), "Two rows of seven, so fourteen.") for right in ("14", "12")]
    with serving(extract) as server:
        judged, _ = apply(server, "llm_extract", answers)
        assert "Options: none, the question is open\n" in prompt_of(server.bodies[0])
    assert [(j.rating, j.reply) for j in judged] == [(1, "Answer: 14"), (0, "Answer: 14")]


@pytest.mark.parametrize("name", ["rules", "final_answer"])
def test_yes_or_no_that_rules_leave_unread(name):
    with serving(extract) as server:
        judged, counters = apply(server, name, [Answered("Is it on?", ("yes",), said) for said in ("The lamp glows.", "No.")])
    assert [j.rating for j in judged] == [1, 0] and counters["left to another judge"] == 1


def test_an_empty_reply_is_not_sent():
    with serving(extract) as server:
        judged, _ = apply(server, "llm_extract", [Answered("How many?", ("4",), " ")])
        assert server.bodies == []
    assert [(j.rating, j.parse_ok) for j in judged] == [(None, False)]
