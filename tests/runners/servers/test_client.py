"""The client's own decisions: what a request can cost, when to come back, when to give up."""

import contextlib
import socket
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest

from qualm.runners.runtime.server_config import Price, Server
from qualm.runners.servers import client
from qualm.runners.servers.client import (
    Client,
    FatalRequestError,
    RequestFailedError,
    RequestRejectedError,
    RetryableError,
    ServerError,
    UnusableReplyError,
    _parse_retry_after,
)
from qualm.runners.servers.protocol import token_bounds
from tests.support.servers.small_client import body, line, text_of
from tests.support.servers.small_server import completion, serving


def test_what_a_request_can_cost():
    assert token_bounds(body("four", n=3)) == (16 + 4, 12)
    seen = [{"type": "image_url", "image_url": {"url": "data:"}}, {"type": "text", "text": "é"}]
    assert token_bounds({"messages": [{"role": "user", "content": seen}], "max_completion_tokens": 7}) == (16 + 2048 + 2, 7)


def test_when_to_come_back():
    assert (_parse_retry_after("7"), _parse_retry_after(None), _parse_retry_after("soon")) == (7.0, None, None)
    assert [_parse_retry_after(text) for text in ("nan", "inf", "-inf", "", "9" * 400 + "x", "Mon, 01 Jan 0001 00:00:00 -2359")] == [
        None
    ] * 5 + [0.0]
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 27 < _parse_retry_after(later) <= 30
    assert _parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0


@pytest.mark.parametrize("address", ["ftp://h/v1", "http:///v1", "http://u@h/v1", "http://:p@h/v1", "https://h/v1?key=1", "h"])
def test_an_address_that_is_none_or_holds_a_secret(address):
    for place, base_url, settings in (("base_url", address, Server()), ("`address` of qualm.toml", "http://h/v1", Server(address=address))):
        with pytest.raises(ValueError, match=rf"^{place}: expected http\(s\)://HOST"):
            Client("test", "m", base_url, settings)


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [(300, "", FatalRequestError), (399, "", FatalRequestError), (400, "", RequestRejectedError), (401, "", FatalRequestError),
    (413, "", RequestRejectedError), (422, "", RequestRejectedError),
     (404, "", FatalRequestError), (429, "", RetryableError), (429, '{"code": "insufficient_quota"}', FatalRequestError),
     (500, "", RetryableError)],
)  # fmt: skip
def test_what_a_status_means(status, text, kind):
    found = line("http://h/v1").status_error(status, text, "7")
    assert type(found) is kind and f"status {status}: {text or 'nothing'}" in str(found)
    assert ("redirects are not followed" in str(found)) == (status < 400)
    assert not isinstance(found, RetryableError) or (found.after, found.silent) == (7.0, False)


@pytest.mark.parametrize(
    ("said", "tries", "error", "spent"),
    [
        ((500, "busy", {}), 5, RequestFailedError, 0.0),
        ((200, "<html>", {}), 5, RequestFailedError, 5 * 24.0),
        ((200, completion("fine").replace("stop", "abort"), {}), 3, UnusableReplyError, 3 * 24.0),
        ((400, "no", {}), 1, RequestRejectedError, 0.0),
    ],
)  # fmt: skip
def test_how_often_a_request_is_tried_and_what_that_may_cost(said, tries, error, spent):
    with serving(lambda body, nth: said) as server:
        asked = line(server.url, retries=4, pause=0.001, price=Price(1e6, 1e6))
        with pytest.raises(error, match=f"{tries} " if tries > 1 else None):
            asked.ask(body("four"))
        assert len(server.bodies) == tries and asked.counters["tries repeated"] == tries - 1
        assert asked.budget.spent == pytest.approx(spent), "twenty tokens sent and four received, a dollar each"


@pytest.mark.parametrize(("usage", "spent"), [((9, 2), 11.0), ((9, 0), 24.0), ((0, 2), 24.0), (None, 24.0)])
def test_a_reply_that_does_not_say_what_it_used_counts_at_its_most(usage, spent):
    with serving(lambda body, nth: (200, completion("fine", usage=usage), {})) as server:
        asked = line(server.url, price=Price(1e6, 1e6))
        asked.ask(body("four"))
        asked.close()
    assert asked.budget.spent == pytest.approx(spent) and asked.counters["cents spent"] == 100 * spent
    assert asked.tokens == ({"sent": 9, "received": 2} if spent == 11 else {})


def test_failures_here_and_there_do_not_stop_a_run():
    """Three in a row do."""
    with serving(lambda body, nth: (500, "{}", {}) if body["messages"][0]["content"].endswith("7") else "fine") as server:
        asked = line(server.url, concurrency=1)
        made = []
        with pytest.raises(ServerError, match=r"item 8 of 60: failed once.*6 items failed and 0 were not sent"):
            for some in asked.pooled(range(60), lambda i: [text_of(asked.ask(body(f"{i}")))], "item"):
                made += some
        assert sorted(place for place, _ in made) == [i for i in range(60) if i % 10 != 7]
    with serving(lambda body, nth: (500, "{}", {})) as server:
        asked = line(server.url, concurrency=1)
        with pytest.raises(ServerError, match="3 items failed and 57 were not sent"):
            list(asked.pooled(range(60), lambda i: [text_of(asked.ask(body(f"{i}")))], "item"))


def test_what_an_item_gave_before_it_failed_is_handed_over():
    with serving(lambda body, nth: "fine") as server:
        asked = line(server.url)

        def work(i):
            yield text_of(asked.ask(body(f"{i}")))
            if i == 1:
                raise ZeroDivisionError

        made = []
        with pytest.raises(ZeroDivisionError):
            for some in asked.pooled([0, 1], work):
                made += some
        assert sorted(made) == [(0, "fine"), (1, "fine")]


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/v1", "http://no-such-host.invalid/v1", "https://{server}/v1"])
def test_a_server_that_cannot_be_reached_is_told_at_once(address):
    """A refused connection, an unknown host, no TLS; with what to do, whatever the settings say of tries."""
    with serving(lambda body, nth: "fine") as server:
        asked, start = line(address.format(server=server.url.split("/")[2]), retries=6, pause=1.0), time.monotonic()
        with pytest.raises(ServerError, match=r"cannot connect to http\S+ \(.+\); start the server, or correct the address: `base_url`"):
            list(asked.pooled(range(9), lambda i: [asked.ask(body(f"{i}"))]))
        assert time.monotonic() - start < 30


def test_a_host_that_is_silent_is_told_at_once(monkeypatch):
    """Its queue of connections is full, so that ours is never taken."""
    monkeypatch.setattr(client, "FIRST_CONNECT", 0.5)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, contextlib.ExitStack() as others:
        for _ in range(3):
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(listener.getsockname())
        asked, start = line(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", retries=6, pause=1.0), time.monotonic()
        with pytest.raises(FatalRequestError, match=r"cannot connect to .*timed out"):
            asked.ask(body("hi"))
        assert 0.4 < time.monotonic() - start < 10


def test_a_server_that_was_up_is_tried_again():
    with serving(lambda body, nth: "fine") as server:
        asked = line(server.url, retries=3, pause=0.01)
        list(asked.pooled([1], lambda _: [asked.ask(body("one"))]))
    with pytest.raises(ServerError, match="failed 4 times, the last time: Connection error"):
        list(asked.pooled([1], lambda _: [asked.ask(body("two"))]))


def test_what_is_on_its_way_when_a_run_is_ended_is_handed_over():
    with serving(lambda body, nth: "fine") as server:
        asked, made = line(server.url, concurrency=4), []
        with pytest.raises(ServerError, match=r"enough\. 0 items failed"):
            for some in asked.pooled(range(60), lambda i: [text_of(asked.ask(body(f"{i}")))], "item"):
                made += some
                asked.stop("enough")
        assert 1 <= len(made) == len(server.bodies) < 20


def test_a_time_out_may_have_to_be_paid():
    with serving(lambda body, nth: 2.0) as server:
        asked = line(server.url, timeout=0.3, price=Price(1e6, 0.0))
        with pytest.raises(RequestFailedError, match="timed out"):
            asked.ask(body("four"))
        assert asked.budget.spent == pytest.approx(20.0)  # twenty tokens at most, a dollar each


def test_no_more_requests_in_a_minute_than_agreed():
    with serving(lambda body, nth: (200, completion("fine"), {})) as server:
        asked = line(server.url, requests_per_minute=1200, concurrency=4)
        start = time.monotonic()
        assert len([m for some in asked.pooled(range(9), lambda i: [text_of(asked.ask(body(f"{i}")))]) for m in some]) == 9
        assert time.monotonic() - start >= 8 * 60 / 1200


def test_what_is_wanted_now_waits_for_no_batch():
    with serving(lambda body, nth: "fine") as server:
        asked = line(server.url)
        asked.exchange = SimpleNamespace(ask=lambda place, about, body: f"{place} {about}")
        asked._item.place = 3
        assert asked.ask(body("hi"), "answer") == "3 answer" and text_of(asked.ask(body("hi"), now=True)) == "fine"


def test_requests_that_cannot_be_used_in_a_row_stop_the_run_and_are_counted():
    """Two on their way at once may both be at the same thing; a usable reply between them begins anew."""
    with serving(lambda body, nth: "fine" if body["messages"][0]["content"] == "ok" else (200, "[]", {})) as server:
        asked = line(server.url)
        for place, (text, error) in enumerate(
            [*[("x", UnusableReplyError)] * 3, ("ok", None), *[("x", UnusableReplyError)] * 3, ("x", FatalRequestError)]
        ):
            asked._item.place = place
            if error is None:
                assert text_of(asked.ask(body(text))) == "fine"
            else:
                with pytest.raises(error):
                    asked.ask(body(text))
        assert asked.counters["replies that cannot be used"] == 7


def test_tokens_that_a_reply_did_not_use_are_given_back():
    corrections, reserved = [], []
    with serving(lambda body, nth: (200, completion("fine", usage=(9, 2)), {})) as server:
        asked = line(server.url)
        asked._rate_limiter.correct = corrections.append
        asked._rate_limiter.reserve = lambda tokens: reserved.append(tokens) or 0.0
        asked.ask(body("hi"))
    sent, received = token_bounds(body("hi"))
    assert (sent, received, reserved) == (18, 4, [8]), "four bytes a token, more or less"
    assert corrections == [9 + 2 - 8]
