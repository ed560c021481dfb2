"""Runs of a stage that begin at once: forks of a process that has imported everything, so that fifty kills take seconds.

Each child is what `python -m qualm.runners t/infer` is once its imports are done: lock, lifeline, stage, record, exit status.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

CODE = """
import json, os, signal, sys
from contextlib import chdir
warm = sys.argv[1]
from qualm.runners import __main__ as runner; from qualm.runners.stages import infer
from qualm.runners.inference.hf.model import HfVlm
with chdir(warm):
    assert runner.main(["t/infer"]) == 0
plain = HfVlm.answer
def answer(self, encoded, decoding):
    with open(".answered", "ab") as log:
        log.write(b".")
    return plain(self, encoded, decoding)
HfVlm.answer = answer
print("ready", file=sys.stderr, flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(asked["folder"])
        os.environ.update(asked["environment"])
        log = os.open(".log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1); os.dup2(log, 2)
        status = runner.main(["t/infer"])
        sys.stdout.flush()
        os._exit(status)
    print(child, file=sys.stderr, flush=True)
    print(json.dumps(os.waitpid(child, 0)[1] if asked["wait"] else None), file=sys.stderr, flush=True)
"""
# The parent's standard output would be the children's too, so it speaks on standard error.


class Zygote:
    """One process to fork from."""

    def __init__(self, warm, environment) -> None:
        """`warm` is a project whose stage is run first, so that all that is ever imported is."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", CODE, str(warm)],
            cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        said = []
        while (line := self._process.stderr.readline()) != "ready\n":
            assert line, "".join(said)
            said.append(line)

    def start(self, folder, **environment) -> "Run":
        self._process.stdin.write(json.dumps({"folder": str(folder), "environment": environment, "wait": True}) + "\n")
        self._process.stdin.flush()
        return Run(int(self._process.stderr.readline()), self._process.stderr)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Run:
    """A child; its zygote waits for it."""

    def __init__(self, pid, reports) -> None:
        self.pid, self._reports = pid, reports

    def running(self) -> bool:
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def kill(self, how=signal.SIGKILL) -> None:
        try:
            os.kill(self.pid, how)
        except ProcessLookupError:
            return

    def wait(self) -> int:
        """The exit status; negative for a signal."""
        return os.waitstatus_to_exitcode(json.loads(self._reports.readline()))

    def kill_after(self, seconds) -> int:
        """SIGKILL after a while, unless it has ended."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.running():
            time.sleep(0.001)
        self.kill()
        return self.wait()

    def kill_when(self, seen, within=180.0) -> int:
        """SIGKILL as soon as something is so."""
        deadline = time.monotonic() + within
        while not seen() and self.running():
            assert time.monotonic() < deadline
        self.kill()
        return self.wait()
