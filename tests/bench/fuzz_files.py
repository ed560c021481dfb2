"""Seeded fuzz of the command line over files that people write: specs, cards, `.dvc` files and locks.

    python -m tests.bench.fuzz_files --cases 10000 --seed 1 [--only specs cards pointers] [--first 1189]

Each case is a real file with one to four mutations (bytes, lines, structure, features of YAML), put where it would lie in a copy of this
checkout, and one or more commands run over it in this process, through the same `main` as `qualm`. A finding is a traceback or a mistake
of our own, an exit code that is none of 0, 1 and 2, more than 5 s of the processor, or more than 500 MiB. Prints figures; exits 1 if there
is a finding.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS, MEBIBYTES = 5, 500
KINDS = ("specs", "cards", "pointers")
SNIPPETS = [
    "no", "~", "null", "[]", "{}", "- x", "&a [*a]", "*a", "<<: *a", "<<: {a: 1}", "!!python/object:os.system x",
    "!!binary ////", "!!set {a, b}",
    "!!timestamp x", "!!int ''", "!!float .nan", ".inf", "-.inf", ".nan", "1e400", "1e-4", "0x1F", "0o17", "0b1", "1:30:00", "2024-02-31",
    "2024-01-01T00:00:00Z", "9" * 30, "9" * 5000, "0x" + "f" * 6000, "'", '"', '"\\0"', '"\\ud800"', '"\\x1b[31m"', "\t", "\x00", "\x1b[2J",
    "\u202e", "\ufeff", "😀", "\u0301" * 50, "../../etc/passwd", "/dev/zero", "a\u2028b", "${x}", "$(id)", "?", "? [a]", "|",
    ">-", "%YAML 9.9",
    "---", "...", "# c", "x" * 20_000, "[" * 3000, "{a: " * 200, "- " * 200, "a: " * 50, "@", "`", "%", "=", "a: b: c", "[a",
    "}", "&x &x", "!",
    "12345678901234567890123456789012", "d41d8cd98f00b204e9800998ecf8427e.dir", "extends: z", "extends: quickstart",
    "y: &y {a: 1}\nz: {<<: *y}",
]  # fmt: skip
BOMBS: list[Callable[[random.Random], str]] = [
    lambda rng: "".join(f"k{i if rng.random() < 0.5 else 0}: 1\n" for i in range(rng.randint(1000, 20_000))),
    lambda rng: "b0: &b0 [x, x]\n" + "".join(f"b{i}: &b{i} [*b{i - 1}, *b{i - 1}]\n" for i in range(1, rng.randint(2, 60))),
    lambda rng: "b0: &b0 {x: 1}\n" + "".join(f"b{i}: &b{i} {{<<: [*b{i - 1}, *b{i - 1}]}}\n" for i in range(1, rng.randint(2, 60))),
    lambda rng: rng.choice("[{-") * rng.randint(10, 50_000),
    lambda rng: "a: " + "x" * rng.randint(10, 400_000),
    lambda rng: "- [" + "1," * rng.randint(10, 100_000) + "]",
    lambda rng: bytes(rng.randrange(256) for _ in range(rng.randint(0, 3000))).decode("latin-1"),
]
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**63, 10**30, 0.5, -0.5, 1e308, float("inf"), float("nan"), "", " ", "x", "a" * 3000,
    "../../x", "a/b", "a:b",
    "a\nb", "\x1b[31m", "\u202e", "😀", "<script>", "${x}", "clean", "((((", "not " * 300 + "x", [], {}, [[]], [None], {"": None},
    ["x", "x"],
    {"x": {"y": 1}}, list(range(2000)), {str(i): i for i in range(1000)},
]  # fmt: skip


@dataclass
class Figures:
    """What a fuzz of one kind of file came to."""

    kind: str
    seed: int
    cases: int = 0
    commands: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    memory: float = 0.0
    """Highest resident size of the process, in MiB."""
    findings: list[str] = field(default_factory=list)


def of_bytes(data: bytes, rng: random.Random) -> bytes:
    at, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    match rng.randrange(5):
        case 0:
            return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        case 1:
            return data[:at] + bytes(rng.randrange(256) for _ in range(rng.randint(1, 6))) + data[at:]
        case 2:
            return data[:at] + data[end:]
        case 3:
            return data[:at]
    return data[:end] + data[at:end] * rng.randint(1, 20) + data[end:]


def of_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.decode("utf-8", "replace").splitlines() or [""]
    i, snippet = rng.randrange(len(lines)), rng.choice(SNIPPETS)
    match rng.randrange(6):
        case 0:
            del lines[i]
        case 1:
            lines.insert(i, lines[rng.randrange(len(lines))])
        case 2:
            lines[i] = f"{lines[i].partition(':')[0]}: {snippet}"
        case 3:
            at = rng.randrange(len(lines[i]) + 1)
            lines[i] = lines[i][:at] + snippet + lines[i][at:]
        case 4:
            lines[i] = " " * rng.randrange(6) + lines[i].lstrip()
        case _:
            lines.insert(i, snippet)
    return "\n".join([*lines, ""]).encode("utf-8", "surrogatepass")


def of_tree(data: bytes, rng: random.Random) -> bytes:
    import yaml

    try:
        tree = yaml.safe_load(data)
        _change(tree, rng)
        return yaml.safe_dump(tree, allow_unicode=True, sort_keys=False).encode("utf-8", "surrogatepass")
    except (yaml.YAMLError, ValueError, RecursionError, AttributeError, LookupError, TypeError):  # mutated before, to no tree
        return of_lines(data, rng)


def _change(tree: Any, rng: random.Random) -> None:
    within, key = rng.choice(list(_places(tree)))
    value = rng.choice(VALUES)
    match rng.randrange(4):
        case 0:
            del within[key]
        case 1 | 2:
            within[key] = value
        case _ if isinstance(within, dict):
            within[value if isinstance(value, str | int | float | None) else str(value)[:99]] = within.pop(key)
        case _:
            within.insert(key, value)


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield tree, key
        yield from _places(tree[key])


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A file with one to four things done to it; now and then something else altogether."""
    if rng.random() < 0.02:
        bomb = rng.choice(BOMBS)(rng).encode("utf-8", "surrogatepass")
        return bomb if rng.random() < 0.5 else data + b"\n" + bomb
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        data = rng.choice((of_bytes, of_lines, of_tree, of_tree))(data, rng)
    return data


class Checkout:
    """A copy of this checkout in which files are put, and the commands that read them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.specs = [p.read_bytes() for p in sorted((root / "specs").glob("*.yaml")) if p.stat().st_size < 4000]
        self.cards = [p.read_bytes() for p in sorted((root / "registry/cards").glob("*.yaml"))]
        self.pointers = [p.read_bytes() for p in sorted((root / "registry/data").glob("*.dvc"))]
        self.lock = (root / "dvc.lock").read_bytes()

    def case(self, kind: str, rng: random.Random) -> tuple[Path, bytes, list[list[str]]]:
        """Where a file is put, what it holds, what is run."""
        if kind == "specs":
            name = rng.choice(["plan", "graph", "cite"]) if rng.random() < 0.03 else "validate"
            text = re.sub(rb"(?m)^name: .*$", b"name: z", rng.choice(self.specs), count=1)
            return self.root / "specs/z.yaml", mutated(text, rng), [[name, "z"]]
        if kind == "cards":
            text = rng.choice(self.cards)
            name = text.partition(b"name: ")[2].split(b"\n")[0]
            commands = [["data", "show", "z"], ["validate", "reads_z"], ["data", "ls", "--json"]]
            return self.root / "registry/cards/z.yaml", mutated(text.replace(b"name: " + name, b"name: z", 1), rng), [rng.choice(commands)]
        if rng.random() < 0.02:
            return self.root / "dvc.lock", mutated(self.lock, rng), [["plan", "quickstart"]]
        commands = [["data", "ls"], ["data", "show", "z"], ["data", "verify", "z"], ["data", "verify"], ["data", "ls", "--json"]]
        return self.root / "registry/data/z.dvc", mutated(rng.choice(self.pointers), rng), [rng.choice(commands)]


TIMERS = ((signal.SIGPROF, signal.ITIMER_PROF, SECONDS), (signal.SIGALRM, signal.ITIMER_REAL, 12 * SECONDS))
"""Of the processor, since others may be at work beside it; and of the clock, for what waits."""


class TooSlowError(BaseException):
    """A command that is still running after SECONDS; nothing in it may catch this."""


def _too_slow(*_: object) -> None:
    raise TooSlowError


def run(command: list[str]) -> tuple[int, str]:
    """The exit code and what stood on both streams, through the entry point of `qualm`."""
    from qualm.compiler.commands.main import main

    out, before = io.StringIO(), sys.argv
    sys.argv = ["qualm", *command]
    code: Any = 0
    for alarm, timer, seconds in TIMERS:
        signal.signal(alarm, _too_slow)
        signal.setitimer(timer, seconds)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main()
    except SystemExit as error:
        code = error.code or 0
    finally:
        for _, timer, _ in TIMERS:
            signal.setitimer(timer, 0)
        sys.argv = before
    return code if isinstance(code, int) else 1, out.getvalue()


def forget() -> None:
    """What a new process would not remember."""
    from qualm.registry.entries import card
    from qualm.registry.system import textfiles

    card.read_card.cache_clear()
    textfiles._WARNINGS.clear()


def fuzz(kind: str, numbers: range, seed: int, root: Path) -> Figures:
    """Cases of one kind, in this process; the current folder becomes the checkout."""
    figures, checkout = Figures(kind, seed), Checkout(root)
    os.chdir(root)
    for number in numbers:
        rng = random.Random(f"{seed} {kind} {number}")
        path, content, commands = checkout.case(kind, rng)
        original = path.read_bytes() if path.is_file() else None
        path.write_bytes(content)
        for command in commands:
            forget()
            start = time.process_time()
            wrong = ""
            try:
                code, said = run(command)
                figures.codes[str(code)] += 1
                if code not in (0, 1, 2) or "a fault of Qualm" in said or "Traceback" in said:
                    wrong = f"exit {code}: {said[-400:]}"
            except TooSlowError:
                wrong = f"more than {SECONDS} s"
            except BaseException as error:  # noqa: BLE001 - whatever comes out is what is looked for
                wrong = f"{type(error).__name__}: {error}"
            took = time.process_time() - start
            memory = most_held()
            if memory > MEBIBYTES and figures.memory <= MEBIBYTES:
                wrong = wrong or f"{memory:.0f} MiB"
            figures.slowest, figures.memory = max(figures.slowest, took), max(figures.memory, memory)
            figures.commands += 1
            if wrong:
                figures.findings.append(f"{kind} seed {seed} case {number}: qualm {' '.join(command)}: {wrong}")
        figures.cases += 1
        path.unlink() if original is None else path.write_bytes(original)
    return figures


def prepare(root: Path) -> Path:
    """A checkout with what the commands read: code, cards, specs, an entry."""
    for package in ("qualm", "compiler", "registry", "runners", "specs"):
        data = ["store", "*.parquet"] if package == "registry" else []
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__", *data), symlinks=True)
    for name in ("params.yaml", "dvc.yaml", "dvc.lock"):
        shutil.copy(ROOT / name, root / name)
    (root / ".dvc").mkdir()
    shutil.copy(ROOT / ".dvc/config", root / ".dvc/config")
    reads = "qualm: 1\nname: reads_z\ndatasets: {z: {card: z, where: answerable}}\nslices: [category]\n"
    (root / "specs/reads_z.yaml").write_text(reads)
    imported = "deps:\n- path: x\n  repo: {url: https://example.org/r, rev_lock: abc}\n"
    entry = (root / "registry/data/scene-vlm-base.dvc").read_text()
    (root / "registry/data/imported.dvc").write_text(imported + entry)
    return root


def most_held() -> float:
    """MiB that this process has held at most; `getrusage` counts what its parent held when it forked, too."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, metavar="N", help="begin with case N, to try one again")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--checkout", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.checkout is not None:
        (kind,) = given.only
        print(json.dumps(vars(fuzz(kind, range(given.first, given.first + given.cases), given.seed, given.checkout))))
        return 0
    failed = False
    options = ["--cases", str(given.cases), "--first", str(given.first), "--seed", str(given.seed)]
    with tempfile.TemporaryDirectory() as folder:
        root = prepare(Path(folder) / "checkout")
        for kind in given.only:
            command = [sys.executable, str(Path(__file__)), *options, "--only", kind]
            environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
            start = time.monotonic()
            done = subprocess.run(
                [*command, "--checkout", str(root)], cwd=root, env=environment, stdout=subprocess.PIPE, text=True, check=False
            )
            if done.returncode:
                print(f"{kind}: the process ended with {done.returncode}")
                failed = True
                continue
            figures = json.loads(done.stdout.splitlines()[-1])
            codes = ", ".join(f"{n:,} exit {code}" for code, n in sorted(figures["codes"].items()))
            print(
                f"{kind}: {figures['cases']:,} cases, seed {given.seed}, {time.monotonic() - start:.0f} s: {codes}; slowest "
                f"{figures['slowest']:.2f} s, most memory {figures['memory']:.0f} MiB; {len(figures['findings'])} findings"
            )
            for finding in figures["findings"]:
                print(f"  {finding}")
            failed |= bool(figures["findings"])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
