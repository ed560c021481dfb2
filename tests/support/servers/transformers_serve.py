"""`transformers serve` on loopback: a real server that answers by a model on disk."""

import json
import os
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes.waiting import TIMEOUT, wait_until


@contextmanager
def transformers_serve(folder):
    """The server's base_url; its log is kept in the folder."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(Path(sys.executable).parent / "transformers"), "serve", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"

        def ready():
            try:
                with urllib.request.urlopen(f"{url}/health", timeout=TIMEOUT) as answer:
                    return json.loads(answer.read())
            except OSError:
                assert server.poll() is None, (folder / "log").read_text()[-2000:]
                return None

        wait_until(ready, "the server is up", every=0.1)
        yield f"{url}/v1"
    finally:
        server.terminate()
        server.wait(TIMEOUT)
