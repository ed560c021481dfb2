"""Do the tests notice a mistake? Random small mistakes in modules, each tried against the tests that execute it.

    python -m tests.bench.mutants [--count 100] [--seed 0] [--since REV] [--only FOLDER] [--minutes 30] [--most 0.1] [--map FILE]

The same seed and code give the same mistakes (`tests.bench.mutation_sites`). Which tests execute which line is recorded by the first run,
in about half an hour, and kept in step by later ones (`tests.bench.mutation_map`). For each mistake run, none of them slow: the module's
mirrored test file and tests that execute the changed line, those first that execute least else, as many as a minute of CPU allows; and as
many golden files again. Where the line runs at import, tests of the functions that use what it declares stand for it
(`tests.bench.mutation_uses`), with golden files that read signatures. A mistake counts as noticed if a test fails that passes without it,
or if tests run into the time limit that do not without it. Everything happens in a clone below the temporary folder, uncommitted changes
included; the checkout is not written to. Ends with the survivors, their share and its Clopper-Pearson interval; exit code 1 if it is above
`--most`.

Libraries (mutmut, cosmic-ray) run all mistakes of a module against one command or all tests; a random sample over 500 modules, each tried
against a few tests that can notice it, is what this adds.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest
from hypothesis import Phase
from scipy.stats import binomtest

from tests.bench.mutation_map import FAST, Executing, LineMap
from tests.bench.mutation_sites import Mutant, mutants
from tests.bench.mutation_uses import PACKAGES, executed, inside_function

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("numpy", "scipy.stats", "sklearn.metrics", "PIL.Image", "pyarrow.parquet", "pydantic", "yaml", "httpx", "hypothesis", "torch")
LIBRARIES += ("jinja2", "openai", "polars", "rich.console", "ruamel.yaml", "transformers", "typer", "pytest_benchmark.plugin")
"""Imported once, before the tests fork."""
PLUGINS = ("no:cacheprovider", "pytest_benchmark.plugin")
"""Of pytest; what else is installed is left out, for loading it takes longer than most tests."""
MAP = Path.home() / ".cache" / "qualm-mutants" / "lines.sqlite"
DECLARED = (
    "tests/generated/test_spec_reference.py",
    "tests/generated/test_command_line.py",
)
"""Read what is declared from the signatures themselves, so that they execute no line of it."""
SECONDS = (5.0, 20.0, 60.0)
"""Of CPU, as recorded, up to which tests are run together, one round after the other; the last is the budget."""
STARTING = 0.3
"""Seconds for each further file of tests."""
LEAST = 40
"""Seconds of CPU that each round may take at the least; else five times what was recorded, and ten times as many by the clock."""


@dataclass(frozen=True)
class Round:
    """Tests that are run together."""

    names: list[str]
    limit: int
    """Seconds of CPU."""


class Chosen:
    """A pytest plugin: runs these tests of their files, writes which failed first, and has Hypothesis look for no smaller example."""

    def __init__(self, tests: Collection[str], file: Path) -> None:
        """`tests` are single ones, all examples of one, or files."""
        self._tests, self._file = frozenset(tests), file

    def pytest_sessionstart(self) -> None:
        hypothesis.settings.register_profile("mutants", hypothesis.settings.default, phases=(Phase.explicit, Phase.generate))
        hypothesis.settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not self._tests.isdisjoint(_names(item.nodeid))]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._file.exists():
            self._file.write_text(report.nodeid, encoding="utf-8")


def _names(test: str) -> tuple[str, str, str]:
    return test, test.partition("[")[0], test.partition("::")[0]


class Copy:
    """A clone of the checkout, with what is not committed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(root)], check=True)
        (root / ".venv").symlink_to(ROOT / ".venv")
        for name in lines("git", "ls-files", "-mo", "--exclude-standard"):
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, root / name)
        for name in lines("git", "ls-files", "-d"):
            (root / name).unlink()
        self.failing: list[str] = []
        """Tests that fail without any mistake: left out from then on."""
        self._failure = root.parent / "failure"
        self._writes = int(time.time())

    @contextlib.contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        source = (self.root / mutant.path).read_bytes()
        self._write(mutant.path, mutant.apply(source))
        try:
            yield
        finally:
            self._write(mutant.path, source)

    def _write(self, path: str, source: bytes) -> None:
        """Each time with another modification time: byte code of the same size and second would be taken for its own."""
        (self.root / path).write_bytes(source)
        self._writes += 1
        os.utime(self.root / path, (self._writes, self._writes))

    def run(self, tests: Round) -> str | None:
        """None if all pass; otherwise what failed first, or "" where the limit was reached or nothing could be collected."""
        self._failure.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            os._exit(self._pytest(tests))
        with contextlib.suppress(ProcessLookupError):
            deadline = time.monotonic() + 10 * tests.limit
            while (status := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
                time.sleep(0.02)
            if status[0] == 0:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return ""
        if os.waitstatus_to_exitcode(status[1]) in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return None
        return self._failure.read_text(encoding="utf-8") if self._failure.exists() else ""

    def _pytest(self, tests: Round) -> int:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (tests.limit, tests.limit))
        os.chdir(self.root)
        os.environ |= {"PYTHONPATH": str(self.root), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.dont_write_bytecode = False
        sys.path[:] = [str(self.root), *(entry for entry in sys.path if entry and Path(entry).resolve() != ROOT)]
        for name in [name for name in sys.modules if name.partition(".")[0] in ("qualm", "tests")]:
            del sys.modules[name]
        with Path(os.devnull).open("r+") as nowhere:
            for stream in (0, 1, 2):
                os.dup2(nowhere.fileno(), stream)
        options = ["-x", "-q", "--rootdir", str(self.root), "-c", str(self.root / "pyproject.toml"), "-m", FAST]
        options += [option for plugin in PLUGINS for option in ("-p", plugin)]
        options += [f"--deselect={test}" for test in self.failing]
        files = list(dict.fromkeys(name.partition("::")[0] for name in tests.names))
        return int(pytest.main([*options, *files], plugins=[Chosen(tests.names, self._failure)]))


def lines(*command: str) -> list[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def mirror(module: Path) -> Path:
    """The test file of a module; of `_x.py` as of `x.py`."""
    return ROOT / "tests" / module.parent / f"test_{module.name.lstrip('_')}"


def rounds_of(mutant: Mutant, lines_of: LineMap, root: Path) -> list[Round]:
    """What is run one after the other: tests of the module and of what executes little else; golden ones; further ones up to the budget."""
    tests: list[Executing] = []
    for places in executed(mutant, root):
        tests = sorted({test for path, lines in places.items() for test in lines_of.executing(path, lines)}, key=lambda one: one.lines)
        if tests:
            break
    own = mirror(Path(mutant.path)).relative_to(ROOT).as_posix()
    if (root / own).is_file() and lines_of.seconds(own) < SECONDS[1]:
        tests.insert(0, Executing(own, lines_of.seconds(own), 0))
    golden = [test for test in tests if "/test_golden_" in test.name]
    first, *others = _shared_out([test for test in tests if test not in golden])
    declared = [] if inside_function(mutant, root) else [Executing(name, lines_of.seconds(name), 0) for name in DECLARED]
    rounds = [first, *_shared_out([*declared, *golden]), *others]
    return [one for one in rounds if one.names]


def _shared_out(tests: list[Executing]) -> list[Round]:
    """As many as fit into the budget, in rounds."""
    rounds: list[list[Executing]] = [[] for _ in SECONDS]
    seconds, files = 0.0, set[str]()
    for test in tests:
        cost = test.seconds + STARTING * (test.file not in files)
        if seconds + cost <= SECONDS[-1]:
            seconds += cost
            files.add(test.file)
            rounds[next(place for place, upto in enumerate(SECONDS) if seconds <= upto)].append(test)
    return [Round([test.name for test in one], LEAST + int(5 * sum(test.seconds for test in one))) for one in rounds]


def outcome(copy: Copy, mutant: Mutant, lines_of: LineMap) -> str:
    """`noticed`, `survived`, `untested` (there are no tests of it) or `unclear` (without it the tests take too long too, or cannot run)."""
    if not (rounds := rounds_of(mutant, lines_of, copy.root)):
        return "untested"
    for tests in rounds:
        while (failure := _with(mutant, copy, tests)) is not None:
            without = copy.run(Round([failure], tests.limit) if failure else tests)
            if without is None:
                return "noticed"
            if not without or without in copy.failing:
                return "unclear"
            copy.failing.append(without)
    return "survived"


def _with(mutant: Mutant, copy: Copy, tests: Round) -> str | None:
    with copy.changed(mutant):
        return copy.run(tests)


def modules(root: Path) -> list[str]:
    files = lines("git", "ls-files", "-co", "--exclude-standard", "--", *(f"{package}/*.py" for package in PACKAGES))
    return [file for file in files if (root / file).is_file()]


def sample(arguments: argparse.Namespace, root: Path) -> list[Mutant]:
    """Mistakes of all files that are asked for, in random order; `root` is that of the copy."""
    files = [file for file in modules(root) if file.startswith(arguments.only)]
    if arguments.since:
        files = [file for file in files if file in set(lines("git", "diff", "--name-only", arguments.since, "--", *PACKAGES))]
    every = [mutant for file in files for mutant in mutants(file, (root / file).read_bytes())]
    return random.Random(arguments.seed).sample(every, min(arguments.count, len(every)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--since", default="", help="only files that differ from this revision")
    parser.add_argument("--only", default="", help="only files whose path begins so")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--most", type=float, default=0.1, help="share of survivors above which the exit code is 1")
    parser.add_argument("--map", type=Path, default=MAP, help="which tests execute which line; made if it is not there")
    arguments = parser.parse_args()
    for library in LIBRARIES:
        importlib.import_module(library)
    counts, survivors = Counter[str](), list[str]()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder) / "checkout")
        lines_of = LineMap(arguments.map, modules(copy.root))
        lines_of.update(copy.root)
        began = time.monotonic()
        for mutant in sample(arguments, copy.root):
            if time.monotonic() - began > 60 * arguments.minutes:
                break
            result = outcome(copy, mutant, lines_of)
            counts[result] += 1
            diff = mutant.diff((copy.root / mutant.path).read_bytes())
            print(f"{result:9} {diff}", flush=True)
            survivors += [diff] if result in ("survived", "untested") else []
    decided = counts.total() - counts["unclear"]
    rate = len(survivors) / decided if decided else 0.0
    interval = binomtest(len(survivors), max(decided, 1)).proportion_ci(method="exact")
    if copy.failing:
        print("\nfail without any mistake, and were left out:", *copy.failing, sep="\n")
    share = f"{rate:.0%}, 95% interval {interval.low:.0%} to {interval.high:.0%}"
    print(f"\n{len(survivors)} of {decided} survive ({share}); {dict(counts)}; {time.monotonic() - began:.0f} s\n")
    print("\n".join(survivors))
    return int(rate > arguments.most)


if __name__ == "__main__":
    raise SystemExit(main())
