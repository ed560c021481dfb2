"""Serving a page: whose name it is, until when, and how a browser learns the address without anybody else."""

from __future__ import annotations

import getpass
import os
import signal
import stat
import webbrowser
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from qualm.compiler.viewing.serving import login_name, open_browser, until_stopped

URL = "http://127.0.0.1:1/secret/"


@pytest.mark.parametrize(
    ("login", "name"),
    [
        ("ann", "ann"),
        ("Ann Ö. B", "Ann-.-B"),
        ("-_.ann.", "ann"),
        ("x" * 50, "x" * 40),
        ("漢", "reviewer"),
        ("", "reviewer"),
    ],
)
def test_a_login_as_a_reviewer_s_name(monkeypatch: pytest.MonkeyPatch, login: str, name: str) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: login)
    assert login_name() == name


@pytest.mark.parametrize("error", [OSError("none"), KeyError("uid")])
def test_nobody_known_is_a_reviewer(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def unknown() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", unknown)
    assert login_name() == "reviewer"


@dataclass
class Page:
    """Ends the wait by a signal to this process, once somebody is told where it is."""

    url: str = URL
    closed: int = 0
    during: list[list[str]] = field(default_factory=list)

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_served_until_it_is_stopped(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    page, before = Page(), [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]

    def banner(url: str) -> str:
        os.kill(os.getpid(), number)
        return f"served at {url}"

    until_stopped(lambda: page, banner, None)  # type: ignore[arg-type, return-value]
    assert page.closed == 1 and capsys.readouterr().out == f"served at {URL}\n"
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == before


def test_signals_are_as_before_where_it_cannot_be_served() -> None:
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]

    def serve() -> Page:
        raise OSError("the port is taken")

    with pytest.raises(OSError, match="the port is taken"):
        until_stopped(serve, str, None)  # type: ignore[arg-type]
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_browser_opens_a_file_that_only_this_account_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    folder = tmp_path / "deep/pages"
    with open_browser(URL, folder) as file:
        assert opened == [file.as_uri()] and URL not in opened[0] and file.parent == folder
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert f'content="0; url={URL}"' in file.read_text() and f'<a href="{URL}">' in file.read_text()
    assert list(folder.iterdir()) == []


def test_the_file_goes_also_where_there_is_no_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(url: str) -> bool:
        raise webbrowser.Error("no browser")

    monkeypatch.setattr(webbrowser, "open", none)
    with open_browser(URL, tmp_path) as file:
        file.unlink()  # as somebody who tidies up
    with pytest.raises(RuntimeError), open_browser(URL, tmp_path):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_page_is_opened_only_where_that_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: (opened.append(url), os.kill(os.getpid(), signal.SIGINT)))
    until_stopped(Page, lambda url: url, tmp_path / "pages")  # type: ignore[arg-type]
    assert len(opened) == 1 and list((tmp_path / "pages").iterdir()) == []
