"""`transformers serve` on loopback: a real server that answers by a model on disk."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path


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
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"{url}/health", timeout=1) as answer:
                    assert json.loads(answer.read())
                break
            except OSError:
                assert server.poll() is None, (folder / "log").read_text()[-2000:]
                time.sleep(0.1)
        yield f"{url}/v1"
    finally:
        server.terminate()
        server.wait(20)
