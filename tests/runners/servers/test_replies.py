"""What a reply may say: of every rule one that breaks it, and what honest servers do within it."""

import copy
import json
import math

import pytest

from qualm.runners.servers.protocol import Impossible, Nonsense, NoReply
from qualm.runners.servers.replies import check, longest, parsed
from tests.support.servers.toy_server import Toy

BODY = {"model": "m", "messages": [{"role": "user", "content": "What?"}], "max_tokens": 4, "logprobs": True, "top_logprobs": 5}
SCORED = {**BODY, "messages": [*BODY["messages"], {"role": "assistant", "content": "red"}], "prompt_logprobs": 0}


def reply(body=BODY):
    """What the toy says, who is honest."""
    return json.loads(Toy()(body, 0)[1])


def changed(path, value, body=BODY):
    """The same with another value at a path."""
    answer = reply(body)
    *way, last = path
    place = answer
    for step in way:
        place = place[step]
    place[last] = value
    return answer


CHOICE = ("choices", 0)
ENTRY = (*CHOICE, "logprobs", "content", 0)
TOP = (*ENTRY, "top_logprobs", 0)


@pytest.mark.parametrize("body", [BODY, {**BODY, "n": 3, "temperature": 0.7}, SCORED, {k: v for k, v in BODY.items() if k != "logprobs"}])
def test_honest_replies_pass_unchanged(body):
    answer = reply(body)
    before = copy.deepcopy(answer)
    check(answer, body)
    assert answer == before


@pytest.mark.parametrize("value", [5.0, 1e-3, math.inf, -math.inf, math.nan, 10**400, -(10**400), True, None, "-1", [], {}, "\ud800"])
@pytest.mark.parametrize("place", [ENTRY, TOP])
def test_what_is_no_log_probability(place, value):
    with pytest.raises(
        Impossible, match=r"^choices\[0\]\.logprobs\.content\[0\]\S*logprob: expected a log-probability \(0 or less\), got "
    ):
        check(changed((*place, "logprob"), value), BODY)


def test_rounding_above_zero_counts_as_zero():
    answer = changed((*ENTRY, "logprob"), 1e-6)
    answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = []
    check(answer, BODY)
    assert answer["choices"][0]["logprobs"]["content"][0]["logprob"] == 0.0


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ((*ENTRY, "top_logprobs"), [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -0.6}], "add up to 1 at most"),
        ((*ENTRY, "logprob"), -9.0, "-0.368272701941994 as among the likeliest, got -9.0"),
        ((*ENTRY, "top_logprobs"), [{"token": "a", "logprob": -8.0}], "as it is not among the likeliest"),
        ((*ENTRY, "top_logprobs"), "abc", 'expected a list, got "abc"'),
        ((*ENTRY, "token"), 7, "expected a text, got an object of"),
        ((*CHOICE, "logprobs", "content"), {"a": 1}, "expected a list, got an object of 1"),
        ((*CHOICE, "logprobs"), [], "expected an object, got a list of 0"),
        ((*CHOICE, "logprobs", "content"), [{"token": "a", "logprob": -1.0}], "as many as the"),
        ((*CHOICE, "message", "content"), "x" * 100, "tokens of all 100 characters"),
        ((*CHOICE, "message", "content"), ["a"], "expected a text, got a list of 1"),
        ((*CHOICE, "message", "content"), 0, "expected a text, got 0"),
        ((*CHOICE, "message", "refusal"), False, "expected a text, got false"),
        ((*CHOICE, "message"), "x", 'expected an object, got "x"'),
        ((*CHOICE, "finish_reason"), "abort", 'expected one of stop, .*, got "abort"'),
        ((*CHOICE, "finish_reason"), {}, "expected one of stop"),
        ((*CHOICE, "index"), 1, "expected one of 0 to 0, once, got 1"),
        ((*CHOICE, "index"), True, "expected one of 0 to 0, once, got true"),
        ((*CHOICE, "token_ids"), [2**31], "expected a list of ids"),
        ((*CHOICE, "token_ids"), [-1], "expected a list of ids"),
        ((*CHOICE, "token_ids"), [3, -1], "expected a list of ids"),
        ((*CHOICE, "token_ids"), [3] * 3, "expected as many as the 3 token_ids, got 4"),
        ((*CHOICE, "token_ids"), [3] * 6, "expected as many as the 6 token_ids, got 4"),
        ((*CHOICE, "message", "content"), "x" * 15, "tokens of all 15 characters, got 14"),
        ((*ENTRY, "top_logprobs"), [{"token": t, "logprob": -0.7} for t in "ab"], "add up to 1 at most, got 1.6851$"),
        (
            ENTRY,
            {"token": "c", "logprob": -1.0, "top_logprobs": [{"token": "a", "logprob": -2.0}, {"token": "b", "logprob": -0.8}]},
            "expected at most -2.0, as it is not among the likeliest, got -1.0",
        ),
        (("usage",), [], "usage: expected an object"),
        (("usage", "prompt_tokens"), -1, "usage.prompt_tokens: expected a count"),
        (("usage", "completion_tokens"), 10**400, "got an integer of 1329 bits"),
        (("usage", "completion_tokens"), 3.0, "expected a count"),
        (("usage", "completion_tokens"), True, "expected a count"),
        (("model",), {}, "model: expected a name"),
        (("system_fingerprint",), "x" * 1001, "system_fingerprint: expected a name"),
        (("usage", "completion_tokens"), -(10**20), "got an integer of 67 bits"),
        (("usage", "completion_tokens"), 10**20 - 1, "got 99999999999999999999$"),
        (("prompt_logprobs",), [{"x": {"logprob": -1}}], "expected ids of tokens"),
        (("prompt_logprobs",), [{"1": -1}], "expected an object"),
        (("prompt_logprobs",), [{"2147483648": {"logprob": -1}}], "expected ids of tokens"),
        (("prompt_logprobs",), [{"00000000001": {"logprob": -1}}], "expected ids of tokens"),
        (("prompt_logprobs",), [{"\u0661": {"logprob": -1}}], "expected ids of tokens"),
        (("prompt_logprobs",), [{"1": {"logprob": 2}}], "expected a log-probability"),
        (("prompt_logprobs",), [{"1": {"logprob": -0.1}, "2": {"logprob": -0.1}}], "add up to 1 at most"),
    ],
)
def test_what_cannot_be(path, value, message):
    with pytest.raises(Impossible, match=message):
        check(changed(path, value), BODY)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((*CHOICE, "index"), None),
        ((*CHOICE, "finish_reason"), None),
        ((*CHOICE, "token_ids"), [2**31 - 1, 0, 10, 13]),
        ((*CHOICE, "token_ids"), [3] * 5),
        ((*CHOICE, "message", "content"), "x" * 14),
        (CHOICE, {"message": {"content": "red"}, "logprobs": {"content": []}}),
        ((*CHOICE, "logprobs", "content"), None),
        ((*CHOICE, "logprobs"), None),
        (("usage",), None),
        (("usage", "prompt_tokens"), None),
        (("model",), "x" * 1000),
        (("prompt_logprobs",), [{"2147483647": {"logprob": -1}, "0000000001": {"logprob": -1}}, None, {}]),
        ((*ENTRY, "top_logprobs"), [{"token": " cube", "logprob": -3.0}, {"token": " cube", "logprob": -0.3683}]),
        ((*ENTRY, "top_logprobs"), []),
    ],
)
def test_what_may_be(path, value):
    check(changed(path, value), BODY)


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
        (-1e300, [], True),
        (-1.1e300, [], False),
        (1e-5, [], True),
        (1.1e-5, [], False),
        (0, [0], True),
    ],
)
def test_how_far_servers_may_round(own, tops, passes):
    """The first of the likeliest is the token itself, where there is room for it."""
    names = ["own", "other"] if len(tops) == 2 or own > -0.6 or own < -0.7 else ["other"]
    entry = {"token": "own", "logprob": own, "top_logprobs": [{"token": n, "logprob": p} for n, p in zip(names, tops, strict=False)]}
    answer = changed((*CHOICE, "logprobs", "content"), [entry])
    answer["choices"][0] |= {"token_ids": None, "message": {"content": "own"}}
    if passes:
        check(answer, BODY)
    else:
        with pytest.raises(Impossible):
            check(answer, BODY)


def test_more_choices_than_were_asked_for_and_one_twice():
    answer = reply({**BODY, "n": 2})
    with pytest.raises(Impossible, match="a list of 1 to 1, got a list of 2"):
        check(answer, BODY)
    answer["choices"][1]["index"] = 0
    with pytest.raises(Impossible, match=r"choices\[1\]\.index: expected one of 0 to 1, once, got 0"):
        check(answer, {**BODY, "n": 2})


def test_a_special_token_spelled_in_two_ways_is_one():
    answer = reply()
    entry = answer["choices"][0]["logprobs"]["content"][0]
    entry["token"] = "<|" + entry["token"] + "|>"
    check(answer, BODY)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", NoReply), (b"<html>", NoReply), (b"\xff\xfe", NoReply), (b"7", Nonsense), (b"{}", Nonsense), (b'{"choices": []}', Nonsense),
        (b'{"choices": "ab"}', Nonsense), (b"[" * 100_000, Impossible), (b'{"choices": [' * 20_000, Impossible),
        (b'{"choices": [{"x": NaN}]}', Impossible), (b'{"choices": [{"x": "\\ud800"}]}', Impossible),
        (b'{"choices": ["\xff"]}', Impossible),
        (b'  {"choices": [{"x": "\\uDBFF"}]}', Impossible), (b"  [", Impossible),
        (b'{"choices": [' + b"9" * 5000 + b"]}", Impossible),
    ],
)  # fmt: skip
def test_what_is_no_reply(data, kind):
    with pytest.raises(Nonsense) as caught:
        parsed(data)
    assert type(caught.value) is kind and str(caught.value).isprintable() and len(str(caught.value)) < 300


def test_text_of_all_planes_passes():
    text = "\ud83d\ude00"
    assert parsed(json.dumps({"choices": [text]}).encode()) == {"choices": ["\U0001f600"]}
    assert parsed(b"\xef\xbb\xbf" + b'{"choices": [1]}') == {"choices": [1]}


def test_an_honest_reply_is_within_its_bytes():
    for body in (BODY, {**BODY, "n": 3, "temperature": 1.0}, SCORED):
        assert len(json.dumps(reply(body), indent=4)) < longest(body) < 2**21
    assert longest(BODY) == 2**20 + 512 * 4 * 6 and longest({**SCORED, "n": 3}) == 2**20 + 512 * (4 * 3 * 6 + (16 + 5) + (16 + 3))
    assert longest({"messages": [], "max_tokens": 4}) == 2**20 + 512 * 4
