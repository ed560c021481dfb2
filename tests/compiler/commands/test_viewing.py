"""The command `qualm view`."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from qualm.compiler.commands.main import app
from qualm.compiler.project.checkout import Project


def test_what_is_shown_and_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "params.yaml").write_text("default: s\n")
    monkeypatch.chdir(tmp_path)
    calls: list[tuple[Any, ...]] = []
    for name in ("serve_results", "publish_results"):
        monkeypatch.setattr(f"qualm.compiler.viewing.show.{name}", lambda project, *more, name=name: calls.append((name, *more)) or True)
    more = ["a", "b", "--rev", "v1", "--rev", "v2", "--pull", "--title", "Mine", "--images", "all", "--port", "65535", "--no-open"]
    for words in ([], more, ["--publish", "site"], [*more, "--publish", "site", "--force"]):
        assert CliRunner().invoke(app, ["view", *words]).exit_code == 0
    assert calls == [
        ("serve_results", [], None, None, False, [], False), ("serve_results", ["a", "b"], 65535, "Mine", True, ["v1", "v2"], True),
        ("publish_results", [], Path("site"), "clean", None, [], False, False),
        ("publish_results", ["a", "b"], Path("site"), "all", "Mine", ["v1", "v2"], True, True),
    ]  # fmt: skip
    for port in ("0", "65536"):
        assert CliRunner().invoke(app, ["view", "--port", port]).exit_code == 2


@pytest.fixture(scope="module")
def root(copy_viewed: Callable[[Path], Project], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_viewed(tmp_path_factory.mktemp("viewed")).root


@pytest.mark.slow
def test_the_page_is_served_until_it_is_interrupted(root: Path) -> None:
    command = [sys.executable, "-m", "qualm.compiler.commands.main", "view", "small", "--no-open"]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"}) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
        with urllib.request.urlopen(url, timeout=60) as reply:
            assert b"<title>Qualm</title>" in reply.read()
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        assert process.wait(60) == 0 and time.monotonic() - start < 60
