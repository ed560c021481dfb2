"""Thinking in a server's replies: what is the answer's, what is not read, and replies that never came to one."""

import json
from dataclasses import replace

import pytest

from qualm.runners.contracts.models import Decoding, ModelContext, ModelError, Part, Request
from qualm.runners.data.answers import to_rows
from qualm.runners.inference.thoughts import read_thoughts
from qualm.runners.plugins.models._reasoning import separate_thinking
from qualm.runners.plugins.models.openai import openai
from qualm.runners.prompts.question import messages
from qualm.runners.prompts.thinking import (
    ANSWERED,
    AT_LIMIT,
    CUT,
    FILTER_CUT,
    FILTERED,
    NO_ANSWER,
    REFUSED,
    TOO_LONG,
    UNPARTED,
    UNREADABLE,
    Thinking,
)
from qualm.runners.runtime.settings import Settings
from qualm.runners.servers.replies import CompletionChoice
from tests.support.servers.small_server import IMPATIENT, serving

TOKENS = ["Is", " it", " red", "?", "</think>", "\n\n", "dark", " red"]
LOGPROBS = [-0.1 * n for n in range(len(TOKENS))]


def choice(text="dark red", **more):
    tops = [{token: p} for token, p in zip(TOKENS, LOGPROBS, strict=True)]
    return CompletionChoice(text, LOGPROBS, tops, list(range(len(TOKENS))), ended=True, tokens=TOKENS, **more)


@pytest.mark.parametrize(("of", "kept"), [("answer", slice(6, None)), ("thinking", slice(0, 6)), ("both", slice(None))])
@pytest.mark.parametrize("tagged", [True, False])
def test_tokens_are_parted_from_their_end(of, kept, tagged):
    raw = choice("".join(TOKENS)) if tagged else choice(reasoning="Is it red?")
    told, how = separate_thinking(raw, Thinking(of=of))
    assert (told.text, how, told.logprobs, told.ids, told.tops) == ("dark red", ANSWERED, LOGPROBS[kept], [6, 7], raw.tops[6:])
    assert told.reasoning == "Is it red?"


@pytest.mark.parametrize("ids", [None, [1, 2]])
def test_ids_that_are_not_those_of_the_tokens_are_not_parted(ids):
    told, how = separate_thinking(replace(choice("".join(TOKENS)), ids=ids), Thinking())
    assert (told.text, how, told.logprobs, told.ids) == ("dark red", ANSWERED, LOGPROBS[6:], None)


def test_an_answer_whose_tokens_are_not_shown_has_no_log_probabilities():
    told, how = separate_thinking(choice("Dark red.", reasoning="?"), None)
    assert (told.text, how, told.logprobs, told.ids) == ("Dark red.", ANSWERED, None, None)


@pytest.mark.parametrize(
    ("raw", "thinking", "how", "thought"),
    [
        (choice("", reasoning="Is it", cut=True), None, CUT, "Is it"),
        (choice("", reasoning="Is it"), None, NO_ANSWER, "Is it"),
        (choice("", cut=True), None, CUT, None),  # the server hides what it was thinking
        (choice("<think>Is it", cut=True), Thinking(), CUT, "Is it"),
        (choice("<think>Is it"), Thinking(), NO_ANSWER, "Is it"),
        (choice("[THINK]Is it", cut=True), Thinking(), CUT, "Is it"),
        # its template opened the thinking, and its parser waits for the end
        (choice("Is it dark? It", cut=True), Thinking(), CUT, "Is it dark? It"),
        (choice("<think>Is it</think>", reasoning="It is", cut=True), None, CUT, "It is\n\nIs it"),
    ],
)
def test_a_reply_that_came_to_no_answer(raw, thinking, how, thought):
    told, seen = separate_thinking(raw, thinking)
    assert seen == how and not told.text and told.logprobs is None and told.tops == [] and told.reasoning == thought


@pytest.mark.parametrize(("thinking", "cut"), [(None, True), (None, False), (Thinking(), False), (Thinking(on=False), True)])
def test_replies_without_thinking_stay_as_they_are(thinking, cut):
    raw = choice("dark red", cut=cut)
    assert separate_thinking(raw, thinking) == (raw, AT_LIMIT if cut else ANSWERED)
    assert separate_thinking(replace(raw, filtered=True), thinking) == (replace(raw, filtered=True), FILTER_CUT)


@pytest.mark.parametrize(
    ("more", "how"), [({"filtered": True}, FILTERED), ({"too_long": True}, TOO_LONG), ({"unreadable": "content: a number"}, UNREADABLE)]
)
@pytest.mark.parametrize("reasoning", [None, "Hm."])
def test_a_reply_without_text_has_no_numbers_either(more, how, reasoning):
    told, seen = separate_thinking(choice("", reasoning=reasoning, **more), None)
    assert (seen, told.text, told.logprobs, told.ids, told.tops) == (how, "", None, None, [])


def test_a_refusal_has_the_log_probabilities_that_are_its_own():
    raw = choice("I will not.", refused=True)
    assert separate_thinking(raw, None) == (raw, REFUSED)
    told, how = separate_thinking(replace(raw, reasoning="Hm."), None)
    assert (told.text, how, told.logprobs, told.tops) == ("I will not.", REFUSED, None, [])


@pytest.mark.parametrize("thinking", [None, Thinking()])
def test_an_end_that_the_server_left_in_the_answer(thinking):
    told, how = separate_thinking(choice("it?</think>\n\ndark red", reasoning="Is <think>"), thinking)
    assert (told.text, how) == ("dark red", ANSWERED)
    told, _ = separate_thinking(choice("</think>red", reasoning="It is."), thinking)
    assert (told.text, told.reasoning) == ("red", "It is.")


def test_thinking_of_which_the_spec_says_nothing_is_counted():
    with serving(lambda body, nth: reply("<think>Is it?</think>red")) as server:
        model = model_of(server)
        (answer,) = asked(model, "answer")
        assert answer.value.text == "<think>Is it?</think>red" and model.counters[UNPARTED] == 1
        (answer,) = asked(parting := model_of(server, thinking=True), "answer")
        assert answer.value.text == "red" and not parting.counters[UNPARTED]


def reply(text, reasoning=None, finish="stop"):
    message = {"role": "assistant", "content": text, **({"reasoning_content": reasoning} if reasoning else {})}
    return (200, json.dumps({"model": "m", "choices": [{"index": 0, "finish_reason": finish, "message": message}]}), {})


def model_of(server, **args):
    return openai(ModelContext("gpt", settings=Settings(progress=False, servers=IMPATIENT)), model="toy", base_url=server.url, **args)


def asked(model, *parts):
    return list(model.parts(Request(model.render(messages("What ?", n_images=False)), None, 0, "What ?", parts, 1), Decoding(4, 0.5)))


def test_what_is_sent_and_what_comes_of_it():
    said = [reply("red", "It is red."), reply(None, "It is", "length"), reply("85", "Rather")]
    with serving(lambda body, nth: said[len(server.bodies) - 1]) as server:
        model = model_of(server, thinking={"budget": 32, "switch": "enable_thinking", "effort": "low"}, n=False)
        answer, confidence = asked(model, "answer", "said_confidence")
        assert answer.value == Part("red", None, None, None, [0.0, 0.0], thinking="It is red.") and confidence.value == Part()
        assert confidence.reason == "cut short by the budget"
        first, second = server.bodies
        assert (first["max_tokens"], first["chat_template_kwargs"]) == (36, {"enable_thinking": True})
        assert first["reasoning_effort"] == "low" and second["max_tokens"] == 8
        assert second["chat_template_kwargs"] == {"enable_thinking": False}, "asked back, it answers at once"


def test_a_cut_answer_is_undefined_and_told_also_where_the_spec_knows_nothing_of_thinking():
    with serving(lambda body, nth: reply("", "It is", "length")) as server:
        model = model_of(server)
        answer, signal = asked(model, "answer", "said_confidence")
        assert answer.value == Part(None, None, None, None, [0.0, 1.0], thinking="It is") and answer.reason == "cut short by the budget"
        assert signal.reason == "there is no answer to ask about"
        assert server.bodies[0] == {
            "model": "toy", "messages": [{"role": "user", "content": "What ?"}], "max_tokens": 4, "temperature": 0.0,
        }  # fmt: skip


def test_a_server_that_thinks_although_it_is_told_not_to():
    """What its answers lack is kept with them, as of one that is told to."""
    with serving(lambda body, nth: reply("", "It is", "length")) as server:
        model = model_of(server, thinking=False)
        (answer,) = asked(model, "answer")
        assert answer.value.numbers == [0.0, 1.0] and server.bodies[0]["max_tokens"] == 4
    columns = read_thoughts(to_rows([bytes(32)], ["answer"], [answer.value]), [(0, 0, "answer")], 1, model).columns()
    assert {name: column.to_pylist() for name, column in columns.items()} == {
        "thinking": ["It is"], "no_answer": ["cut short by the budget"], "finish": [None],
    }  # fmt: skip


def test_the_digest_moves_with_thinking_alone():
    with serving(lambda body, nth: "x") as server:
        usual = model_of(server).digest
        assert model_of(server, thinking=None).digest == usual != model_of(server, thinking=True).digest
        assert model_of(server, thinking=True).digest != model_of(server, thinking={"of": "both"}).digest
        with pytest.raises(ModelError, match=r"^model 'gpt': thinking: of: expected one of answer, thinking, both, got 'all'"):
            model_of(server, thinking={"of": "all"})
