"""What `forks` beside it starts and asks: imports libraries, then forks itself for everyone who connects. Imports nothing of ours."""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress


def reap(*_) -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def run(asked: dict) -> int:
    """`python -m MODULE ARGUMENTS`; the exit status."""
    sys.path[:0] = filter(None, asked["environment"].get("PYTHONPATH", "").split(os.pathsep))
    sys.argv[:] = ["-m", *asked["arguments"]]
    try:
        sys.modules.pop("sitecustomize", None)
        with suppress(ModuleNotFoundError):
            importlib.import_module("sitecustomize")  # as `site` does
        sys.path.insert(0, asked["folder"])
        runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 - as an interpreter does at its end
        traceback.print_exc()
        return 1
    return 0


def be(asked: dict, files: list[int], connection: socket.socket, python: str) -> None:
    """A child, from its beginning to its end."""
    connection.sendall(b"%d\n" % os.getpid())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for ours, theirs in enumerate(files):
        os.dup2(theirs, ours)
        os.close(theirs)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.executable = python  # what is started by this one is a fork too
    status, leave = run(asked), os._exit

    def end(status: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(b"%d" % status)
        leave(status)

    os._exit = end  # which what is registered for the end may call
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
    finally:
        end(status)


def serve(place: str, python: str) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(place)
    listening.listen()
    signal.signal(signal.SIGCHLD, reap)
    print("ready", flush=True)
    while sys.stdin not in select.select([sys.stdin, listening], [], [])[0]:  # standard input ends with the test run
        connection, _ = listening.accept()
        asked, files, *_ = socket.recv_fds(connection, 1 << 20, 3)
        if os.fork() == 0:
            listening.close()
            be(json.loads(asked), files, connection, python)
        connection.close()
        for file in files:
            os.close(file)


if __name__ == "__main__":
    for name in sys.argv[3:]:
        importlib.import_module(name)
    assert "qualm" not in sys.modules and threading.active_count() == 1
    gc.freeze()  # else the first collection of each fork looks through, and so copies, all of them
    serve(*sys.argv[1:3])
