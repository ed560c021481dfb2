"""Which tests execute which line: recorded once by running all of them, then kept in step with the code.

Recording takes about half an hour on two cores. Later only tests whose files are new or differ run again, and lines of a module that
differs are followed to where they are now; of other helpers of tests nothing is seen. A test stands for itself; what fixtures of more than
one test execute counts for their file. Caches of the code are cleared before each file, so that not only the first one that needs what they
hold executes it.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

COVERAGE = "coverage==7.17.4"
"""Installed into a temporary folder; nothing else needs it."""
RECORDER = "tests/bench/record_lines.py"
FAST = "not slow and not remotes"
TABLES = """
create table if not exists test (id integer primary key, name text unique, seconds real default 0, lines integer default 0);
create table if not exists ran (test integer references test on delete cascade, path text, lines blob);
create table if not exists source (path text primary key, text blob);
create index if not exists ran_by_path on ran (path);
create index if not exists ran_by_test on ran (test);
"""


@dataclass(frozen=True)
class Executing:
    """A test, or a file of tests."""

    name: str
    seconds: float
    """Of CPU, while lines were recorded: about twice as long as without."""
    lines: int
    """That it executes, of all modules."""

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]


class LineMap:
    """The record, a SQLite file.

    Args:
        file: where it is kept, or will be.
        modules: all files that mistakes are made in, relative to the root.
    """

    def __init__(self, file: Path, modules: Collection[str]) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._table, self._modules = sqlite3.connect(file), modules
        self._table.executescript("pragma foreign_keys = on;" + TABLES)

    def update(self, root: Path) -> None:
        """In step with a checkout, which is written to: tests run in it."""
        known: dict[str, bytes] = dict(self._table.execute("select path, text from source"))
        tests = [file.relative_to(root).as_posix() for file in sorted((root / "tests").rglob("test_*.py"))]
        now = {path: (root / path).read_bytes() for path in [*self._modules, *tests, RECORDER]}
        with self._table:
            for path in self._modules:
                if path in known and known[path] != now[path]:
                    self._follow(path, known[path], now[path])
            changed = tests if known.get(RECORDER) != now[RECORDER] else [path for path in tests if known.get(path) != now[path]]
            for path in {*known} - {*now} | {*changed}:
                self._table.execute("delete from test where name = ? or name like ?", (path, f"{path}::%"))
            if changed:
                self._record(root, changed)
            self._table.execute("delete from source")
            self._table.executemany("insert into source values (?, ?)", now.items())

    def executing(self, path: str, lines: Collection[int]) -> list[Executing]:
        """Tests that execute any of these lines of a module, those first that execute least else."""
        wanted = set(lines)
        query = "select name, seconds, test.lines, ran.lines from ran join test on test.id = ran.test where path = ?"
        found = {Executing(*about) for *about, ran in self._table.execute(query, (path,)) if not wanted.isdisjoint(array("H", ran))}
        return sorted(found, key=lambda test: (test.lines, test.name))

    def seconds(self, file: str) -> float:
        """Of all tests of a file."""
        ((seconds,),) = self._table.execute("select coalesce(sum(seconds), 0) from test where name like ?", (f"{file}::%",))
        return float(seconds)

    def _follow(self, path: str, before: bytes, now: bytes) -> None:
        moved = defaultdict[int, list[int]](list)
        pairs = difflib.SequenceMatcher(None, before.splitlines(), now.splitlines(), autojunk=False).get_opcodes()
        for kind, first, last, start, end in pairs:
            for line in range(first, last):
                moved[line + 1] += [start + line - first + 1] if kind == "equal" else range(start + 1, end + 1)
        rows = self._table.execute("select rowid, lines from ran where path = ?", (path,)).fetchall()
        new = [(array("H", sorted({to for line in array("H", lines) for to in moved[line]})).tobytes(), row) for row, lines in rows]
        self._table.executemany("update ran set lines = ? where rowid = ?", new)

    def _record(self, root: Path, tests: list[str]) -> None:
        print(
            f"recording which lines the tests of {len(tests)} files execute; all take half an hour, the next time only what is new",
            flush=True,
        )
        for folder in ("records", "coverage"):
            shutil.rmtree(root.parent / folder, ignore_errors=True)
        (root.parent / "records").mkdir()
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]
        subprocess.run([*install, str(root.parent / "coverage"), COVERAGE], check=True)
        shutil.copy(root / RECORDER, root / "sitecustomize.py")
        command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-m", FAST, "-p", "no:cacheprovider", "-p", __name__]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        try:
            with tempfile.TemporaryFile() as said:  # tests that fail have executed what they have
                subprocess.run([*command, *tests], cwd=root, env=environment, stdout=said, stderr=said, check=False)
        finally:
            (root / "sitecustomize.py").unlink()
        self.read(root.parent / "records")

    def read(self, records: Path) -> None:
        seconds = dict(json.loads(line) for file in records.glob("*.seconds") for line in file.read_text(encoding="utf-8").splitlines())
        ran = defaultdict[str, dict[str, set[int]]](lambda: defaultdict(set))
        for file in records.glob("*.jsonl"):
            for line in file.read_text(encoding="utf-8").splitlines():
                about = json.loads(line)
                for path, numbers in about["lines"].items():
                    ran[about["test"]][path] |= set(numbers)
        if not seconds:
            raise SystemExit(f"no test was recorded in {records.parent}; does `python -m pytest -n 2 tests` run?")
        for name, lines in ran.items():
            took = seconds.get(name, 0.0) if "::" in name else sum(s for test, s in seconds.items() if test.startswith(f"{name}::"))
            about = (name, took, sum(map(len, lines.values())))
            ((test,),) = self._table.execute("insert into test (name, seconds, lines) values (?, ?, ?) returning id", about)
            rows = [(test, path, array("H", sorted(numbers)).tobytes()) for path, numbers in lines.items()]
            self._table.executemany("insert into ran values (?, ?, ?)", rows)


class Boundaries:
    """The plugin of pytest in the processes that run tests: tells `record_lines`, which is `sitecustomize` there, which test is running."""

    def __init__(self) -> None:
        import sitecustomize  # type: ignore[import-not-found, unused-ignore]

        self._lines, self._began, self._file = sitecustomize, 0.0, ""
        self._times = (sitecustomize.RECORDS / f"{os.getpid()}-{time.time_ns()}.seconds").open("w", encoding="utf-8")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if nodeid.partition("::")[0] != self._file:  # for each test it would cost too much
            self._file = nodeid.partition("::")[0]
            self._lines.forget()
        self._began = sum(os.times()[:4])
        self._lines.switch(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._lines.switch(self._lines.BETWEEN)
        print(json.dumps([nodeid, sum(os.times()[:4]) - self._began]), file=self._times, flush=True)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        before = self._lines.test()
        self._lines.switch(before.partition("::")[0])
        try:
            return (yield)
        finally:
            self._lines.switch(before)

    def pytest_sessionfinish(self) -> None:
        self._lines.write()


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Boundaries())
