"""The local server: loopback, reads alone, and its own page alone."""

import http.client
import socket
import struct
from collections.abc import Iterator

import pytest

from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.viewing.server import HEADERS, PageServer
from qualm.compiler.viewing.site import Site


@pytest.fixture(scope="module")
def server(site: Site) -> Iterator[PageServer]:
    with PageServer(site, port=free_port()) as running:
        yield running


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def asked(server: PageServer, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request(method, path, headers={"Host": f"127.0.0.1:{server.port}", **{k.replace("_", "-"): v for k, v in headers.items()}})
    reply = connection.getresponse()
    return reply.status, reply.read(), {k.lower(): v for k, v in reply.getheaders()}


def test_files_with_their_kinds_and_rules(server: PageServer, site: Site) -> None:
    kinds = {
        "/": "text/html",
        "/main.js": "text/javascript",
        "/view.css": "text/css",
        "/data/small/board.js": "text/javascript",
        "/pictures/small/0/0.webp": "image/webp",
    }
    for path, kind in kinds.items():
        status, body, headers = asked(server, path)
        assert status == 200 and headers["content-type"].startswith(kind) and body == site.file(path.removeprefix("/"))
        assert {name.lower(): value for name, value in HEADERS.items()}.items() <= headers.items()
        assert headers["cache-control"] == ("no-cache" if kind == "image/webp" else "no-store") and headers["server"].strip() == "qualm"
    assert "frame-ancestors 'none'" in HEADERS["Content-Security-Policy"]


def test_head_has_no_body(server: PageServer) -> None:
    status, body, headers = asked(server, "/main.js", "HEAD")
    assert (status, body) == (200, b"") and int(headers["content-length"]) > 1000


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_written(server: PageServer, method: str) -> None:
    assert asked(server, "/", method)[0] == 501


@pytest.mark.parametrize("path", ["/nothing", "/../pyproject.toml", "/%2e%2e/pyproject.toml", "/data/small/c/99.js", "/" + "a" * 5000])
def test_there_is_nothing_else(server: PageServer, path: str) -> None:
    assert asked(server, path)[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "evil.example:80"])
def test_names_that_lead_here_are_refused(server: PageServer, host: str) -> None:
    assert asked(server, "/", Host=host)[0] == 403


def test_other_sites_read_nothing(server: PageServer) -> None:
    data = "/data/small/t/0.js"
    assert asked(server, data, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors", Sec_Fetch_Dest="script")[0] == 403
    assert asked(server, data, Sec_Fetch_Site="same-site")[0] == 403
    assert asked(server, "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document")[0] == 200
    assert asked(server, "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="iframe")[0] == 403
    assert asked(server, data, Sec_Fetch_Site="same-origin")[0] == 200


def test_only_loopback_listens(server: PageServer) -> None:
    assert server._server.server_address[0] == "127.0.0.1" and server.url == f"http://127.0.0.1:{server.port}/"


def test_a_browser_that_leaves_says_nothing(server: PageServer, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", server.port)) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.sendall(f"GET /main.js HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
    assert asked(server, "/main.js")[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_a_port_that_is_taken(server: PageServer, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProjectError, match=f"port {server.port}: .*; give another with --port"):
        PageServer(site, server.port)
    monkeypatch.setattr("qualm.compiler.viewing.server.PORT", server.port)
    with PageServer(site) as other:
        assert other.port != server.port and asked(other, "/")[0] == 200, "where none is asked for, any that is free"
