"""Replies of models that rewrite questions: what is read of them, and everything that is not."""

import json

import pytest

from qualm.registry.scenes.rewrites import REASONS, Rewrite
from qualm.runners.contracts.generators import NoPairError
from qualm.runners.contracts.perturbations import PerturbError
from qualm.runners.plugins.perturbations._rewriting import RewriteOptions, read_question, read_variants, rewrite_questions
from qualm.runners.prompts.templates import PromptError
from tests.support.checks.rewriting import context, rows, server
from tests.support.data.hostile import questions
from tests.support.servers.small_server import serving

ASKED = "What color is the dog?"


@pytest.mark.parametrize(
    "reply",
    [
        "<p>Is it nice?</p>",
        "→ Is it nice?",
        f"{ASKED} -> Is it nice?",
        r"\boxed{Is it nice?}",
        r"\textbf{Is it nice?}",
        '"{\\"question\\": \\"Is it nice?\\"}"',
    ],
)
def test_one_question_in_html_latex_json_or_behind_an_arrow(reply):
    assert read_question(ASKED, reply) == Rewrite("Is it nice?")


@pytest.mark.parametrize("reply", ["Is it nice?", " \n“Is it nice?”\n", '"Is it nice?"', "`Is it nice?`", "'Is it nice?'"])
def test_one_question_perhaps_in_quotes(reply):
    assert read_question(ASKED, reply) == Rewrite("Is it nice?")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "no part found"),
        ("It is\nnice.", "no part found"),
        ("Is it nice?\nIs it good?", "several sets of parts"),
        ("Is it nice?\nDo you like it?", "several sets of parts"),
        ("Is it nice? Let me know if you want another.", "not a question"),
        ("Es ist schön. Frage: Is it nice?", "malformed reply"),
        ("Rewritten: Is it nice?\nRewritten: Is it good?", "several sets of parts"),
        ("How nice is the dog\nthat barks?", "part goes on in the next line"),
        ("How nice is the dog that\nBob has?", "part goes on in the next line"),
        ('[{"question": "Is it nice?"}, {"question": "Is it good?"}]', "several sets of parts"),
        ("Question: What color is the dog?", "same question"),
        ("Is it nice? Rewritten: is it good?", "malformed reply"),
        ("It is nice.", "not a question"),
        ("INV: Is it nice?", "malformed reply"),
        ('"', "not a question"),
        ("Is it \x1b[31mnice?", "not a question"),
        ("Is it " + "very " * 100 + "nice?", "too long"),
        ("what  COLOR is the dog?", "same question"),
        ("<span>Is it nice?", "malformed reply"),
        ("| Is it nice?", "malformed reply"),
        ("~ Is it nice?", "malformed reply"),
        ("Is *it nice?", "malformed reply"),
    ],
)
def test_anything_else_is_no_question(reply, reason):
    with pytest.raises(NoPairError, match=reason):
        read_question(ASKED, reply)


@pytest.mark.parametrize(
    "reply",
    [
        "Sure!\nIs it nice?", "Here is the rewritten question:\n\n**Is it nice?**", "```\nIs it nice?\n```\nNote: changed one word.",
        "Question: What color is the dog?\nRewritten: Is it nice?", "What color is the dog?\n\nIs it nice?", "1. Is it nice?",
        "<think>What could be asked? Is it?</think>\nIs it nice?", '{"question": "What color is the dog?", "rewritten": "Is it nice?"}',
        '```json\n{"rewritten_question": "Is it nice?",}\n```', "Is it nice?\n\nI replaced the color.", "Rewritten:\n- Is it nice?",
        "| Rewritten | Is it nice? |", "## Rewritten question\n\nIs it nice?", "Is it nice?\nIs it nice?",
        "Sure!\nIs it nice?\nWould you like another one?", "Is it nice? Would you like another one?",
        "Is it nice?\n\nDoes this work for you?", "Is it nice?\nIs there anything else I can help with?",
        "Is it nice?\nNote: is this what you wanted?", "Is it nice?\nShall I try again?", "Is it nice? (There is no dog.)",
        "**Is it nice?** [changed: color]", "**Is it nice?** *(invalid)*", "Is it nice?\n(Is this better?)", "(Rewritten) Is it nice?",
        "Is it nice? 😊", "Is it nice?</s>", "Is it nice?<|im_end|>", "Frage: Is it nice?", "Neue Frage: Is it nice?",
        "Hm. Is it?\n</think>\nIs it nice?", "- [x] Is it nice?", "1️⃣ Is it nice?", "👉 Is it nice?", "**Rewritten question** Is it nice?",
        "Rewritten:: Is it nice?", "Rewritten\n=========\nIs it nice?", "rewritten: |\n  Is it nice?", 'rewritten = "Is it nice?"',
        '<rewritten id="1">Is it nice?</rewritten>', "{Rewritten}: Is it nice?", "Rewritten → Is it nice?", "~~~\nIs it nice?\n~~~",
        f"<table><tr><td>Original</td><td>{ASKED}</td></tr><tr><td>Rewritten</td><td>Is it nice?</td></tr></table>",
        f"| Original | Rewritten |\n|---|---|\n| {ASKED} | Is it nice? |", f"{ASKED} ⇒ Is it nice?", f"From: {ASKED}\nTo: Is it nice?",
        f"Before: {ASKED}\nAfter: Is it nice?", f"Input: {ASKED}\nOutput: Is it nice?", "Swapped: dog → cat\nIs it nice?",
        r"\boxed{\text{Is it nice?}}", json.dumps({"original_question": ASKED, "question": "Is it nice?"}), '{"output": "Is it nice?"}',
        '["Is it nice?"]', '{"text": "Is it nice?"}', "„Is it nice?”", "『Is it nice?』", "‚Is it nice?‘",
        "Is it nice? — the dog became it.",
        "Pregunta 1: Is it nice?", "Question modifiée : Is it nice?", "Вопрос: Is it nice?", "新しい質問：Is it nice?",
    ],
)  # fmt: skip
def test_what_stands_around_a_question_is_left_out(reply):
    assert read_question(ASKED, reply, {"question", "rewritten"}) == Rewrite("Is it nice?")


@pytest.mark.parametrize(
    "made",
    [
        "Would you like it?",
        "Is this what they call a cube?",
        "Which one: the red or the blue?",
        "Is it (the dog) nice?",
        "Is it nice? Is it red?",
    ],
)
def test_a_question_that_looks_like_an_offer_or_a_remark_is_kept_as_it_stands(made):
    assert read_question(ASKED, made) == Rewrite(made)


def said(**changes):
    amb = {"variant_question": "What color is the animal?", "plausible_answers": ["black", "white"]}
    ive = {"variant_question": "Who holds the leash?", "reason_unanswerable": REASONS[1]}
    return {"analysis": "a", "AMB": amb, "IVE": ive} | changes


@pytest.mark.parametrize(
    "style",
    [
        str,
        lambda value: json.dumps({"response": value}),
        lambda value: json.dumps([value]),
        lambda value: json.dumps({"name": "write", "arguments": json.dumps(value)}),
        lambda value: json.dumps(value).replace('"', "”"),
        lambda value: json.dumps(value).replace("variant_question", "variantQuestion").replace("plausible_answers", "Plausible Answers"),
        lambda value: json.dumps({"AMB": value["AMB"]}) + "\n" + json.dumps({"IVE": value["IVE"]}),
        lambda value: "Which is it?</think>" + json.dumps(value),
        lambda value: json.dumps(value).replace('"AMB"', '/* both */ "AMB"'),
        lambda value: json.dumps(value).replace('["black", "white"]', '"black or white"'),
    ],
)
def test_variants_in_any_style(style):
    assert read_variants(ASKED, style(said())) == read_variants(ASKED, json.dumps(said()))


@pytest.mark.parametrize("n", [1, 8, 9])
def test_variants_are_looked_for_eight_levels_down(n):
    found, whole = json.dumps(said()), read_variants(ASKED, json.dumps(said()))
    within = '{"a": ' * n + found + "}" * n
    text = '{"a": ' * (n - 2) + json.dumps(json.dumps({"b": said()})) + "}" * (n - 2)
    for reply in (within, *([text] if n > 1 else [])):
        if n <= 8:
            assert read_variants(ASKED, reply) == whole
        else:
            with pytest.raises(NoPairError, match="malformed reply"):
                read_variants(ASKED, reply)


def test_an_arrow_of_the_question_s_own_stays():
    assert read_question("Does x → y?", "→ Does x → z?") == Rewrite("Does x → z?")


def test_a_variant_whose_parts_are_all_empty_is_none():
    empty = said(AMB={"variant_question": None, "plausible_answers": []}, IVE={"variant_question": "N/A", "reason_unanswerable": ""})
    assert read_variants(ASKED, json.dumps(empty)) == {"AMB": None, "IVE": None}


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
        ({"AMB": None}, "part missing"),
        ({"AMB": None, "amb": None, "IVE": None}, "malformed reply"),
        ([said(), said(AMB=None)], "several sets of parts"),
        (said(AMB={}), "malformed reply"),
        (said(AMB="there is"), "malformed reply"),
        (said(IVE=[]), "malformed reply"),
        (amb(plausible_answers="black"), "fewer than two candidates"),
        (amb(plausible_answers=["black", True]), "malformed reply"),
        (amb(plausible_answers=["black", " "]), "malformed reply"),
        (amb(plausible_answers=["black", "Black."]), "fewer than two candidates"),
        (amb(plausible_answers=[]), "fewer than two candidates"),
        (amb(plausible_answers=["yes", "No"]), "yes or no"),
        (amb(variant_question="Name it."), "not a question"),
        (amb(variant_question=ASKED), "same question"),
        (ive(reason_unanswerable="Too dark"), "unknown reason"),
        (ive(variant_question=None), "malformed reply"),
        ([], "malformed reply"),
        (None, "malformed reply"),
    ],
)
def test_json_that_is_not_just_so(found, reason):
    with pytest.raises(NoPairError, match=reason):
        read_variants(ASKED, json.dumps(found))


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps(said())[:-1], "```\n{}\n```", "[" * 100_000, '{"analysis": "a", "AMB": null, "AMB": null, "IVE": null}',
        "{'analysis': 'a'}", "There is none.",
    ],
)  # fmt: skip
def test_what_is_no_json(reply):
    with pytest.raises(NoPairError, match="malformed reply"):
        read_variants(ASKED, reply)


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps(said()) + "\nDone.", "Here: " + json.dumps(said()),
        f"Sure!\n```json\n{json.dumps(said(), indent=1)}\n```\nAnything else?",
        "<think>{}</think>" + json.dumps(said()), json.dumps(said()).replace("}}", "},}"), json.dumps(said(more=1)),
        json.dumps(said(analysis=7)), json.dumps({k.lower(): v for k, v in said().items()}), json.dumps(amb(note="x")),
        json.dumps(ive(reason_unanswerable=REASONS[1].lower() + ".")), json.dumps(said()) + json.dumps(said()),
    ],
)  # fmt: skip
def test_what_stands_around_the_object_or_is_more_than_asked_for_is_not_read(reply):
    assert read_variants(ASKED, reply) == read_variants(ASKED, json.dumps(said()))


def test_a_word_for_none_is_none_and_numbers_are_candidates():
    assert read_variants(ASKED, json.dumps(said(AMB="null", IVE="None"))) == {"AMB": None, "IVE": None}
    assert read_variants(ASKED, json.dumps(amb(plausible_answers=[2, "three"])))["AMB"].candidates == ("2", "three")


def test_two_objects_that_differ_are_refused():
    with pytest.raises(NoPairError, match="several sets of parts"):
        read_variants(ASKED, json.dumps(said()) + json.dumps(said(AMB=None)))


@pytest.mark.slow
def test_hostile_replies_are_unusable_or_a_question():
    for reply in questions():
        with pytest.raises(NoPairError):
            read_variants(ASKED, reply)
        try:
            made = read_question(ASKED, reply).question
        except NoPairError:
            continue
        assert made.endswith("?") and made.isprintable() and len(made) < 500


def written(url, asked=("Why?", "How?"), given=None, read=lambda question, reply, labels: Rewrite(reply), **how):
    """What a server's replies come to, and the batch they are for."""
    given = given or context(rows(list(asked)))
    usual = {"prompt": "inv", "custom_prompt": None, "retries": 0, "temperature": 0.5, "max_new_tokens": 9}
    options = RewriteOptions(**{**usual, **how})
    return rewrite_questions(given, list(asked), [None] * len(asked), server(url), "inv", options, read), given


@pytest.fixture
def prompt(tmp_path):
    (tmp_path / "own.md").write_text("Labels: Out of Frame. Twist: {question}")
    return str(tmp_path / "own.md")


@pytest.mark.slow
def test_a_picture_is_shown_only_where_it_is_asked_for_and_there(prompt):
    with serving(lambda body, nth: "Is it?") as running:
        given = context(rows(["Why?", "How?"]))
        given.pictures[1] = None
        written(running.url, given=given, custom_prompt=prompt, sees=True)
        first, second = sorted((b["messages"][0]["content"] for b in running.bodies), key=lambda content: isinstance(content, str))
        assert [part["type"] for part in first if part["type"] != "text"] == ["image_url"] and second.endswith("Twist: How?")
        written(running.url, ("Who?",), custom_prompt=prompt)
        assert running.bodies[-1]["messages"][0]["content"].endswith("Twist: Who?")
        assert (running.bodies[-1]["max_tokens"], running.bodies[-1]["temperature"]) == (9, 0.5)


def test_each_reply_is_read_with_its_own_question_and_what_cannot_be_done_is_counted(prompt):
    seen = {}

    def read(question, reply, labels):
        seen[question] = reply
        return None if question == "How?" else Rewrite(reply)

    with serving(lambda body, nth: body["messages"][0]["content"][-4:] + " indeed?") as running:
        made, given = written(running.url, ("Why?", "How?", "Who?"), custom_prompt=prompt, read=read)
    assert seen == {"Why?": "Why? indeed?", "How?": "How? indeed?", "Who?": "Who? indeed?"}
    assert made == [Rewrite("Why? indeed?"), None, Rewrite("Who? indeed?")]
    assert dict(given.dropped) == {"generator says it cannot be done": 1}


def test_a_reply_that_cannot_be_used_is_no_refusal(prompt):
    def read(question, reply, labels):
        raise NoPairError("malformed reply")

    with serving(lambda body, nth: "x") as running:
        made, given = written(running.url, custom_prompt=prompt, read=read)
    assert made == [None, None] and dict(given.dropped) == {"malformed reply": 2}


def test_seeds_are_the_variants_own_or_shared(prompt):
    with serving(lambda body, nth: "Is it?") as running:
        for label, seeds in (("a", ""), ("b", ""), ("a", "both"), ("b", "both")):
            written(running.url, ("Why?",), context(rows(["Why?"]), label=label), custom_prompt=prompt, seeds=seeds)
        asked = [body["seed"] for body in running.bodies]
    assert len(asked) == len(set(asked)) == 3, "the last is answered from what is stored"


def test_a_prompt_without_the_question_is_told_with_its_file(tmp_path):
    (tmp_path / "bad.md").write_text("Twist it.")
    with pytest.raises(PromptError, match=r"bad\.md: expected the placeholder \{question\} in it, found none"):
        written("http://127.0.0.1:9/v1", custom_prompt=str(tmp_path / "bad.md"))
    with pytest.raises(PromptError, match=r"nowhere\.md: expected a prompt as a text file"):
        written("http://127.0.0.1:9/v1", prompt="nowhere")


def test_a_generator_that_rewrites_nothing_is_refused():
    class Mute:
        pass

    given = context(rows(["Why?"]))
    given.once("engine mute", Mute)
    with pytest.raises(PerturbError, match="generator mute: rewrites no questions; choose rules, hf or openai"):
        rewrite_questions(given, ["Why?"], [None], "mute", "inv", RewriteOptions("inv", None, 0, 0.5, 9), read_question)
