"""One file from a server of our own, which cuts, lies and hangs."""

from __future__ import annotations

import hashlib
import shutil
from types import SimpleNamespace

import httpx
import pytest

from qualm.registry.entries import download as module
from qualm.registry.entries.download import RemoteFile, bytes_so_far, client, download, need_room, safe_path
from qualm.registry.entries.lock import FetchError
from tests.support.servers.hub_server import hub_server

DATA = bytes(range(256)) * 1024
SHA = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(module, "WAIT", 0.0)


@pytest.fixture
def hub():
    with hub_server(a=DATA) as server:
        yield server


def bring(hub, folder, **more):
    told = []
    with client() as web:
        digest = download(RemoteFile("in/a", hub.address("a"), **more), folder, web, lambda name, size: told.append(size))
    assert sum(told) >= len(DATA) and (folder / "in/a").read_bytes() == DATA
    assert [p.name for p in (folder / "in").iterdir()] == ["a"]
    return digest


def test_a_file_comes_whole_and_once(hub, tmp_path):
    assert bring(hub, tmp_path, size=len(DATA), sha256={"the card": SHA}) == SHA == bring(hub, tmp_path)
    assert hub.asked == [("/plain/a", None)]


def test_a_connection_that_breaks_is_taken_up_where_it_broke(hub, tmp_path):
    hub.cut, hub.statuses = [100_000, 50_000], [503]
    assert bring(hub, tmp_path) == SHA
    assert [asked for _, asked in hub.asked] == [None, None, "bytes=100000-", "bytes=150000-"]


@pytest.mark.parametrize(("etags", "sha", "asked"), [(True, False, "bytes=1000-"), (False, True, "bytes=1000-"), (False, False, None)])
def test_what_a_killed_run_left_is_gone_on_with_where_something_can_tell_it(hub, tmp_path, etags, sha, asked):
    hub.etags = etags
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.part").write_bytes(DATA[:1000])
    (tmp_path / "in/a.part-etag").write_text(f'"{hashlib.md5(DATA).hexdigest()}"' if etags else "")
    bring(hub, tmp_path, sha256={"the card": SHA} if sha else {})
    assert hub.asked == [("/plain/a", asked)]


def test_another_file_at_the_address_is_begun_anew(hub, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.part").write_bytes(b"x" * 1000)
    (tmp_path / "in/a.part-etag").write_text('"old"')
    bring(hub, tmp_path)
    assert hub.asked == [("/plain/a", "bytes=1000-")]  # and all of it came


def test_what_is_longer_than_the_file_is_begun_anew(hub, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.part").write_bytes(DATA + b"x")
    bring(hub, tmp_path, sha256={"the card": SHA})
    assert [asked for _, asked in hub.asked] == [f"bytes={len(DATA) + 1}-", None]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sha256": {"the card": "0" * 64}}, f"SHA-256 {SHA[:12]}… where the card has 000000000000…; it was deleted"),
        ({"blob": "1" * 40}, "git object .* where the hub has 111111111111…"),
        ({"size": len(DATA) - 1}, "more than the 262,143 bytes that were announced"),
    ],
)
def test_another_file_is_not_kept(hub, tmp_path, more, message):
    with pytest.raises(FetchError, match=message):
        bring(hub, tmp_path, **more)
    assert not (tmp_path / "in/a").exists()


def test_git_s_object_id_is_enough(hub, tmp_path):
    blob = hashlib.sha1(b"blob %d\0" % len(DATA) + DATA).hexdigest()
    assert bring(hub, tmp_path, blob=blob) == SHA


@pytest.mark.parametrize(
    ("statuses", "message"),
    [
        ([404], "404 Not Found; the file is no longer there"),
        ([403], "wants an account"),
        ([500] * module.MAX_TRIES, "too busy or broken; the same command"),
        ([410], "410 Gone; the file is no longer there"),
        ([401], "401 Unauthorized; it wants an account"),
        ([418], "418 .*; try again later"),
    ],
)
def test_what_the_server_refuses(hub, tmp_path, statuses, message):
    hub.statuses = statuses
    with pytest.raises(FetchError, match=message):
        bring(hub, tmp_path)


def test_the_last_attempt_may_be_the_one_that_brings_it(hub, tmp_path):
    hub.statuses = [408, 425, 429, 502, 504]
    assert len(hub.statuses) == module.MAX_TRIES - 1 and bring(hub, tmp_path) == SHA and len(hub.asked) == module.MAX_TRIES


def test_what_stays_shorter_than_announced(hub, tmp_path):
    with pytest.raises(FetchError, match="too busy or broken"):
        bring(hub, tmp_path, size=len(DATA) + 1, sha256={"the card": SHA})
    assert [path.name for path in (tmp_path / "in").iterdir() if not path.name.endswith("etag")] in ([], ["a.part"])


def test_a_file_that_is_there_is_held_to_its_size(hub, tmp_path):
    bring(hub, tmp_path)
    with pytest.raises(FetchError, match=r"256\.0 KiB where 256\.0 KiB were announced; it was deleted"):
        bring(hub, tmp_path, size=len(DATA) + 1)
    assert not (tmp_path / "in/a").exists()


def test_a_host_that_cannot_be_reached_is_given_up_soon_and_asked_once_more_at_most(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "UNREACHABLE", set())
    monkeypatch.setattr(module, "WAIT", 0.05)
    monkeypatch.setattr(module, "MAX_SILENCE", 0.25)
    for tries in (3, 1):  # waits of 0.05 and 0.1 s; a third of 0.2 s would be too long
        with client() as web, pytest.raises(FetchError, match=r"127\.0\.0\.1 cannot be reached .*the same command goes on"):
            download(RemoteFile("a", "http://127.0.0.1:9/a"), tmp_path, web, lambda name, size: None)
        said = capsys.readouterr().err.splitlines()
        assert len(said) == tries - 1 and not any(not line.startswith("a: waiting for 127.0.0.1 (ConnectError") for line in said)


@pytest.mark.parametrize("direct", [True, False])
def test_nothing_comes_over_http_from_elsewhere(hub, tmp_path, direct):
    hub.location = "http://example.org/a"
    with client() as web, pytest.raises(FetchError, match=r"example.org/a: not https"):
        download(RemoteFile("a", hub.location if direct else hub.address("a")), tmp_path, web, lambda name, size: None)


@pytest.mark.parametrize("name", ["../a", "/etc/a", "a/../../b", "", "a\\b", "a\n", "a.part"])
def test_names_that_lead_out(tmp_path, name):
    with pytest.raises(FetchError, match=r"expected a printable name inside .*; it is not downloaded"):
        safe_path(tmp_path, name)


def test_a_link_that_leads_out(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/link").symlink_to(tmp_path)
    with pytest.raises(FetchError, match=r"leads out of .* by a link"):
        safe_path(tmp_path / "inner", "link/a")


def test_a_full_disk_is_met_before_anything_comes(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2**30))
    need_room(tmp_path, 2**30)
    with pytest.raises(FetchError, match=r"2.0 GiB are still to be downloaded and only 1.0 GiB are free"):
        need_room(tmp_path, 2**31)


def test_an_interrupted_download_counts_what_came(tmp_path):
    assert bytes_so_far(tmp_path / "a") == 0
    (tmp_path / "a.part").write_bytes(b"12345")
    assert bytes_so_far(tmp_path / "a") == 5


def test_how_long_the_server_asks_to_wait():
    reply = httpx.Response(429, headers={"Retry-After": "7"})
    assert module._retry_after(reply) == 7 and module._retry_after(httpx.Response(429)) == 0
    for said, seconds in (("60", 60), ("61", 60), ("soon", 0), ("-1", 0), ("1.5", 0), ("0", 0)):
        assert module._retry_after(httpx.Response(503, headers={"Retry-After": said})) == seconds
