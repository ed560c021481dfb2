"""The batch API, call by call, against a server that speaks it."""

import json
import time

import pytest

from qualm.runners.runtime.server_config import Server
from qualm.runners.servers.batch_api import (
    MAX_BYTES,
    MAX_REQUESTS,
    BatchApi,
    BatchJob,
    _parse_batch,
    max_line_bytes,
    parse_outcome,
    read_outcomes,
    request_line,
)
from qualm.runners.servers.client import Client, FatalRequestError
from qualm.runners.servers.protocol import ImpossibleReplyError
from tests.support.servers.batch_server import batch_serving
from tests.support.servers.small_server import completion

BODY = {"model": "m", "messages": [{"role": "user", "content": "Wér?"}], "max_tokens": 4, "temperature": 0.0}


def api_of(server, pauses=None, **settings):
    client = Client("model 'm'", "m", server.url, Server(retries=1, pause=0.01, **settings))
    return BatchApi(client, (pauses if pauses is not None else []).append)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "x.requests"
    path.write_bytes(b"".join(request_line(key, {**BODY, "n": n}) for n, key in enumerate("abc", 1)))
    return path


def test_from_a_file_of_requests_to_a_file_of_replies(file):
    with batch_serving(lambda body, nth: completion(f"red {body['n']}"), looks=3) as server:
        api = api_of(server)
        id = api.upload(file)
        assert server.files[id] == file.read_bytes()
        made = api.make(id, "ours", time.time())
        assert (made.status, made.file, made.total, made.has_ended) == ("validating", id, 3, False)
        assert server.batches[made.id]["metadata"] == {"qualm": "ours"}
        assert [api.get(made.id).status for _ in range(3)] == ["in_progress", "in_progress", "completed"]
        (replies,) = api.get(made.id).files
        data = api.download(replies)
        assert server.calls[:2] == ["POST /files", "POST /batches"]
    found = list(read_outcomes(data))
    assert sorted((o.key, o.status, json.loads(o.data)["choices"][0]["message"]["content"]) for _, _, o in found) == [
        ("a", 200, "red 1"), ("b", 200, "red 2"), ("c", 200, "red 3"),
    ]  # fmt: skip
    assert all(parse_outcome(data[at : at + length]) == outcome for at, length, outcome in found)


def test_a_request_line_says_what_is_sent_and_nothing_else():
    assert json.loads(request_line("k", BODY)) == {"custom_id": "k", "method": "POST", "url": "/v1/chat/completions", "body": BODY}
    assert "Wér?".encode() in request_line("k", BODY) and request_line("k", BODY).endswith(b"}\n")
    assert max_line_bytes({**BODY, "n": 3, "top_logprobs": 1}) == 4096 + 512 * 4 * 3 * 2 and max_line_bytes(BODY) == 4096 + 512 * 4


def test_lines_that_say_nothing_are_passed_over():
    lines = [b"[]", b"{", b'{"custom_id": 7}', b'{"custom_id": "k", "response": null, "error": {"code": "batch_expired"}}']
    ((at, length, outcome),) = read_outcomes(b"\n".join(lines) + b"\n")
    assert (outcome.key, outcome.status, outcome.data) == ("k", 0, b'{"code": "batch_expired"}')
    assert b"\n".join(lines)[at : at + length].strip() == lines[-1]


def test_a_batch_is_found_on_any_page_of_the_list(file):
    with batch_serving(lambda body, nth: completion("red")) as server:
        api = api_of(server)
        mine, another = api.upload(file), api.upload(file)
        for place in range(130):
            id = mine if place == 3 else another
            server._make({"input_file_id": id, "endpoint": "/v1/chat/completions", "completion_window": "24h"})
        before = len(server.calls)
        assert api.find_created(mine, time.time()).file == mine and server.calls[before:] == ["GET /batches"] * 2
        assert api.find("file-none", time.time()) is None
        assert api.find(mine, time.time() + 10**6) is None, "older batches than the file are not looked through"


@pytest.mark.parametrize(("oldest", "has_more", "pages"), [(1e6 - 3600, True, 2), (1e6 - 3601, True, 1), (1e6, False, 1)])
def test_pages_end_an_hour_before_the_file_was_written(file, oldest, has_more, pages):
    """Clocks differ; and servers list the newest first."""
    with batch_serving(lambda body, nth: completion("red")) as server:
        made = [{"id": f"b{at}", "status": "completed", "input_file_id": "f", "created_at": at} for at in (2e6, 2e6, oldest)]
        server.trouble = lambda call, nth: (200, {"data": made, "has_more": has_more and nth == 1})
        assert api_of(server).find("file-none", 1e6) is None and server.calls == ["GET /batches"] * pages


def test_what_a_server_says_of_a_batch_may_be_less_or_else():
    plain = {"id": "b", "status": "failed", "input_file_id": "f"}
    assert _parse_batch(plain) == BatchJob("b", "failed", "f", 0.0)
    told = plain | {"created_at": 5, "output_file_id": "o", "error_file_id": "e", "request_counts": {"completed": 2, "total": 3}}
    assert _parse_batch(told | {"errors": {"data": [{"message": "no", "code": 7}]}}) == BatchJob(
        "b", "failed", "f", 5.0, ("o", "e"), "no", "7", 2, 3
    )
    odd = {"created_at": "now", "errors": {"data": []}, "request_counts": {"completed": "2", "total": True}, "output_file_id": ""}
    assert _parse_batch(plain | odd) == _parse_batch(plain | {"errors": "x", "request_counts": []}) == BatchJob("b", "failed", "f", 0.0)
    for name, value in (("id", ""), ("status", 3), ("input_file_id", "x" * 1001)):
        with pytest.raises(ImpossibleReplyError, match=f"{name}: expected a text, got "):
            _parse_batch(plain | {name: value})
    assert _parse_batch(plain | {"id": "x" * 1000}).id == "x" * 1000


def test_a_batch_that_is_not_listed_is_looked_for_twice(file):
    pauses = []
    with batch_serving(lambda body, nth: completion("red")) as server:
        assert api_of(server, pauses).find_created("file-none", time.time()) is None
        assert server.calls == ["GET /batches"] * 2 and pauses == [0.01]


def test_what_the_server_refuses_or_never_says_is_told(file):
    with batch_serving(lambda body, nth: completion("red")) as server:
        api = api_of(server)
        with pytest.raises(FatalRequestError, match=r"status 404: .*no /v1/batches/batch_9"):
            api.get("batch_9")
        with pytest.raises(FatalRequestError, match=r"status 400: .*not so"):
            api.make("file-none", "ours", time.time())
        server.trouble = lambda call, nth: (200, b"<html>")
        with pytest.raises(FatalRequestError, match="failed 2 times, the last time: expected an object, got <html>"):
            api.get("batch_9")
        server.trouble = lambda call, nth: (200, {"id": "b", "status": 3})
        with pytest.raises(FatalRequestError, match=r"status: expected a text, got 3"):
            api.get("batch_9")
        server.trouble = lambda call, nth: (500, b"busy")
        before = len(server.calls)
        with pytest.raises(FatalRequestError, match="failed 2 times, the last time: status 500: busy"):
            api.upload(file)
        assert server.calls[before:] == ["POST /files"] * 2


def test_large_files_have_ten_seconds_more_for_each_megabyte():
    with batch_serving(lambda body, nth: completion("red")) as server:
        api = api_of(server, deadline=5.0)
    assert api._seconds(10**6) == 15.0 and api._seconds(0) == 5.0


def test_why_a_batch_failed(file):
    fault = {"code": "invalid_json_line", "message": "This line is not parseable as valid JSON.", "line": 2}
    with batch_serving(lambda body, nth: completion("red"), fate=lambda batch, n: fault) as server:
        api = api_of(server)
        ended = api.get(api.make(api.upload(file), "ours", time.time()).id)
    assert isinstance(ended, BatchJob) and ended.has_ended and ended.files == ()
    assert (ended.status, ended.code, ended.fault) == ("failed", "invalid_json_line", f"{fault['message']} (line 2)")


def test_a_batch_stays_within_what_openai_takes():
    """50,000 requests and a file of 200 MB, nearly all of which is used."""
    assert MAX_REQUESTS == 50_000 and 190e6 < MAX_BYTES < 200e6
