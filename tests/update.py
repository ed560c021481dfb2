"""Write anew all files that are made from others, and print which of them changed: `make update`.

Compiled specs, reference pages, golden files and golden numbers; the tables of docs/results/ whose runs have finished here.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WRITING = ("runners.reporting.test_charts", "runners.reporting.test_figures", "runners.plugins.exports.test_figures")
"""Test modules that write their golden files when they are run."""


def held_tests() -> list[str]:
    """Return the test files that write their part of a golden file under HELD=write."""
    tests = ROOT / "tests"
    files = [file for file in sorted(tests.rglob("test_*.py")) if " import held\n" in file.read_text(encoding="utf-8")]
    return [file.relative_to(ROOT).as_posix() for file in [*files, tests / "compiler/plan/test_emit.py"]]


def steps() -> dict[str, list[str]]:
    """Return what is written -> the arguments of Python that write it."""
    return {
        "compiled specs": ["-m", "qualm", "compile"],
        "reference pages": ["-m", "tests.generated_pages"],
        "golden files": ["-m", "pytest", "-q", "-n", "0", *held_tests()],
        **{f"golden files of {name}": ["-m", f"tests.{name}"] for name in WRITING},
        "golden numbers": ["-m", "tests.support.checks.golden_numbers"],
        "tables of results": ["-m", "tests.bench.result_pages"],
    }


def contents() -> dict[str, str]:
    """Return the digest of each file that git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-c", "-o", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    return {name: hashlib.md5((ROOT / name).read_bytes()).hexdigest() for name in files}


def main() -> int:
    """Run every step, also after one that fails; return 1 if one failed."""
    before, failed = contents(), []
    for name, arguments in steps().items():
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, *arguments], cwd=ROOT, env={**os.environ, "HELD": "write"}, check=False).returncode:
            failed.append(name)
    after = contents()
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    print("changed:", *(changed or ["nothing"]), sep="\n  ")
    if failed:
        print("not all written:", *failed, sep="\n  ")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
