"""A real, headless Chromium driven over its debugging socket: open a page, press keys, run a line of JavaScript, look at it."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from tests.support.processes.waiting import TIMEOUT, wait_until

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


class PageLeftError(RuntimeError):
    """The page went to another address while it was asked something."""


class Chromium:
    """One browser with one tab, its profile in `folder`; skips the test where there is no Chromium."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 900) -> None:
        binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if binary is None:
            pytest.skip("no Chromium here; the page is tested in a real browser only")
        connect = pytest.importorskip("websocket", reason="needs the package websocket-client").create_connection
        self._process = subprocess.Popen(
            [binary, *FLAGS, f"--user-data-dir={folder}", f"--window-size={width},{height}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        told = folder / "DevToolsActivePort"
        port, path = self._wait(lambda: told.exists() and told.read_text().count("\n") and told.read_text().split("\n"))
        self._socket = connect(f"ws://127.0.0.1:{port}{path}", timeout=TIMEOUT, suppress_origin=True)
        self._number = 0
        self._session = ""
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._events: set[str] = set()
        self._loads = 0
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(TIMEOUT)

    def call(self, method: str, **params: Any) -> Any:
        """One command of the DevTools protocol; what the page says meanwhile is kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params} | ({"sessionId": self._session} if self._session else {})
        self._socket.send(json.dumps(message))
        while True:
            reply = json.loads(self._socket.recv())
            if reply.get("id") == self._number:
                if "error" in reply:
                    left = "navigated" in str(reply["error"].get("message"))
                    raise (PageLeftError if left else RuntimeError)(f"{method}: {reply['error']}")
                return reply["result"]
            self._event(reply)

    def _event(self, message: dict[str, Any]) -> None:
        told = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(
                str(told["exceptionDetails"].get("exception", {}).get("description") or told["exceptionDetails"]["text"])
            )
        elif message.get("method") == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.complaints.append(str(told["entry"]["text"]))
        elif message.get("method") == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
            if "/queue/" in told["request"]["url"]:
                self._events.add(told["requestId"])
        elif message.get("method") in ("Network.loadingFinished", "Network.loadingFailed"):
            self._events.discard(told["requestId"])
        elif message.get("method") == "Page.loadEventFired":
            self._loads += 1

    def open(self, url: str) -> None:
        """Go to a page; returns once it has loaded."""
        self._load("Page.navigate", url=url)

    def reload(self) -> None:
        """Load the page anew: when this returns, nothing of the page before can answer any more."""
        self._load("Page.reload")

    def _load(self, method: str, **params: Any) -> None:
        before = self._loads
        self.call(method, **params)
        while self._loads == before:
            self._event(json.loads(self._socket.recv()))

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression on the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"]["description"])
        return found["result"].get("value")

    def until(self, expression: str, seconds: float = TIMEOUT) -> None:
        """Wait for an expression to become true, on the page that another may lead to meanwhile."""

        def true() -> bool:
            try:
                return bool(self.run(f"!!({expression})"))
            except PageLeftError:
                return False

        self._wait(true, seconds, expression)

    def settle(self) -> None:
        """Wait until Gradio has nothing under way: its client forgets what is clicked in the very moment in which another event ends."""

        def quiet() -> bool:
            before = len(self.requests)
            time.sleep(0.15)
            self.run("0")
            return not self._events and len(self.requests) == before

        if any("/queue/" in url for url in self.requests):
            self._wait(quiet, what="an idle page")

    def click(self, selector: str) -> None:
        """A click on an element, as a person makes it who sees what the click before did."""
        self.settle()
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def press(self, key: str) -> None:
        """One key, as a person presses it."""
        self.settle()
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def size(self, width: int, height: int = 900) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def picture(self, file: Path, whole: bool = False) -> Path:
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(data))
        return file

    def _wait(self, ask: Any, seconds: float = TIMEOUT, what: str = "the browser") -> Any:
        return wait_until(ask, what, seconds, every=0.1)
