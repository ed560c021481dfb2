"""Python processes that begin at once: forks of one that has imported the large libraries, and nothing of ours.

What a test starts here is a process as any other, with its own working directory, environment, arguments and exit status, and it imports
`qualm` anew, from where it stands. Only torch and the like, seconds of every start, are already there.
A folder with a `python3`, a `dvc` and a `qualm` that do so comes first on the PATH of everything started here, so that the commands of a
`dvc repro` are forks too, and so are the processes that a stage or torchrun starts. What shall be started from nothing, and what dies with
its parent, is not for here: all forks are children of one server.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LIBRARIES = [
    "dvc.cli.parser", "dvc.repo.reproduce", "dvc.repo.stage", "dvc.repo.plots", "dvc.stage.run", "dvc.stage.cache", "dvc.dvcfile",
    "dvc.lock", "dvc.cachemgr", "dvc.data_cloud", "dvc_data.index.checkout", "scmrepo.git", "networkx",
    "dvc.repo.artifacts", "dvc.repo.datasets", "dvc.repo.metrics", "dvc.repo.open_repo", "dvc.repo.params", "dvc.dirs", "dvc.rwlock",
    "dvc.scm", "dvc_data.hashfile.db.local", "dvc_data.hashfile.status", "fsspec.implementations.memory", "rich.status", "scmrepo.noscm",
    "typer.rich_utils", "typer._click.decorators", "rich._emoji_codes", "yaml", "tomllib", "ruamel.yaml", "pydantic.type_adapter",
    "pydantic._internal._dataclasses", "jinja2", "numpy", "polars", "pyarrow.parquet", "pyarrow.compute", "pyarrow.dataset", "cv2",
    "PIL.ImageFilter", "PIL.PngImagePlugin", "PIL.JpegImagePlugin", "vl_convert", "scipy.stats", "scipy.optimize",
    "sklearn.metrics", "rouge_score.rouge_scorer", "torch.utils.data", "torchmetrics", "lightning", "peft",
    "transformers.generation.utils", "transformers.models.auto.modeling_auto", "transformers.models.auto.processing_auto",
    "transformers.models.clip.modeling_clip", "transformers.models.clip.image_processing_pil_clip",
    "transformers.models.llama.modeling_llama", "transformers.models.llava.modeling_llava", "transformers.models.llava.processing_llava",
]  # fmt: skip

SERVER = Path(__file__).with_name("fork_server.py")
CLIENT = """\
#!{python} -IS
import json, os, socket, sys
own, *arguments = sys.argv
name = os.path.basename(own)
if name in ("dvc", "qualm"):
    arguments = ["-m", name, *arguments]
arguments = [a for a in arguments if a not in ("-u", "-P")]
if arguments[:1] == ["specs/run.py"]:
    arguments = ["-m", "qualm.runners" if "/" in arguments[1] else "qualm.compiler", arguments[1]]
if arguments[:1] != ["-m"]:
    os.execv({python!r}, [{python!r}, *arguments])
with socket.socket(socket.AF_UNIX) as server:
    server.connect({place!r})
    asked = dict(folder=os.getcwd(), environment=dict(os.environ), module=arguments[1], arguments=arguments[2:])
    socket.send_fds(server, [json.dumps(asked).encode()], [0, 1, 2])
    _, _, status = server.makefile().read().partition("\\n")
sys.exit(int(status) if status else "killed")
"""


@dataclass(frozen=True)
class Forks:
    """A server of forks, and what asks it."""

    place: Path
    """Of its socket."""
    python: Path
    """Of the command line of a Python, it knows `-m MODULE ARGUMENTS`; the rest it leaves to a Python of its own."""

    @property
    def folder(self) -> str:
        """To come first on a PATH."""
        return str(self.python.parent)

    def start(self, *arguments: str, folder: Path, environment: dict[str, str]) -> Fork:
        """A fork that can be killed, of `-m MODULE ARGUMENTS`."""
        return Fork(self.place, arguments, folder, environment)


class Fork:
    """What `subprocess.Popen` has, of a fork; it writes to files."""

    def __init__(self, place: Path, arguments: tuple[str, ...], folder: Path, environment: dict[str, str]) -> None:
        self._files = [tempfile.TemporaryFile("w+") for _ in range(2)]  # noqa: SIM115 - they live as long as this does
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(str(place))
        asked = {"folder": str(folder), "environment": environment, "module": arguments[0], "arguments": arguments[1:]}
        with Path(os.devnull).open() as nothing:
            socket.send_fds(self._server, [json.dumps(asked).encode()], [nothing.fileno(), *(f.fileno() for f in self._files)])
        self._said = self._server.makefile()
        self.pid = int(self._said.readline())
        self.returncode: int | None = None

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def poll(self) -> int | None:
        if select.select([self._server], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._server.settimeout(timeout)
            status = self._said.read()
            self.returncode = int(status) if status else -signal.SIGKILL
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self.wait(timeout)
        for file in self._files:
            file.seek(0)
        out, err = (file.read() for file in self._files)
        return out, err


FORKS_VARIABLE = "QUALM_TEST_FORKS"
"""Variable that names the folder of the server of a test run."""


@contextmanager
def room_for_forks() -> Iterator[None]:
    """Give the workers of a test run a folder for one server, which ends with this process."""
    with tempfile.TemporaryDirectory(prefix="forks") as folder:  # a short name: a socket's has at most 107 bytes
        fifo = Path(folder, "alive")
        os.mkfifo(fifo)
        alive = os.open(fifo, os.O_RDWR)
        os.environ[FORKS_VARIABLE] = folder
        try:
            yield
        finally:
            os.close(alive)


@cache
def forks() -> Forks:
    """Return the server of this test run; whoever asks first starts it."""
    import fcntl

    folder = Path(os.environ[FORKS_VARIABLE])
    place, python = folder / "socket", folder / "bin" / "python3"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            _start(place, python)
    return Forks(place, python)


def _start(place: Path, python: Path) -> None:
    python.parent.mkdir()
    for program in (python, python.with_name("dvc"), python.with_name("qualm")):
        program.write_text(CLIENT.format(python=sys.executable, place=str(place)))
        program.chmod(0o755)
    command = [sys.executable, "-P", str(SERVER), str(place), str(python), *LIBRARIES]
    with (place.parent / "alive").open() as alive:
        server = subprocess.Popen(command, cwd=place.parent, stdin=alive, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
