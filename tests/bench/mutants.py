"""Do the tests notice a mistake? Random small mistakes in modules, each tried against the tests of its module.

    python -m tests.bench.mutants [--count 100] [--seed 0] [--since REV] [--only FOLDER] [--minutes 30] [--most 0.1]

The same seed and code give the same mistakes (`tests.bench.mutation_sites`). Each runs the module's mirrored test file, the examples in its
docstrings and the golden files of its folder, then tests that import the module, then those of modules that import it, at most `FILES` of
each, without slow ones: first the files that name what was changed (the function, or one of its module that uses it), then the nearest.
Last come a few more files that name what was changed. A mistake counts as noticed if a test fails that passes without it, or if tests
run into the time limit that do not without it. Everything happens in a clone below the temporary folder, uncommitted changes included; the
checkout is not written to. Ends with the survivors, their share and its Clopper-Pearson interval; exit code 1 if it is above `--most`.

Libraries (mutmut, cosmic-ray) run all mistakes of a module against one command; a random sample over 500 modules, each with tests of its
own, is what this adds.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest
from hypothesis import Phase
from scipy.stats import binomtest

from tests.bench.mutation_sites import Mutant, mutants

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("compiler", "registry", "runners")
LIBRARIES = ("numpy", "scipy.stats", "sklearn.metrics", "PIL.Image", "pyarrow.parquet", "pydantic", "yaml", "httpx", "hypothesis", "torch")
LIBRARIES += ("altair", "jinja2", "openai", "polars", "rich.console", "ruamel.yaml", "transformers", "typer", "pytest_benchmark.plugin")
"""Imported once, before the tests fork."""
PLUGINS = ("no:cacheprovider", "pytest_benchmark.plugin")
"""Of pytest; what else is installed is left out, for loading it takes longer than most tests."""
_MODELS = "tests/test_golden_numbers.py"
_NUMBERS = "tests/test_golden_numbers.py::test_no_number_moves_under_an_unchanged_version"
_PARAMETERS = "tests/test_golden_parameters.py::test_no_new_parameter_makes_finished_stages_run_again"
_EXAMPLES = "tests/compiler/test_examples.py::test_examples"
_BOUNDS = "tests/test_golden_parameters.py::test_no_bound_of_a_number_moves_unseen"
_SCORES = "tests/runners/scoring/test_golden_scores.py"
_EXPORTS = "tests/runners/plugins/exports/test_golden_exports.py"
_PRINTED = "tests/compiler/test_golden_commands.py"
_PLANS = "tests/compiler/test_golden_plans.py"
_RECORDINGS = "tests/registry/recordings/test_golden_recordings.py"
_METRICS = "tests/runners/plugins/metrics/test_golden_metrics.py"
_ESTIMATORS = "tests/runners/plugins/estimators/test_golden_estimators.py"
_REFERENCE = "tests/compiler/generated/test_spec_reference.py"
_COMMANDS = "tests/compiler/generated/test_command_line.py"
GOLDEN = {
    "compiler/commands/": (_COMMANDS,),
    "compiler/forecast/": ("tests/compiler/forecast/test_golden_resources.py",),
    **dict.fromkeys((f"compiler/{room}/" for room in ("library", "provenance", "results", "terminal", "viewing")), (_PRINTED,)),
    "compiler/plan/": (_PLANS,),
    "compiler/resolve/": (_PLANS,),
    "compiler/spec/": (_PLANS,),
    "compiler/spec/language.py": (_PARAMETERS, _BOUNDS, _REFERENCE),
    "registry/commands/": (_COMMANDS,),
    "registry/adapters/": (f"{_NUMBERS}[adapters]", _PARAMETERS, _BOUNDS),
    "registry/entries/infer_columns.py": ("tests/registry/entries/test_golden_proposals.py",),
    "registry/entries/card.py": ("tests/registry/entries/test_golden_cards.py",),
    "registry/formats/": (f"{_NUMBERS}[adapters]", _RECORDINGS),
    "registry/plugins/": (_PLANS,),
    "registry/recordings/": (_RECORDINGS,),
    "registry/scenes/": (f"{_NUMBERS}[adapters]", "tests/registry/scenes/test_golden_scenes.py"),
    "registry/where/": (_PLANS, _SCORES),
    "runners/contracts/metrics.py": (_METRICS,),
    "runners/data/": (_SCORES,),
    "runners/plugins/": (_PARAMETERS, _BOUNDS, _REFERENCE),
    "runners/plugins/abstentions/": (_SCORES,),
    "runners/plugins/calibrators/": (_SCORES,),
    "runners/plugins/conformal/": (_SCORES,),
    "runners/plugins/estimators/": (_ESTIMATORS,),
    "runners/plugins/exports/": (_EXPORTS,),
    "runners/plugins/finetunes/": (f"{_NUMBERS}[training]",),
    "runners/inference/": (_MODELS,),
    "runners/plugins/generators/": (_MODELS,),
    "runners/plugins/judges/": (f"{_NUMBERS}[asked]", "tests/runners/plugins/judges/test_golden_judges.py"),
    "runners/plugins/models/": (_MODELS, _RECORDINGS),
    "runners/prompts/": (_MODELS,),
    "runners/plugins/metrics/": (_METRICS, _SCORES),
    "runners/plugins/perturbations/": (f"{_NUMBERS}[perturbations]",),
    "runners/scoring/": (_SCORES, _METRICS),
    "runners/servers/": (f"{_NUMBERS}[asked]",),
    "runners/stages/score.py": (_SCORES,),
    "runners/studies/": (_SCORES,),
    "runners/training/": (f"{_NUMBERS}[training]",),
}
"""Folder, or module -> the golden files that what it computes is held to; they import no module of it by name."""
FILES = 4
LIMIT = 40
"""Seconds of CPU for each file of a round of tests; thirty times as many by the clock for all, since other work may share the machine."""


class FirstFailure:
    """A pytest plugin: writes which test failed first, and has Hypothesis look for no smaller example."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_sessionstart(self) -> None:
        hypothesis.settings.register_profile("mutants", hypothesis.settings.default, phases=(Phase.explicit, Phase.generate))
        hypothesis.settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._file.exists():
            self._file.write_text(report.nodeid, encoding="utf-8")


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

    def run(self, tests: list[str]) -> str | None:
        """None if all pass; otherwise what failed first, or "" where the limit was reached or nothing could be collected."""
        self._failure.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            os._exit(self._pytest(tests))
        with contextlib.suppress(ProcessLookupError):
            deadline = time.monotonic() + 30 * LIMIT
            while (status := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
                time.sleep(0.02)
            if status[0] == 0:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return ""
        if os.waitstatus_to_exitcode(status[1]) in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return None
        return self._failure.read_text(encoding="utf-8") if self._failure.exists() else ""

    def _pytest(self, tests: list[str]) -> int:
        os.setpgid(0, 0)
        seconds = LIMIT * len({test.partition("::")[0] for test in tests})
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
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
        options = ["-x", "-q", "--rootdir", str(self.root), "-c", str(self.root / "pyproject.toml"), "-m", "not slow and not remotes"]
        options += [option for plugin in PLUGINS for option in ("-p", plugin)]
        options += [f"--deselect={test}" for test in self.failing]
        return int(pytest.main([*options, *tests], plugins=[FirstFailure(self._failure)]))


def lines(*command: str) -> list[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


@cache
def importers(*patterns: str) -> dict[str, list[Path]]:
    """Modules as files -> files of these patterns that import them."""
    table: dict[str, list[Path]] = {}
    for file in (file for pattern in patterns for file in sorted(ROOT.glob(pattern))):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                files = table.setdefault(f"{name.removeprefix('qualm.').replace('.', '/')}.py", [])
                if file not in files:
                    files.append(file)
    return table


def mirror(module: Path) -> Path:
    """The test file of a module; of `_x.py` as of `x.py`."""
    return ROOT / "tests" / module.parent / f"test_{module.name.lstrip('_')}"


@cache
def words(file: Path) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", file.read_text(encoding="utf-8")))


def tests_of(path: str, touched: frozenset[str] = frozenset()) -> list[list[str]]:
    """What is run one after the other: the module's mirrored test file and the contract's; tests that import it; of those that use it."""
    module = Path(path)
    names = [path, f"{module.parent.as_posix()}.py"] if module.name == "__init__.py" else [path]
    importing = [file for name in names for file in importers("tests/**/test_*.py").get(name, [])]
    users = [file for name in names for file in importers(*(f"{package}/**/*.py" for package in PACKAGES)).get(name, [])]
    folder = ROOT / "tests" / module.parent

    def nearest(tests: dict[Path, Path]) -> list[Path]:
        """Test files by how near the file that each stands for is."""
        order = {test: (not touched & words(file), -len(os.path.commonpath([test, folder])), test) for file, test in tests.items()}
        return sorted((test for test in order if test.is_file()), key=order.__getitem__)

    rounds, seen, further = [], set[Path](), list[Path]()
    for tests in (
        [file for file in (mirror(module), folder / "test_contract.py") if file.is_file()],
        nearest({file: file for file in importing}),
        nearest({file: mirror(file.relative_to(ROOT)) for file in users}),
    ):
        unseen = [file for file in tests if file not in seen]
        seen |= set(unseen[:FILES])
        further += [file for file in unseen[FILES:] if touched & words(file) and file not in further]
        rounds.append([file.relative_to(ROOT).as_posix() for file in unseen[:FILES]])
    golden = [test for folder_of, tests in GOLDEN.items() if path.startswith(folder_of) for test in tests]
    name = ".".join(module.with_suffix("").parts).removesuffix(".__init__")
    examples = [f"{_EXAMPLES}[qualm.{name}]"] if ">>> " in (ROOT / path).read_text(encoding="utf-8") else []
    rounds[1:1] = [examples, golden]
    rounds.append([file.relative_to(ROOT).as_posix() for file in further if file not in seen][: 2 * FILES])
    return [one for one in rounds if one]


def outcome(copy: Copy, mutant: Mutant) -> str:
    """`noticed`, `survived`, `untested` (there are no tests of it) or `unclear` (without it the tests take too long too, or cannot run)."""
    if not (rounds := tests_of(mutant.path, mutant.touched)):
        return "untested"
    for tests in rounds:
        while (failure := _with(mutant, copy, tests)) is not None:
            without = copy.run([failure] if failure else tests)
            if without is None:
                return "noticed"
            if not without or without in copy.failing:
                return "unclear"
            copy.failing.append(without)
    return "survived"


def _with(mutant: Mutant, copy: Copy, tests: list[str]) -> str | None:
    with copy.changed(mutant):
        return copy.run(tests)


def sample(arguments: argparse.Namespace, root: Path) -> list[Mutant]:
    """Mistakes of all files that are asked for, in random order; `root` is that of the copy."""
    files = lines("git", "ls-files", "-co", "--exclude-standard", "--", *(f"{package}/*.py" for package in PACKAGES))
    if arguments.since:
        files = [file for file in files if file in set(lines("git", "diff", "--name-only", arguments.since, "--", *PACKAGES))]
    files = [file for file in files if file.startswith(arguments.only) and (root / file).is_file()]
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
    arguments = parser.parse_args()
    for library in LIBRARIES:
        importlib.import_module(library)
    began, counts, survivors = time.monotonic(), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder) / "checkout")
        for mutant in sample(arguments, copy.root):
            if time.monotonic() - began > 60 * arguments.minutes:
                break
            result = outcome(copy, mutant)
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
