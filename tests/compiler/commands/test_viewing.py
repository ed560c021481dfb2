"""The command `qualm view`."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.support.projects.viewed_project import viewed_project


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return viewed_project(tmp_path_factory.mktemp("viewed")).root


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
