import base64

import pytest

from qualm.runners.servers.protocol import IMAGE_TOKENS, MAX_TOKENS, data_url, excerpt, is_count, read_usage, token_bounds


def test_a_request_costs_at_most_its_bytes_and_its_limit_for_every_answer():
    picture = {"type": "image_url", "image_url": {"url": "data:"}}
    body = {"messages": [{"content": "né"}, {"content": [{"type": "text", "text": "abc"}, picture]}], "max_tokens": 10}
    assert token_bounds(body) == (16 + 3 + 16 + 3 + IMAGE_TOKENS, 10)
    assert token_bounds({"messages": [], "max_completion_tokens": 7, "n": 3}) == (0, 21) and token_bounds({"messages": []}) == (0, 0)
    assert token_bounds({"messages": [], "response_format": {"type": "json"}}) == (len('{"type": "json"}'), 0)


@pytest.mark.parametrize(
    "usage, counts",
    [({"prompt_tokens": 3, "completion_tokens": 4}, (3, 4)), ({"prompt_tokens": 3}, (3, None)), (None, (None, None)), ({}, (None, None))],
)
def test_tokens_as_a_reply_counts_them(usage, counts):
    assert read_usage({"usage": usage}) == counts and read_usage({}) == (None, None)


@pytest.mark.parametrize("count", ["3", True, -1, 10**400, float("nan"), float("inf"), 1.5, [], MAX_TOKENS + 1])
def test_a_count_that_cannot_be_is_unknown(count):
    assert read_usage({"usage": {"prompt_tokens": count, "completion_tokens": 2.0}}) == (None, 2)
    assert read_usage({"usage": count}) == (None, None)


def test_plain_numbers_of_tokens():
    assert [is_count(v) for v in (0, 5, MAX_TOKENS)] == [True] * 3
    assert [is_count(v) for v in (-1, MAX_TOKENS + 1, 1.0, True, None, "1")] == [False] * 6


def test_words_of_a_server_are_one_short_line():
    assert excerpt(" a\n\tb\x1b ") == excerpt("a b\x1b") and "\x1b" not in excerpt("a\x1b") and excerpt(" ") == "nothing"
    assert excerpt("x" * 200) == "x" * 200 and excerpt("x" * 201) == "x" * 200 + "..."


@pytest.mark.parametrize(
    "head, kind", [(b"\x89PNG", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF8", "gif"), (b"RIFF", "webp"), (b"else", "png")]
)
def test_pictures_as_urls(head, kind):
    url = data_url(head + b"rest")
    assert url.startswith(f"data:image/{kind};base64,") and base64.b64decode(url.partition(",")[2]) == head + b"rest"
