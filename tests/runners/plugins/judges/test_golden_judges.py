"""What every judge that asks nobody says of some seven hundred answers, for each of its settings, held to tests/golden/judges.json.

The answers are sentences put together at random from what models say when they choose, hedge, decline, count or say yes. After a change
that is meant: HELD=write pytest tests/runners/plugins/judges/test_golden_judges.py
"""

from __future__ import annotations

import random
from typing import Any, get_args

import pytest

from qualm.registry.plugins import rule
from qualm.runners.contracts.judges import Judgement
from tests.support.checks.held_numbers import held

BEGIN = [
    "",
    "The answer is",
    "Answer:",
    "I think it is",
    "It could be",
    "It is not",
    "Yes,",
    "No.",
    "No, there is",
    "Sure!",
    "Final answer:",
    "I'm not sure, but",
    "I cannot tell",
    "Unanswerable",
    "Not",
    "So",
    "<think>maybe B</think>",
    "Option",
    "**",
    "As an AI I can't see",
    "There's no",
    "Is it",
    "Neither",
    "Both",
    "Correct option:",
]
MIDDLE = [
    "A",
    "(B)",
    "C.",
    "d",
    "b)",
    "a red cube",
    "the blue ball",
    "two cats",
    "2 cats",
    "red",
    "Red cube",
    "a ball",
    "none of these",
    "cats",
    "yes",
    "no",
    "3",
    "three",
    "A or B",
    "A and C",
    "B, not C",
    "A.",
    "the 2nd",
    "10.0",
    "isn't it",
    "dont know",
    "e",
]
END = [
    "",
    ".",
    "!",
    "?",
    "**",
    " a red cube",
    " because it is round.",
    " or two cats",
    ", not a blue ball.",
    "\nB",
    "\nA. a red cube\nB. a blue ball",
    " I don't know.",
    " if anything",
    ", but I am not certain",
    " (a blue ball)",
    " No.",
    " yes",
]
OPTIONS = [["a red cube", "a blue ball", "two cats", "none of these"], ["red", "Red", "blue"], ["yes", "no"], ["3", "10", "a", "B"]]
QUESTIONS = ["What is in the picture?", "Is there a cube?", "How many cats are there?", "What color is the ball?"]
REFERENCES = [["a red cube", "red cube"], ["yes"], ["no"], ["two", "2"], [], ["red"] * 7 + ["blue"] * 3, ["3"], ["I don't know"]]
TIMES = 700


def replies() -> list[str]:
    rng = random.Random(7)
    every = [f"{rng.choice(BEGIN)} {rng.choice(MIDDLE)}{rng.choice(END)}".strip() for _ in range(TIMES - len(MIDDLE))]
    return ["", *every, *MIDDLE]


def settings_of(plugin: rule.Plugin) -> list[tuple[str, dict[str, Any]]]:
    settings: list[tuple[str, dict[str, Any]]] = [("default", {})]
    for parameter in plugin.parameters:
        choices = get_args(parameter.annotation) if "Literal" in parameter.text else ()
        choices = (True, False) if isinstance(parameter.default, bool) else choices
        settings += [(f"{parameter.name}={value}", {parameter.name: value}) for value in choices if value != parameter.default]
    return settings


def code(judgement: Judgement) -> str:
    """Rating, whether it declines, whether it was read, and what was measured beside it, in a few letters."""
    rating = "-" if judgement.rating is None else f"{judgement.rating:.3g}"
    declines = {True: "d", False: "", None: "?"}[judgement.pred_is_idk]
    marks = "".join(f"[{value:.3g}]" for _, value in sorted(judgement.marks.items()))
    return f"{rating}{declines}{'' if judgement.parse_ok else '!'}{marks}"


OWN = [name for name in rule.names("judges") if rule.get("judges", name).reads[0] != "context"]


@pytest.mark.parametrize("name", OWN)
def test_judgements_are_as_ever(name: str) -> None:
    plugin, function, shown = rule.get("judges", name), rule.load("judges", name), {}
    texts, reads = replies(), plugin.declares.get("READS", ())
    for setting, options in settings_of(plugin):
        rng = random.Random(3)
        questions = [rng.choice(QUESTIONS) for _ in texts]
        if "choices" in plugin.reads:
            choices = [[] if "open" in reads and i % 5 == 0 else rng.choice(OPTIONS) for i in range(len(texts))]
            rights = [rng.randrange(len(own)) if own else 0 for own in choices]
            references = [
                ([own[right], "ABCD"[right]] if own else rng.choice(REFERENCES)) if rng.random() < 0.9 else []
                for own, right in zip(choices, rights, strict=True)
            ]
            judged = function(questions, references, texts, choices, **options)
        else:
            judged = function(questions, [rng.choice(REFERENCES) for _ in texts], texts, **options)
        shown[setting] = [" ".join(map(code, judged[i : i + 25])) for i in range(0, len(judged), 25)]
    held("judges.json", name, shown)


def test_the_answers_are_of_every_kind() -> None:
    judged = rule.load("judges", "rules")(["What is it?"] * TIMES, [["a red cube", "A"]] * TIMES, replies()[:TIMES], OPTIONS[:1] * TIMES)
    ratings = [one.rating for one in judged]
    assert min(ratings.count(1.0), ratings.count(0.0), ratings.count(None), sum(one.pred_is_idk is True for one in judged)) > 30
