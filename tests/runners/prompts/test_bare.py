"""Replies of many styles: what was asked for is read out of each by one reader, or the reply is refused and counted."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.runners.contracts.generators import NoPairError
from qualm.runners.plugins.pairs._two_pictures import read_new_question
from qualm.runners.plugins.pairs._written import read_pair
from qualm.runners.plugins.perturbations._rewriting import read_question, read_variants
from qualm.runners.plugins.saliency.question_llm import read_name
from qualm.runners.prompts.bare import content_lines, find_labels, is_doubtful, strip_decoration, strip_fence
from qualm.runners.prompts.templates import read_prompt

ASKED = "How many chairs stand around the table?"
NEW = "How many chairs agree around the table?"
STYLES = [
    "{}",
    "Rewritten: {}",
    "rewritten : {}",
    "REWRITTEN:{}",
    "**Rewritten:** {}",
    "**Rewritten**: {}",
    "**Rewritten: {}**",
    "*Rewritten:* *{}*",
    "__{}__",
    "## Rewritten question: {}",
    "> {}",
    "- {}",
    "1. {}",
    "1) Rewritten: {}",
    "Question: {}",
    "New question: {}",
    "The rewritten question is: {}",
    "Rewritten question (invalid): {}",
    "Q: {}",
    "A: {}",
    "Answer: {}",
    "Output: {}",
    "Rewritten - {}",
    "Rewritten → {}".replace("→", "->"),
    "Rewritten：{}",  # a colon as Chinese has it
    "Sure! Here is the rewritten question: {}",
    "Here's: {}".replace("Here's", "Here's the new version"),
    "Question 1: {}",
    'Rewritten: "{}"',
    "Rewritten: “{}”",
    "„{}“",
    "'{}'",
    "`{}`",
    "«{}»",
    '"Rewritten: {}"',
    "```\n{}\n```",
    "```text\nRewritten: {}\n```",
    "```{}```",
    "<question>{}</question>",
    "  \n\n{}\n\n",
    "Question: Rewritten: {}",
    "Question: " + ASKED + "\nRewritten: {}",
    "Rewritten:\n{}",
    "Here you are:\n\n{}",
    "Rewritten: {} (I changed one word.)",
    "{} [changed: one word]",
    "Frage: {}",
    "Nueva pregunta: {}",
]
REFUSED = [
    f"Question: {ASKED} Rewritten: {NEW}",
    f"{ASKED} **Rewritten:** {NEW}",
    f"Rewritten: {ASKED}",
    "Rewritten:",
    '""',
    "```\n```",
    f'"{NEW}',
]


@pytest.mark.parametrize("prompt", ["inv", "sbj"])
@pytest.mark.parametrize("style", STYLES)
def test_a_rewritten_question_in_any_style(style: str, prompt: str) -> None:
    assert read_question(ASKED, style.format(NEW), find_labels(read_prompt(prompt))).question == NEW


@pytest.mark.parametrize("reply", REFUSED)
def test_what_is_not_one_new_question_is_refused(reply: str) -> None:
    with pytest.raises(NoPairError):
        read_question(ASKED, reply, find_labels(read_prompt("inv")))


@pytest.mark.parametrize(
    "question",
    [
        'What does "Stop" on the sign mean?',
        "Is it the men's or the women's?",
        "Which is it: red or blue?",
        "What: no chairs?",
        "Is this the answer: A or B?",
        "3 chairs or 4?",
    ],
)
def test_a_question_that_has_such_marks_of_its_own_stays(question: str) -> None:
    assert read_question(ASKED, question).question == question


def test_labels_are_those_of_the_prompt_that_was_sent() -> None:
    own = find_labels("Twist it.\n\nBefore: Is it red?\n**After the twist**: Is it loud?\n\nBefore: {question}")
    assert own == {"before", "after the twist"}
    assert read_question(ASKED, f"After the twist: {NEW}", own).question == NEW
    assert read_question(ASKED, f"After the twist: {NEW}").question == f"After the twist: {NEW}"


@pytest.mark.parametrize("own", [{"new", "new question", "new question to ask"}, {"new question to ask", "new question", "new"}])
def test_of_labels_that_begin_alike_the_longest_is_taken(own: set[str]) -> None:
    assert read_question(ASKED, f"New question to ask: {NEW}", frozenset(own)).question == NEW
    assert read_question(ASKED, f"New question to ask - {NEW}", frozenset(own)).question == NEW


@pytest.mark.parametrize(
    "style", ["{}", "```json\n{}\n```", "```JSON {}```", "```\n{}\n```", "Output: {}", "JSON: ```json\n{}\n```", "**Answer:** {}"]
)
def test_variants_in_any_style(style: str) -> None:
    amb = {"variant_question": f'Rewritten: "{NEW}"', "plausible_answers": ["'three'", "Answer: four"]}
    ive = {"variant_question": f"IVE: {NEW}".replace("IVE", "Variant"), "reason_unanswerable": "Out of Frame"}
    made = read_variants(ASKED, style.format(json.dumps({"analysis": "x", "AMB": amb, "IVE": ive})))
    assert made["AMB"] is not None and made["IVE"] is not None
    assert (made["AMB"].question, made["AMB"].candidates, made["IVE"].question) == (NEW, ("three", "four"), NEW)


@pytest.mark.parametrize(
    "reply",
    [
        "Q1: {q1}\nA1: {a1}\nQ2: {q2}\nA2: {a2}",
        "**Q1:** {q1}\n**A1:** {a1}\n\n**Q2:** {q2}\n**A2:** {a2}",
        "```\nQ1: {q1}\nA1: {a1}\nQ2: {q2}\nA2: {a2}\n```",
        "- Q1: {q1}\n- A1: {a1}\n- Q2: {q2}\n- A2: {a2}",
        'Q1: "{q1}"\nA1: “{a1}”\nQ2: `{q2}`\nA2: "{a2}"',
        "Q1: Question: {q1}\nA1: Answer: {a1}\nQ2: Question: {q2}\nA2: **Answer:** {a2}",
        "Q1: Q1: {q1}\nA1: A1: {a1}\nQ2: Q2: {q2}\nA2: A2: {a2}",
    ],
)
def test_a_pair_in_any_style(reply: str) -> None:
    parts = {"q1": "What will he eat next?", "a1": "Nobody can tell from the picture.", "q2": "What does he eat?", "a2": "rice"}
    pair = read_pair(reply.format(**parts))
    assert (pair.unanswerable, pair.refusal, pair.answerable, pair.answer) == tuple(parts.values())


def test_two_pictures_are_read_likewise() -> None:
    reply = '```\n- **Q:** Question: "What does he hold?"\n- **A1:** "A kite"\n- **A2:** Answer: I can\'t see him.\n```'
    asked = read_new_question(reply)
    assert (asked.question, asked.answer, asked.declined) == ("What does he hold?", "A kite", "I can't see him.")


@pytest.mark.parametrize(
    "reply", ["```\nRelevant object: red car\n```", "Relevant object: **the red car**.", '- **Relevant object:** "red car"']
)
def test_the_name_of_a_thing_in_any_style(reply: str) -> None:
    assert read_name(reply) == "red car"


@given(st.text("ab? \"'*`_:-#\n<>Rewritten question", max_size=80))
def test_bare_is_bare_for_good(text: str) -> None:
    assert strip_decoration(strip_decoration(text)) == strip_decoration(text) and strip_decoration(text) in text
    assert all(line in text for line in content_lines(text)) and strip_fence(text) in text
    assert isinstance(is_doubtful(text), bool)
