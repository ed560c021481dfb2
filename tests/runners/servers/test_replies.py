"""What is read of a reply: the text that is there, and numbers only where they can be and are of that text."""

import json
import math
import random
from functools import cache

import pytest

from qualm.runners.servers.protocol import ImpossibleReplyError, InvalidReplyError, NotAReplyError
from qualm.runners.servers.replies import (
    EXTRA_LOGPROBS,
    NO_LOGPROBS,
    NO_SPELLING,
    TOO_MANY_TOKENS,
    locate_tokens,
    max_reply_bytes,
    read_completion,
)
from tests.support.servers.hostile_replies import draw
from tests.support.servers.toy_server import Toy

BODY = {"model": "m", "messages": [{"role": "user", "content": "What?"}], "max_tokens": 4, "logprobs": True, "top_logprobs": 5}
SCORED = {**BODY, "messages": [*BODY["messages"], {"role": "assistant", "content": "red"}], "prompt_logprobs": 0}
CHOICE = ("choices", 0)
MESSAGE = (*CHOICE, "message")
ENTRY = (*CHOICE, "logprobs", "content", 0)
TOP = (*ENTRY, "top_logprobs", 0)


def reply(body=BODY):
    """What the toy says, who is honest."""
    return json.loads(_said(json.dumps(body)))


@cache
def _said(body):
    return Toy()(json.loads(body), 0)[1]


def changed(path, value, body=BODY):
    """The same with another value at a path; what is on the way is made where it is missing."""
    answer = reply(body)
    *way, last = path
    place = answer
    for step in way:
        place = place[step]
    place[last] = value
    return answer


def read(answer, body=BODY):
    return read_completion(json.dumps(answer).encode(), body)


def read_choice(answer, body=BODY):
    (choice,) = read(answer, body).choices
    return choice


def said(text, *tokens, body=BODY, finish="stop", usage=None, ids=None, **message):
    """A reply of this text, each of whose tokens has a log-probability of its own."""
    entries = [{"token": token, "logprob": -0.1 * (n + 1), "top_logprobs": []} for n, token in enumerate(tokens)]
    choice = {"message": {"content": text, **message}, "finish_reason": finish, "logprobs": {"content": entries} if tokens else None}
    return read({"choices": [{**choice, "token_ids": ids}], "usage": {"prompt_tokens": 9, "completion_tokens": usage}}, body)


HONEST = reply()
TEXT = HONEST["choices"][0]["message"]["content"].strip()
LOGPROBS = [entry["logprob"] for entry in HONEST["choices"][0]["logprobs"]["content"]]


# -- honest replies -------------------------------------------------------------------------------------------------------


def test_an_honest_reply_is_read_whole():
    completion = read(HONEST)
    (choice,) = completion.choices
    content = HONEST["choices"][0]["logprobs"]["content"]
    assert (choice.text, choice.logprobs, choice.ids) == (TEXT, LOGPROBS, HONEST["choices"][0]["token_ids"])
    assert choice.tops == [{t["token"]: t["logprob"] for t in entry["top_logprobs"]} for entry in content]
    assert completion.served == ("toy-1", "fp_7") and completion.usage[0] == 50 and completion.remarks == ()
    assert completion.prompt is None


def test_several_answers_and_scored_prompts():
    several = {**BODY, "n": 3, "temperature": 0.7}
    assert len(read(reply(several), several).choices) == 3
    assert read(reply(SCORED), SCORED).prompt[1:3] == [{900: -1.0}, {901: -0.5}]
    more = read(reply(several), {**several, "n": 2})
    assert len(more.choices) == 2 and more.remarks == ("replies with more answers than were asked for",)


def test_an_honest_reply_is_within_its_bytes():
    for body in (BODY, {**BODY, "n": 3, "temperature": 1.0}, SCORED):
        assert len(json.dumps(reply(body), indent=4)) < max_reply_bytes(body) < 2**21
    assert max_reply_bytes(BODY) == 2**20 + 512 * 4 * 6 and max_reply_bytes({**SCORED, "n": 3}) == 2**20 + 512 * (
        4 * 3 * 6 + (16 + 5) + (16 + 3)
    )


# -- fields that may be missing or wrong ----------------------------------------------------------------------------------

ODD = [None, [], {}, "", 0, -1, 1.5, True, "abc", [1, "2"], {"a": [1]}, math.inf, math.nan, 10**400, -(10**400), "\ud800", [[[]]]]


@pytest.mark.parametrize("value", ODD, ids=repr)
@pytest.mark.parametrize(
    "path",
    [
        ("usage",), ("usage", "prompt_tokens"), ("model",), ("system_fingerprint",), ("prompt_logprobs",), ("id",), ("unknown",),
        ("error",), (*CHOICE, "index"), (*CHOICE, "finish_reason"), (*CHOICE, "stop_reason"), (*MESSAGE, "role"), (*MESSAGE, "audio"),
    ],
    ids=lambda path: path[-1],
)  # fmt: skip
def test_a_field_beside_the_answer_costs_nothing_of_it(path, value):
    choice = read_choice(changed(path, value))
    assert (choice.text, choice.logprobs) == (TEXT, LOGPROBS)


@pytest.mark.parametrize("value", ODD, ids=repr)
@pytest.mark.parametrize("path", [(*CHOICE, "logprobs"), (*CHOICE, "logprobs", "content"), ENTRY, (*ENTRY, "token"), (*ENTRY, "logprob")])
def test_log_probabilities_that_cannot_be_are_undefined_and_the_text_stays(path, value):
    choice = read_choice(changed(path, value))
    assert choice.text == TEXT
    if not (path[-1] == "logprob" and type(value) is int and value in (0, -1)):
        assert choice.logprobs is None and choice.no_logprobs and choice.tops == []


@pytest.mark.parametrize("value", [5.0, 1e-3, math.nan, True, "-1", [], "\ud800"])
def test_an_alternative_that_cannot_be_makes_them_all_undefined(value):
    choice = read_choice(changed((*TOP, "logprob"), value))
    assert (choice.text, choice.logprobs) == (TEXT, None) and "expected a finite log-probability of at most 0, got" in choice.no_logprobs


@pytest.mark.parametrize("value", [-math.inf, -9999.0, -(10**400), None])
def test_an_alternative_without_probability_is_as_one_that_is_not_shown(value):
    answer = reply()
    answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"][-1]["logprob"] = value
    choice = read_choice(answer)
    assert choice.logprobs == LOGPROBS and len(choice.tops[0]) == 4


def test_a_log_probability_that_the_server_hides_is_undefined():
    assert "does not show" in read_choice(changed((*ENTRY, "logprob"), -9999.0)).no_logprobs


def test_rounding_above_zero_counts_as_zero():
    answer = changed((*ENTRY, "logprob"), 1e-6)
    answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = []
    assert read_choice(answer).logprobs[0] == 0.0


@pytest.mark.parametrize(
    ("own", "tops", "passes"),
    [
        (math.log(0.5), [math.log(0.509)], True),
        (math.log(0.5), [math.log(0.511)], False),
        (-0.5, [-0.5, -0.931], True),  # 1.0007: servers round
        (-0.5, [-0.5, -0.9], False),  # 1.0131
        (-0.5, [-0.509], True),
        (-0.5, [-0.511], False),
        (-100.0, [-100.9], True),
        (-100.0, [-101.1], False),
        (1e-5, [], True),
        (1.1e-5, [], False),
        (0, [0], True),
    ],
)
def test_how_far_servers_may_round(own, tops, passes):
    """The first of the likeliest is the token itself, where there is room for it."""
    names = ["own", "other"] if len(tops) == 2 or own > -0.6 or own < -0.7 else ["other"]
    entry = {"token": "own", "logprob": own, "top_logprobs": [{"token": n, "logprob": p} for n, p in zip(names, tops, strict=False)]}
    answer = {"choices": [{"message": {"content": "own"}, "logprobs": {"content": [entry]}}]}
    assert (read_choice(answer).logprobs is not None) == passes


def test_a_special_token_spelled_in_two_ways_is_one():
    end = {"token": "<|end|>", "logprob": -0.1, "top_logprobs": [{"token": "</s>", "logprob": -0.1}]}
    entries = [{"token": "red", "logprob": -1.0}, end]
    assert read_choice({"choices": [{"message": {"content": "red"}, "logprobs": {"content": entries}}]}).logprobs == [-1.0, -0.1]


def test_alternatives_must_be_less_likely_than_what_is_listed():
    tops = [{"token": "a", "logprob": -2.0}, {"token": "b", "logprob": -0.8}]
    answer = {"choices": [{"message": {"content": "c"}, "logprobs": {"content": [{"token": "c", "logprob": -1, "top_logprobs": tops}]}}]}
    assert read_choice(answer).no_logprobs == "logprobs[0]: expected at most -2.0, as it is not among the likeliest, got -1.0"


def test_ids_are_those_of_the_tokens_or_none():
    assert said("red", "re", "d", ids=[1, 2]).choices[0].ids == said("red", "re", "d", ids=[1, 2, 3]).choices[0].ids[:2] == [1, 2]
    for ids in ([1], [1, 2, 3, 4], [1, 2.5], [1, -1], [1, 2**31], "12"):
        choice = said("red", "re", "d", ids=ids).choices[0]
        assert choice.ids is None and choice.logprobs == [-0.1, -0.2]


@pytest.mark.parametrize(
    "prompt",
    [[{"x": {"logprob": -1}}], [{"1": -1}], [{"2147483648": {"logprob": -1}}], [{"1": {"logprob": 2}}], 7, {},
     [{"1": {"logprob": -0.1}, "2": {"logprob": -0.1}}], [{"\u0661": {"logprob": -1}}], [{"00000000001": {"logprob": -1}}]],
)  # fmt: skip
def test_a_prompt_that_cannot_be_is_not_scored(prompt):
    completion = read({**reply(SCORED), "prompt_logprobs": prompt}, SCORED)
    assert completion.prompt is None and completion.choices[0].text
    assert read({**reply(SCORED), "prompt_logprobs": [None, {}, {"7": {"logprob": -1}}]}, SCORED).prompt == [{}, {}, {7: -1.0}]


def test_log_probabilities_of_the_older_form():
    logprobs = {"tokens": ["r", "ed"], "token_logprobs": [-0.5, -0.25], "top_logprobs": [{"r": -0.5}, {"ed": -0.25, "x": -3}]}
    choice = read_choice({"choices": [{"message": {"content": "red"}, "logprobs": logprobs}]})
    assert choice.logprobs == [-0.5, -0.25] and choice.tops == [{"r": -0.5}, {"ed": -0.25, "x": -3.0}]
    short = {**logprobs, "token_logprobs": [-0.5]}
    assert read_choice({"choices": [{"message": {"content": "red"}, "logprobs": short}]}).logprobs is None


# -- the text --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        ([{"type": "text", "text": "dark "}, {"type": "text", "text": "red"}], "dark red", None),
        ({"type": "output_text", "text": "red"}, "red", None),
        (["dark", " red"], "dark red", None),
        ([{"text": "red"}], "red", None),
        ([{"type": "text", "text": {"value": "red"}}], "red", None),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "red"}], "red", "Hm."),
        ([{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "red"}], "red", "Hm."),
        ([{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "red"}, None, 7], "red", None),
        (" red\n", "red", None),
        ("", "", None),
        (None, "", None),
        ([], "", None),
    ],
)
def test_a_text_may_come_in_parts(content, text, reasoning):
    choice = said(content).choices[0]
    assert (choice.text, choice.reasoning, choice.unreadable) == (text, reasoning, "")


@pytest.mark.parametrize("content", [7, 0.5, True, [7], [{"type": "image_url"}], {"a": 1}, [[["x"]]]])
def test_content_that_is_no_text_is_unreadable_and_asked_for_once(content):
    choice = said(content).choices[0]
    assert choice.text == "" and choice.unreadable.startswith("content: expected a text, got ")


def test_text_of_other_forms_of_reply():
    assert read_choice({"choices": [{"text": " red"}]}).text == "red", "as plain completions have it"
    assert read_choice({"choices": [{"message": "red"}]}).text == "red"
    assert read_choice({"choices": [{}]}).unreadable
    assert read_choice([{"choices": [{"message": {"content": "red"}}]}]).text == "red"


@pytest.mark.parametrize(
    ("content", "refusal", "text", "refused"),
    [
        (None, "I will not", "I will not", True),
        ("", " No. ", "No.", True),
        ([{"type": "refusal", "refusal": "No."}], None, "No.", True),
        ("red", "", "red", False),
        ("red", "No.", "red", False),
        (None, 7, "", False),
    ],
)
def test_a_refusal_is_the_text_where_there_is_no_other(content, refusal, text, refused):
    choice = said(content, refusal=refusal).choices[0]
    assert (choice.text, choice.refused) == (text, refused) and choice.no_logprobs == NO_LOGPROBS


def test_a_refusal_may_have_log_probabilities_of_its_own():
    logprobs = {"content": None, "refusal": [{"token": "No", "logprob": -0.5}, {"token": ".", "logprob": -0.25}]}
    answer = {"choices": [{"message": {"content": None, "refusal": "No."}, "logprobs": logprobs}]}
    assert read_choice(answer).logprobs == [-0.5, -0.25]
    answer["choices"][0]["message"] = {"content": "red"}
    assert read_choice(answer).logprobs is None, "of a text that they do not spell"


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_what_was_thought_is_read_beside_the_answer(key):
    choice = said("red", **{key: "Hm."}).choices[0]
    assert (choice.text, choice.reasoning) == ("red", "Hm.")
    assert said("red", **{key: {"a": 1}}).choices[0].text == "red"


def test_half_of_a_surrogate_pair_is_replaced():
    assert read_completion(b'{"choices": [{"message": {"content": "a\\ud800b \\ud83d\\ude00"}}]}', BODY).choices[0].text == "a\ufffdb 😀"


@pytest.mark.parametrize(
    ("finish", "cut", "filtered"),
    [
        ("stop", False, False), ("STOP", False, False), ("", False, False), (None, False, False), ("FinishReason.STOP", False, False),
        ("weird", False, False), (7, False, False), ("length", True, False), ("MAX_TOKENS", True, False),
        ("content_filter", False, True), ("SAFETY", False, True), ("FinishReason.RECITATION", False, True),
    ],
)  # fmt: skip
def test_why_an_answer_ended(finish, cut, filtered):
    choice = said("red", "red", finish=finish).choices[0]
    assert (choice.text, choice.logprobs, choice.cut, choice.filtered) == ("red", [-0.1], cut, filtered)
    assert choice.ended == (not cut and not filtered), "and the mark that ended it is not shown"


def test_a_call_of_a_tool_is_an_empty_answer_that_is_counted():
    completion = said(None, tool_calls=[{"id": "1"}], finish="tool_calls")
    assert completion.choices[0].text == "" and completion.remarks == ("replies that call a tool and answer nothing",)


# -- log-probabilities are of the answer ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("red", ["red"]),
        ("red", [" red", "\n", ""]),
        ("red", ["\n", "red", "<|im_end|>"]),
        ("red", ["red", "<|end of text|>", "\n"]),
        ("red", ["red", "</s>"]),
        ("red<|im_end|>", ["red", "<|im_end|>"]),
        ("dark red", ["▁dark", "▁red"]),
        ("dark\nred", ["Ġdark", "Ċ", "red"]),
        ("红色", ["", "", "红", "色"]),
        ("红色", ["\ufffd", "\ufffd", "\ufffd", "色"]),
        ("红色", ["<0xE7>", "<0xBA>", "<0xA2>", "色"]),
        ("dark red .", [" dark", " red", "."]),
        ("5 * 3", ["5", " *", " 3"]),
        ("caf\u00e9", ["caf", "e", "\u0301"]),
    ],
)
def test_tokens_that_spell_the_answer_in_any_way_are_read(text, tokens):
    choice = said(text, *tokens, body={**BODY, "max_tokens": 8}).choices[0]
    assert (choice.text, choice.logprobs) == (text, pytest.approx([-0.1 * (n + 1) for n in range(len(tokens))]))


def test_tokens_are_parts_of_characters_by_their_bytes():
    entries = [
        {"token": f"bytes:{n}", "logprob": -1.0, "bytes": list(part)} for n, part in enumerate([b"\xe7\xba", b"\xa2", "色".encode()])
    ]
    choice = read_choice({"choices": [{"message": {"content": "红色"}, "logprobs": {"content": entries}}]})
    assert choice.logprobs == [-1.0] * 3


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("bright red", [" red"]), ("red", ["blue"]), ("red", ["r"]), ("red", ["red", " or", " blue"]), ("5", ["-5"]),
        ("red", ["token_id:7"]), ("", ["red"]), ("红色", ["\ufffd", "色", "色"]),
    ],
)  # fmt: skip
def test_tokens_that_do_not_spell_the_answer_have_no_say(text, tokens):
    choice = said(text, *tokens).choices[0]
    assert (choice.text, choice.logprobs, choice.tops, choice.no_logprobs) == (text, None, [], NO_SPELLING)


def test_tokens_before_the_answer_are_left_out_and_counted():
    """A server that hides the thinking and lists its tokens."""
    completion = said("dark red", "Hm", ".", " dark", " red", ids=[1, 2, 3, 4])
    choice = completion.choices[0]
    assert (choice.logprobs, choice.ids) == (pytest.approx([-0.3, -0.4]), [3, 4]) and completion.remarks == (EXTRA_LOGPROBS,)
    kept = said("dark red", "Hm", ".", " dark", " red", reasoning="Hm.").choices[0]
    assert len(kept.logprobs) == 4, "told apart, they are parted by whoever reads the thinking"


def test_where_a_text_stands_among_tokens():
    assert (
        locate_tokens(["a", " b", "c"], "bc") == (1, 3)
        and locate_tokens(["a", " b", "c"], "c") == (2, 3)
        and locate_tokens(["ab"], "b") is None
    )
    assert locate_tokens([], "a") is None and locate_tokens([], "") == (0, 0) and locate_tokens(["\n", "</s>"], "") == (0, 0)
    assert locate_tokens(["a"] * 3 + ["\n"] * 50_000, "b") is None, "at once"


# -- a reply is held to its request --------------------------------------------------------------------------------------


def test_an_answer_of_more_tokens_is_cut():
    completion = said("a b c d e f", "a", *(f" {c}" for c in "bcdef"), ids=list(range(6)))
    choice = completion.choices[0]
    assert (choice.text, choice.ids, choice.cut) == ("a b c d", [0, 1, 2, 3], True) and len(choice.logprobs) == len(choice.tops) == 4
    assert completion.remarks == (TOO_MANY_TOKENS,)
    assert not said("a b c d", "a", " b", " c", " d", "</s>").remarks, "the mark of the end is not one of them"


@pytest.mark.parametrize(
    ("text", "usage", "ids", "kept"),
    [
        ("x" * 100, 100, None, False),
        ("x" * 100, 7, None, False),
        ("x" * 100, 6, None, True),
        ("x" * 100, None, None, True),
        ("x" * 513, None, None, False),  # no token has 128 characters
        ("x" * 2**20, 4, None, False),
        ("red", 300, None, True),  # of which 297 at least are not shown
        ("x" * 100, None, list(range(6)), False),
        ("x" * 100, None, list(range(5)), True),
    ],
)
def test_an_answer_that_is_longer_than_it_may_be_is_left_out(text, usage, ids, kept):
    completion = said(text, usage=usage, ids=ids)
    choice = completion.choices[0]
    assert (choice.text, choice.too_long) == ((text, False) if kept else ("", True))
    assert completion.remarks == (() if kept else (TOO_MANY_TOKENS,))


def test_thinking_that_is_distinguished_is_not_held_to_the_limit_of_the_answer():
    assert said("x" * 100, usage=90, reasoning="Hm.").choices[0].text


# -- what is no answer ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", NotAReplyError), (b"<html>", NotAReplyError), (b"\xff\xfe", NotAReplyError), (b"7", InvalidReplyError),
        (b"{}", InvalidReplyError), (b"null", InvalidReplyError),
        (b'{"error": {"message": "Provider returned error", "code": 502}}', InvalidReplyError),
        (b'{"error": "x", "choices": []}', InvalidReplyError),
        (b'{"choices": []}', ImpossibleReplyError), (b'{"choices": "ab"}', ImpossibleReplyError),
        (b'{"choices": ["a"]}', ImpossibleReplyError),
        (b"[" * 100_000, ImpossibleReplyError), (b'{"choices": [' * 20_000, ImpossibleReplyError),
        (b'{"choices": [{"x": ', ImpossibleReplyError),
        (b'{"choices": [' + b"9" * 5000 + b"]}", ImpossibleReplyError), (b"data: {", NotAReplyError), (b"data: [DONE]", InvalidReplyError),
        (b'{"choices": [{"message": {"content": "re"}, "finish_reason": "error"}]}', ImpossibleReplyError),
        (b'{"choices": [{"message": {"content": "re"}, "error": {"code": 502}}]}', ImpossibleReplyError),
    ],
)  # fmt: skip
def test_what_is_no_answer(data, kind):
    with pytest.raises(InvalidReplyError) as caught:
        read_completion(data, BODY)
    assert type(caught.value) is kind and str(caught.value).isprintable() and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf%s", b"\n\n  %s", b": PROCESSING\n\n: PROCESSING\n%s", b"%s\n\x00", b"data: %s\n\ndata: [DONE]\n", b"[%s]",
    ],
)  # fmt: skip
def test_what_may_stand_around_an_answer(data):
    assert read_completion(data.replace(b"%s", json.dumps(HONEST).encode()), BODY).choices[0].text == TEXT


def test_events_of_a_stream_are_put_together():
    deltas = [{"role": "assistant", "content": "dark"}, {"content": " red"}, {}]
    events = [{"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    for event, token in zip(events, ["dark", " red"], strict=False):
        event["choices"][0]["logprobs"] = {"content": [{"token": token, "logprob": -0.5}]}
    events[-1]["choices"][0]["finish_reason"] = "length"
    events.append({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}})
    data = "".join(f"event: x\ndata: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    completion = read_completion(data.encode(), BODY)
    choice = completion.choices[0]
    assert (choice.text, choice.logprobs, choice.cut, completion.usage) == ("dark red", [-0.5, -0.5], True, (5, 2))


# -- the law -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_no_reply_raises_anything_else_or_gives_a_number_that_cannot_be(seed):
    """Hundreds of replies that were changed at random: each is an answer whose numbers can be and are of its text, or no answer."""
    outcomes, asked = [], [(body, reply(body)) for body in (BODY, {**BODY, "n": 3, "temperature": 0.7}, SCORED)]
    for number in range(350):
        rng = random.Random(f"{seed} {number}")
        body, honest = rng.choice(asked)
        _, data, headers = draw(rng, honest)
        if "content-encoding" in headers:
            continue
        try:
            completion = read_completion(data, body)
        except InvalidReplyError as error:
            assert str(error).isprintable() and len(str(error)) < 1000
            outcomes.append(False)
            continue
        outcomes.append(True)
        assert 1 <= len(completion.choices) <= body.get("n", 1)
        for choice in completion.choices:
            choice.text.encode()
            assert len(choice.text.encode()) <= 4 * 128
            assert (choice.logprobs is None) == bool(choice.no_logprobs) or choice.too_long
            if choice.logprobs is not None:
                assert len(choice.logprobs) == len(choice.tops) == len(choice.tokens) <= 5
                assert all(math.isfinite(p) and -9000 <= p <= 0 for p in choice.logprobs)
                assert all(-9000 <= p <= 0 for top in choice.tops for p in top.values())
                shown = "".join(choice.tokens)
                assert choice.reasoning or not choice.text or "".join(choice.text.split()) in "".join(shown.split()) or "\ufffd" in shown
        for entry in completion.prompt or ():
            assert all(0 <= token < 2**31 and -1e300 <= p <= 0 for token, p in entry.items())
    assert sum(outcomes) > 150 and outcomes.count(False) > 20
