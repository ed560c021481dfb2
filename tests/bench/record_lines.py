"""As `sitecustomize` of a checkout: which of its lines each test executes, in every Python process, written into a folder beside it.

`tests.bench.mutation_map` puts it there, and tells it, as a plugin of pytest, where one test ends and the next begins.
"""

import atexit
import functools
import json
import os
import signal
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
BETWEEN = "between"
"""Stands for a test where there is none."""
RECORDS = ROOT.parent / "records"
sys.path.append(str(ROOT.parent / "coverage"))

from coverage import Coverage  # noqa: E402 - from the folder above

_recorder = Coverage(
    data_file=None, config_file=False, messages=False, include=[f"{ROOT}/{name}/*" for name in ("compiler", "registry", "runners")]
)
_exit, _process, _written, _test = os._exit, os.getpid(), False, ""
_lru_cache, _caches = functools.lru_cache, []


@functools.wraps(_lru_cache)
def _noting(maxsize=128, typed=False):  # `functools.cache` calls it too
    if callable(maxsize):
        return _noted(maxsize, _lru_cache(maxsize, typed))
    return lambda function: _noted(function, _lru_cache(maxsize, typed)(function))


def _noted(function, made):
    if getattr(function, "__module__", "").startswith("qualm."):
        _caches.append(made)
    return made


def forget() -> None:
    """Clears the code's own caches: what one test has filled, the next would not execute."""
    for made in _caches:
        made.cache_clear()


def switch(test: str) -> None:
    """What this process executes from here on is of this test."""
    global _test
    _test = test
    _recorder.switch_context(test)


def test() -> str:
    return _test


def write() -> None:
    """Ends the record of this process. What no test was named for is of the test that started it; of its file if a fixture did."""
    global _written
    if _written:
        return
    _written = True
    _recorder.stop()
    started_by, _, phase = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")
    data, forked = _recorder.get_data(), os.getpid() != _process
    with (RECORDS / f"{os.getpid()}-{time.time_ns()}.jsonl").open("w", encoding="utf-8") as file:
        for test in data.measured_contexts():
            if test == BETWEEN or (forked and test not in ("", _test)):
                continue  # the latter is of the process that it was forked from
            data.set_query_context(test)
            lines = {Path(path).relative_to(ROOT).as_posix(): data.lines(path) for path in sorted(data.measured_files())}
            name = test or (started_by.partition("::")[0] if phase == "setup)" else started_by)
            if name and any(lines.values()):
                file.write(json.dumps({"test": name, "lines": {path: numbers for path, numbers in lines.items() if numbers}}) + "\n")


def _end(status: int) -> None:
    # A fork that is told to stop must not go on as the process that it was forked from.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        write()
    finally:
        _exit(status)


_recorder.set_option("run:disable_warnings", ["no-data-collected"])  # some tests want nothing on standard error
_recorder.start()
atexit.register(write)
os._exit = _end
functools.lru_cache = _noting
