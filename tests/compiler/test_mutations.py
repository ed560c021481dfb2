"""Whatever is done to a spec, the answer is a plan or a list of problems with places; never a traceback."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from compiler.errors import SpecError
from compiler.plan import make_plan
from compiler.resolve import resolve_file
from compiler.spec import RunWide

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.yaml"))
JUNK = [
    "no",
    "1e-4",
    "null",
    "[]",
    "{}",
    "- x",
    "&a *a",
    "'",
    '"',
    "\t",
    ":",
    "\x00",
    "\u202e",
    "999999999999999999999",
    "../../x",
    "${x}",
    "!!x y",
    "0x1F",
    "-1",
]


def mutate(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 3)):
        lines = text.splitlines()
        i = rng.randrange(len(lines))
        how = rng.randrange(6)
        if how == 0:
            del lines[i]
        elif how == 1:
            lines.insert(i, lines[rng.randrange(len(lines))])
        elif how == 2:
            lines[i] = lines[i].partition(":")[0] + ": " + rng.choice(JUNK)
        elif how == 3:
            at = rng.randrange(len(lines[i]) + 1)
            lines[i] = lines[i][:at] + rng.choice(JUNK) + lines[i][at:]
        elif how == 4:
            lines[i] = " " * rng.randrange(5) + lines[i].lstrip()
        else:
            a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[a], lines[b] = lines[b], lines[a]
        text = "\n".join(lines) + "\n"
    return text


@pytest.mark.parametrize("seed", range(4))
def test_mutated_specs(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    refused = 0
    for _ in range(60):
        spec = rng.choice(SPECS)
        path = tmp_path / spec.name
        path.write_text(mutate(spec.read_text(), rng))
        try:
            make_plan(resolve_file(path, tmp_path, RunWide(default="t")))
        except SpecError as error:
            refused += 1
            assert error.problems
            assert all(p.message and "\n" not in str(p) for p in error.problems)
    assert refused > 20
