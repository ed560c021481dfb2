"""Replies of models that rewrite questions: what is read of them, and everything that is not."""

import json

import pytest

from qualm.registry.scenes.rewrites import REASONS, Rewrite
from qualm.runners.contracts.generators import UnusableReply
from qualm.runners.plugins.perturbations._rewriting import read_question, read_variants
from tests.support.data.hostile import questions

ASKED = "What color is the dog?"


@pytest.mark.parametrize("reply", ["Is it nice?", " \n“Is it nice?”\n", '"Is it nice?"', "`Is it nice?`", "'Is it nice?'"])
def test_one_question_perhaps_in_quotes(reply):
    assert read_question(ASKED, reply) == Rewrite("Is it nice?")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "malformed reply"),
        ("Sure!\nIs it nice?", "malformed reply"),
        ("It is nice.", "not a question"),
        ('"', "not a question"),
        ("Is it \x1b[31mnice?", "not a question"),
        ("Is it " + "very " * 100 + "nice?", "too long"),
        ("what  COLOR is the dog?", "same question"),
    ],
)
def test_anything_else_is_no_question(reply, reason):
    with pytest.raises(UnusableReply, match=reason):
        read_question(ASKED, reply)


def said(**changes):
    amb = {"variant_question": "What color is the animal?", "plausible_answers": ["black", "white"]}
    ive = {"variant_question": "Who holds the leash?", "reason_unanswerable": REASONS[1]}
    return {"analysis": "a", "AMB": amb, "IVE": ive} | changes


def test_both_none_or_one():
    both = read_variants(ASKED, json.dumps(said()))
    assert both == {"AMB": Rewrite("What color is the animal?", ("black", "white")), "IVE": Rewrite("Who holds the leash?", (), REASONS[1])}
    assert read_variants(ASKED, f"```json\n{json.dumps(said(), indent=1)}\n```") == both
    assert read_variants(ASKED, json.dumps(said(AMB=None)))["AMB"] is None
    assert read_variants(ASKED, json.dumps(said(AMB=None, IVE=None))) == {"AMB": None, "IVE": None}


def amb(**changes):
    return said(AMB=said()["AMB"] | changes)


def ive(**changes):
    return said(IVE=said()["IVE"] | changes)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (said(more=1), "malformed reply"),
        ({"AMB": None, "IVE": None}, "malformed reply"),
        (said(analysis=7), "malformed reply"),
        (said(AMB={}), "malformed reply"),
        (said(AMB="none"), "malformed reply"),
        (said(IVE=[]), "malformed reply"),
        (amb(note="x"), "malformed reply"),
        (amb(plausible_answers="black"), "malformed reply"),
        (amb(plausible_answers=["black", 2]), "malformed reply"),
        (amb(plausible_answers=["black", " "]), "malformed reply"),
        (amb(plausible_answers=["black", "Black."]), "fewer than two candidates"),
        (amb(plausible_answers=[]), "fewer than two candidates"),
        (amb(plausible_answers=["yes", "No"]), "yes or no"),
        (amb(variant_question="Name it."), "not a question"),
        (amb(variant_question=ASKED), "same question"),
        (ive(reason_unanswerable="Too dark"), "unknown reason"),
        (ive(reason_unanswerable="out of frame"), "unknown reason"),
        (ive(variant_question=None), "malformed reply"),
        ([], "malformed reply"),
        (None, "malformed reply"),
    ],
)
def test_json_that_is_not_just_so(found, reason):
    with pytest.raises(UnusableReply, match=reason):
        read_variants(ASKED, json.dumps(found))


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps(said()) + "\nDone.", "Here: " + json.dumps(said()), json.dumps(said())[:-1], "```\n{}\n```", "[" * 100_000,
        '{"analysis": "a", "AMB": null, "AMB": null, "IVE": null}', '{"analysis": NaN, "AMB": null, "IVE": null}', "{'analysis': 'a'}",
    ],
)  # fmt: skip
def test_what_is_no_json_or_more_than_it(reply):
    with pytest.raises(UnusableReply, match="malformed reply"):
        read_variants(ASKED, reply)


def test_hostile_replies_are_unusable_or_a_question():
    for reply in questions():
        with pytest.raises(UnusableReply):
            read_variants(ASKED, reply)
        try:
            made = read_question(ASKED, reply).question
        except UnusableReply:
            continue
        assert made.endswith("?") and made.isprintable() and len(made) < 500
