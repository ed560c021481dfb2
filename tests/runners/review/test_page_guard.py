"""Attacks on a page that is being reviewed: every one is refused, and the page's own browser is not."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from qualm.compiler.viewing.serving import open_browser
from qualm.runners.review import page
from qualm.runners.review.journal import ReviewJournal
from qualm.runners.review.pages import MAX_BODY_BYTES, MAX_QUERY_CHARACTERS, Guard, ServedPage
from qualm.runners.review.pool import read_pool
from qualm.runners.review.session import ReviewSession
from tests.support.data.tiny_pairs import write_pairs
from tests.support.processes.chromium import Chromium
from tests.support.processes.waiting import wait_until

pytestmark = pytest.mark.usefixtures("gradio")
QUESTION = "Which secret is in this picture?"
Answer = tuple[int, bytes, http.client.HTTPMessage]
UNDO = 3
"""The number of the event that withdraws a decision: it takes no input, so that one request is the whole attack."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> ReviewSession:
    folder = tmp_path_factory.mktemp("pairs")
    recipe, source = write_pairs(folder, 2, QUESTION)
    return ReviewSession(read_pool([recipe], [source]), ReviewJournal(folder, "reviews", "ann"))


@pytest.fixture(scope="module")
def running(session: ReviewSession) -> Iterator[ServedPage]:
    serving = page.serve(session, "ours")
    yield serving
    serving.close()


@pytest.fixture(autouse=True)
def decided(session: ReviewSession) -> None:
    """One decision that an attack could withdraw."""
    if not session.counts.get("valid"):
        session.decide("valid")


def ask(running: ServedPage, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
    """One request, its headers as they stand here."""
    line = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    line.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    sent = {"Host": f"127.0.0.1:{running.port}", **({} if body is None else {"Content-Length": str(len(body))})}
    for name, value in {**sent, **{k.replace("_", "-"): v for k, v in headers.items()}}.items():
        line.putheader(name, value)
    line.endheaders(body)
    with line.getresponse() as reply:
        answer = reply.read() if "event-stream" not in (reply.getheader("content-type") or "") else b""
    line.close()
    return reply.status, answer, reply.headers


def secret(running: ServedPage) -> str:
    return "/" + running.url.split("/", 3)[3].rstrip("/")


def undo(running: ServedPage, prefix: str, **headers: str) -> int:
    """Withdraw the decision before, as the page does: 200 where that was let through."""
    body = json.dumps({"data": [], "fn_index": UNDO, "session_hash": "attack"}).encode()
    return ask(running, f"{prefix}/gradio_api/queue/join", "POST", body, Content_Type="application/json", **headers)[0]


@pytest.mark.slow
def test_the_pages_own_browser_reads_and_decides(running: ServedPage, session: ReviewSession) -> None:
    status, answer, headers = ask(running, secret(running) + "/")
    assert status == 200 and b"gradio" in answer
    assert "server" not in headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "connect-src 'self'" in policy
    assert (headers["referrer-policy"], headers["x-content-type-options"], headers["cache-control"]) == (
        "no-referrer",
        "nosniff",
        "no-store",
    )
    own = f"http://localhost:{running.port}"
    assert undo(running, secret(running), Host=own.removeprefix("http://"), Origin=own, Sec_Fetch_Site="same-origin") == 200
    wait_until(lambda: not session.counts.get("valid"), "the decision is withdrawn")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:{port}"},  # DNS rebinding: their name now means 127.0.0.1
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": "localhost.evil.example:{port}"},
        {"Host": "127.0.0.1.nip.io:{port}"},
        {"Host": "[::1]:{port}"},
        {"Host": ""},
        {"Host": "evil.example:{port}", "Origin": "http://evil.example:{port}", "Sec_Fetch_Site": "same-origin"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost:{port}"},  # another name than the one that was asked
        {"Origin": "https://127.0.0.1:{port}"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"},  # a form
        {"Origin": "http://evil.example", "Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"},
    ],
    ids=str,
)
def test_other_sites_neither_read_nor_decide_even_with_the_address(
    running: ServedPage, session: ReviewSession, headers: dict[str, str]
) -> None:
    foreign = {name: value.format(port=running.port) for name, value in headers.items()}
    before = session.counts
    assert undo(running, secret(running), **foreign) == 403
    status, answer, sent = ask(running, secret(running) + "/config", **{k: v for k, v in foreign.items() if v != "navigate"})
    assert status == 403 and b"gradio" not in answer and "access-control-allow-origin" not in sent
    assert session.counts == before


@pytest.mark.parametrize("prefix", ["", "/", "/{shorter}", "/{other}", "/gradio", "/..{token}", "/{token}x", "{upper}"])
def test_another_account_without_the_address_neither_reads_nor_decides(running: ServedPage, session: ReviewSession, prefix: str) -> None:
    token = secret(running)
    guess = prefix.format(shorter=token[1:-1], other="A" * (len(token) - 1), token=token[1:], upper=token.swapcase())
    before = session.counts
    assert undo(running, guess) in (403, 404)
    for route in (
        "/",
        "/config",
        "/theme.css",
        "/gradio_api/info",
        "/gradio_api/queue/data?session_hash=attack",
        "/assets/index.js",
        "/gradio_api/startup-events",
    ):
        status, answer, _ = ask(running, guess + route)
        assert status in (403, 404) and len(answer) < 100, route
    assert session.counts == before


def test_no_request_without_the_token_names_it(running: ServedPage) -> None:
    for route in ("/", "/manifest.json", "/favicon.ico", "/config", "/openapi.json", "/docs"):
        _, answer, headers = ask(running, route)
        assert secret(running)[1:] not in f"{answer!r} {headers}"


@pytest.mark.parametrize(
    "route",
    [
        "/gradio_api/upload",
        "/gradio_api/process_recording",
        "/gradio_api/component_server",
        "/gradio_api/run/predict",
        "/gradio_api/call/predict",
        "/gradio_api/vibe-edit/",
        "/login",
    ],
)
def test_nothing_is_uploaded_and_no_other_way_in_is_open(running: ServedPage, route: str) -> None:
    file = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\nspam\r\n--x--\r\n'
    assert ask(running, secret(running) + route, "POST", file, Content_Type="multipart/form-data; boundary=x")[0] == 404


def test_no_file_of_this_machine_is_read(running: ServedPage) -> None:
    here = Path(__file__).resolve()
    for route in (
        f"/gradio_api/file={here}",
        f"/gradio_api/file/{here}",
        "/gradio_api/proxy=http://127.0.0.1/",
        f"/assets/../../{here}",
        f"/static/%2e%2e/%2e%2e{here}",
    ):
        status, answer, _ = ask(running, secret(running) + route)
        assert status == 404 and len(answer) < 100, route


def test_a_body_is_no_longer_than_a_decision(running: ServedPage) -> None:
    route = secret(running) + "/gradio_api/queue/join"
    assert ask(running, route, "POST", b"{" + b" " * MAX_BODY_BYTES, Content_Type="application/json")[0] == 413


@pytest.mark.parametrize("head", ["Content-Length: 60000000", "Content-Length: -1", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("known", [True, False])
def test_more_than_that_is_not_even_read(running: ServedPage, head: str, known: bool) -> None:
    """60 MB are sent, or as much of it as the page takes before it hangs up."""
    route = (secret(running) if known else "") + "/gradio_api/queue/join"
    chunk = b"10000\r\n" + b"x" * 2**16 + b"\r\n" if "chunked" in head else b"x" * 2**16
    sent, answer = 0, b""
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as line:
        line.sendall(
            f"POST {route} HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\nContent-Type: application/json\r\n{head}\r\n\r\n".encode()
        )
        with suppress(OSError):  # it hangs up
            while sent < 60_000_000:
                line.sendall(chunk)
                sent += len(chunk)
        with suppress(OSError):
            answer = line.recv(2**16)
    assert sent < 60_000_000, "the page reads on"
    assert answer[9:12] in (b"", b"400", b"403", b"413")


def passed(path: str = "/token/", body: Sequence[bytes] = (b"",), query: bytes = b"", breaks_off: bool = False, **scope: Any) -> Any:
    """What a bare application behind the guard is given of one request, and what is answered: status, headers, body."""
    sent: list[dict[str, Any]] = []
    given: list[Any] = []
    parts = [{"type": "http.request", "body": part, "more_body": breaks_off or i < len(body) - 1} for i, part in enumerate(body)]
    parts.append({"type": "http.disconnect"})

    async def receive() -> Any:
        return parts.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        given.extend([await receive(), await receive()])
        answer = {b"Content-Type": b"text/plain", b"Cache-Control": b"public", b"Access-Control-Allow-Origin": b"*"}
        await send({"type": "http.response.start", "status": 200, "headers": [*answer.items()]})
        await send({"type": "http.response.body", "body": b"the page"})

    whole = {"type": "http", "method": "GET", "path": path, "query_string": query, "headers": [(b"Host", b"127.0.0.1:80")], **scope}
    asyncio.run(Guard(application, 80, "token")(whole, receive, send))
    return given, sent


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({}, 200),
        ({"path": "/token"}, 200),
        ({"path": "/token/config"}, 200),
        ({"query": b"x" * MAX_QUERY_CHARACTERS}, 200),
        ({"query": b"x" * (MAX_QUERY_CHARACTERS + 1)}, 404),
        ({"path": "/token/assets/../x"}, 404),
        ({"method": "PUT"}, 404),
        ({"path": "/tokeN/"}, 403),
        ({"body": [b"x" * 2**15] * 2}, 200),
        ({"body": [b"x" * 2**15, b"x" * 2**15, b"x"]}, 413),
        ({"headers": [(b"host", b"localhost:80"), (b"content-length", str(MAX_BODY_BYTES).encode())]}, 200),
        ({"headers": [(b"host", b"localhost:80"), (b"content-length", str(MAX_BODY_BYTES + 1).encode())]}, 413),
        ({"headers": [(b"host", b"localhost:80"), (b"content-length", b"9" * 5000)]}, 413),
        ({"headers": [(b"host", b"localhost:80"), (b"content-length", b"+5")]}, 413),
        ({"headers": [(b"host", b"localhost:80"), (b"host", b"localhost:80")]}, 403),
        ({"headers": []}, 403),
        ({"breaks_off": True}, 413),
        ({"path": "/favicon.ico"}, 200),
    ],
)  # fmt: skip
def test_what_is_just_within_the_limits_passes_and_nothing_beyond_them(more: dict[str, Any], status: int) -> None:
    given, sent = passed(**more)
    through = status == 200 and more.get("path") != "/favicon.ico"
    assert sent[0]["status"] == status and bool(given) == through and (sent[1]["body"] == b"the page") == through
    headers = dict(sent[0]["headers"])
    assert headers.get(b"connection") == (None if status == 200 else b"close") and headers[b"cache-control"] == b"no-store"


def test_the_application_reads_the_whole_body_and_has_no_say_in_who_may_read_its_answer() -> None:
    given, sent = passed(body=[b"ab", b"", b"cd"])
    assert given == [{"type": "http.request", "body": b"abcd", "more_body": False}, {"type": "http.disconnect"}]
    names = [name.lower() for name, _ in sent[0]["headers"]]
    assert b"access-control-allow-origin" not in names and names.count(b"cache-control") == 1 and names.count(b"content-type") == 1
    assert passed(type="websocket")[1] == [{"type": "websocket.close", "code": 1008}]


def test_a_script_of_another_site_in_a_real_browser_gets_nothing(running: ServedPage, session: ReviewSession, tmp_path: Path) -> None:
    """A page of another origin that was even told the address: it can neither read, nor frame, nor post."""
    posted = json.dumps({"data": [], "fn_index": UNDO, "session_hash": "attack"})
    with Chromium(tmp_path / "profile") as tab:
        tab.open("data:text/html,<title>evil</title><iframe></iframe>")
        for mode in ("cors", "no-cors"):
            tab.run(
                f"fetch({running.url + 'gradio_api/queue/join'!r}, {{method: 'POST', mode: {mode!r}, body: {posted!r}}})"
                ".then(r => r.text()).catch(e => '')"
            )
        assert tab.run(f"fetch({running.url + 'config'!r}).then(r => r.text()).catch(e => 'refused')") == "refused"
    assert session.counts["valid"] == 1


def test_the_browser_is_opened_by_a_file_that_this_account_alone_reads(
    running: ServedPage, session: ReviewSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url))
    with open_browser(running.url, tmp_path / "pages") as file:
        assert opened == [file.as_uri()], "no command line holds the address"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600 and running.url in file.read_text()
        with Chromium(tmp_path / "profile") as tab:
            tab.open(opened[0])
            tab.until("document.querySelector('#view .member.current img')?.complete")
            assert tab.complaints == []
    assert list((tmp_path / "pages").iterdir()) == []
