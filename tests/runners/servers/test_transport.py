"""Servers on loopback that send too much, for too long, or from elsewhere."""

import contextlib
import gzip
import json
import resource
import socket
import threading
import time
import zlib

import pytest

from qualm.runners.runtime.server_config import Price, server_settings
from qualm.runners.servers.client import FatalRequestError, RequestFailedError, RequestRejectedError, ServerError
from qualm.runners.servers.protocol import ImpossibleReplyError
from qualm.runners.servers.transport import MAX_REPLY_BYTES, BoundedTransport, environment_proxy, read_body
from tests.support.servers.small_client import body, line, text_of
from tests.support.servers.small_server import completion, serving

KEY = "sk-very-secret-0123456789"


def bomb(size=2**28):
    """256 MiB of spaces in one."""
    packer = zlib.compressobj(1, wbits=31)
    block = b" " * 2**20
    return b"".join([*(packer.compress(block) for _ in range(size // 2**20)), packer.flush()])


@pytest.mark.slow
def test_what_is_packed_small_is_not_unpacked():
    packed = bomb()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    message = r"the reply cannot be used: .*expected a reply of at most 1,0\d\d,\d\d\d bytes, got more"
    with serving(lambda *_: (200, packed, {"content-encoding": "gzip"})) as small, pytest.raises(RequestRejectedError, match=message):
        line(small.url).ask(body())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


@pytest.mark.parametrize("status", [200, 401, 500])
def test_bytes_without_end_are_left(status):
    def endless():
        while True:
            yield b" " * 65536

    with serving(lambda *_: (status, endless(), {})) as small, pytest.raises(RequestRejectedError, match="expected a reply of at most"):
        line(small.url).ask(body())


def test_compressed_replies_are_read_and_other_coding_is_not():
    packed = gzip.compress(completion("fine").encode())
    with serving(lambda *_: (200, packed, {"content-encoding": "gzip"})) as small:
        assert text_of(line(small.url).ask(body())) == "fine"
        assert small.headers[0]["accept-encoding"] == "gzip"
    for coding, data in {"gzip, gzip": gzip.compress(packed), "br": packed, "gzip": b"none", "x-gzip": packed[:-9]}.items():
        with pytest.raises(ImpossibleReplyError, match="expected a reply "):
            read_body([data], coding, 10**6)


def test_no_reply_may_be_larger_than_the_largest():
    transport = BoundedTransport("http://127.0.0.1:9/v1")
    for asked, most in ((5, 5), (MAX_REPLY_BYTES + 1, MAX_REPLY_BYTES)):
        with transport.bounds(asked, 1.0):
            assert transport._time.largest == most
    transport.close()


def test_proxies_of_other_protocols_are_passed_over(monkeypatch):
    for proxy, used in (("socks5://proxy:1", None), ("http://proxy:1", "http://proxy:1")):
        monkeypatch.setenv("https_proxy", proxy)
        assert environment_proxy("https://api.example.org/v1") == used


@pytest.mark.slow
@pytest.mark.parametrize("piece", [b" ", b"x"])
def test_a_drip_ends_with_the_deadline(piece):
    def drip():
        for _ in range(2000):
            time.sleep(0.01)
            yield piece

    with serving(lambda *_: (200, drip(), {})) as small, pytest.raises(RequestFailedError, match="timed out"):
        line(small.url, deadline=0.3).ask(body())


def test_a_drip_of_headers_ends_with_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip():
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                for number in range(2000):
                    try:
                        connection.sendall(f"x{number}: y\r\n".encode())
                    except OSError:
                        return
                    time.sleep(0.01)

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        with pytest.raises(RequestFailedError, match="timed out"):
            line(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", deadline=0.3).ask(body())
        thread.join(20)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_nothing_follows_to_another_place(status):
    with serving(lambda *_: "stolen") as other, serving(lambda *_: (status, "", {"location": f"{other.url}/chat/completions"})) as small:
        with pytest.raises(FatalRequestError, match=rf"status {status}: .*redirects are not followed"):
            line(small.url).ask(body())
        assert not other.bodies


def test_a_server_gets_the_headers_that_are_for_it(monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-secret")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(lambda *_: (200, completion("fine"), {"set-cookie": "a=b"})) as small:
        asked = line(small.url)
        for _ in range(2):
            assert text_of(asked.ask(body())) == "fine"
        names = {"host", "content-type", "content-length", "authorization", "accept", "accept-encoding", "user-agent"}
        assert [set(h) - {"connection"} for h in small.headers] == [names, names]
        assert small.keys == ["Bearer none"] * 2 and small.headers[0]["user-agent"] == "qualm"
    elsewhere = {"https://api.openai.com/v1": {"address": "http://gpu7:8000/v1"}}
    assert server_settings(elsewhere, "https://api.openai.com/v1", "m").key == ""
    assert server_settings({}, "https://api.openai.com/v1", "m").key == "OPENAI_API_KEY"


def test_proxies_of_the_environment_are_for_what_they_cannot_read(monkeypatch):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "gpu8")
    assert environment_proxy("https://api.openai.com/v1") == "http://127.0.0.1:9"
    assert environment_proxy("https://gpu8/v1") is None
    with serving(lambda *_: "direct") as small:
        assert text_of(line(small.url).ask(body())) == "direct"


FORMS = [KEY, json.dumps({"error": f"{KEY[:3]}\\u00{ord(KEY[3]):02x}{KEY[4:]}"}), "x" * 195 + KEY, '{"choices": "' + "x" * 170 + KEY]


@pytest.mark.parametrize("status", [200, 400, 401, 500])
@pytest.mark.parametrize("form", FORMS)
def test_no_message_holds_the_key_or_steers_a_terminal(monkeypatch, status, form):
    monkeypatch.setenv("QUALM_TEST_KEY", KEY)
    text = f"{form} \x1b]0;evil\x07 \u202e \x9b31m"
    with (
        serving(lambda *_: (status, text, {})) as small,
        pytest.raises((RequestFailedError, RequestRejectedError, FatalRequestError)) as caught,
    ):
        line(small.url, key="QUALM_TEST_KEY").ask(body())
    message = str(caught.value)
    assert message.isprintable() and KEY[3:12] not in message and "very" not in message


def test_an_answer_with_the_key_in_it_is_no_answer(monkeypatch):
    monkeypatch.setenv("QUALM_TEST_KEY", KEY)
    with (
        serving(lambda *_: f"You are {KEY}.") as small,
        pytest.raises(RequestRejectedError, match="repeats the key it was asked with") as caught,
    ):
        line(small.url, key="QUALM_TEST_KEY").ask(body())
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("usage", [(-1000, -1000), (0, 0), (10, -5), (10**400, 1)])
def test_what_a_server_says_it_used_does_not_defeat_the_limit(usage):
    dear = {"price": Price(10.0, 1000.0), "max_spend": 0.05, "concurrency": 1}
    with serving(lambda *_: (200, completion("fine", usage=usage), {})) as small:
        asked = line(small.url, **dear)

        def work(i):
            with contextlib.suppress(RequestRejectedError):
                yield text_of(asked.ask(body(f"{i:2}", max_tokens=10)))

        with pytest.raises(ServerError, match=r"max_spend = |no reply to 3 requests in a row can be used"):
            list(asked.pooled(range(100), work))
        assert len(small.bodies) <= 5  # .0102 dollars at most each
        assert 0 < asked.budget.spent <= 0.05
