"""Whatever is done to a spec, the answer is files that can be run or a list of problems with places; never a traceback, never nonsense.

Half of the mutants are made of a spec's text, as by a slip of the hand, and most of them are no YAML of ours any more. The other half
are made of its values, so that they get past the reader: to the schema, the plugins' signatures, expressions, and the plan.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from qualm.compiler.plan.emit import compiled_texts
from qualm.compiler.plan.make import make_plan
from qualm.compiler.plan.plan import Plan
from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from tests.compiler.every_spec import SOURCES, root

__all__ = ["root"]
MUTANTS = 2000
PARTS = 16
RUN_WIDE = RunWide(default="t")
SPECS = [name for name, text in SOURCES.items() for _ in range(1 if len(text) > 2800 else 5)]
"""Long ones are slow to plan and hold little that is new."""
JUNK = ["no", "1e-4", "null", "[]", "{}", "- x", "&a *a", "'", '"', "\t", ":", "\x00", "\u202e", "999999999999999999999", "../../x", "${x}",
        "!!x y", "0x1F", "-1"]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 10**30, 0.5, -0.5, 1e308, 5e-324, float("inf"), float("nan"), "", " ", "x", "a" * 3000, "../../x",
    "/etc/passwd", "a/b", "a:b", "a\nb", "\x1b[31m", "\u202e", "😀", "ما", "<script>", "${x}", "{x}", "$(id)", "; rm -rf /", "clean", "or",
    "((((", "kind = 'x", "not " * 500 + "answerable", "a in (" + "1," * 400, [], {}, [[]], [None], {"": None}, ["x", "x"], {"x": {"y": 1}},
]  # fmt: skip

Mutation = Callable[[Any, Any, random.Random], None]
"""Changes what stands in a place of a list or mapping."""


def of_text(text: str, rng: random.Random) -> str:
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


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every list or mapping of a tree with each of its places."""
    here = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    return [(tree, key) for key in here] + [place for key in here for place in places(tree[key])]


def of_values(text: str, rng: random.Random) -> str:
    tree = yaml.load(text, Loader=yaml.CSafeLoader)
    for _ in range(rng.choice([1, 1, 2, 3])):
        found = places(tree)
        if not found:
            break
        within, key = rng.choice(found)
        value = within[key]
        how = rng.randrange(7)
        if how == 0:
            del within[key]
        elif how == 1:
            within[key] = copy.deepcopy(rng.choice(VALUES))
        elif how == 2:
            other, there = rng.choice(found)
            within[key] = copy.deepcopy(other[there])
        elif how == 3:
            within[key] = [value, value] if rng.random() < 0.5 else {str(value)[:50]: value}
        elif how == 4 and isinstance(within, dict):
            within[str(rng.choice([key[:-1], key + "s", key.upper(), *filter(None, VALUES)]))] = within.pop(key)
        elif how == 4:
            within.append(copy.deepcopy(value))
        elif isinstance(value, int | float):
            within[key] = rng.choice([-value, value * 1000, value + 0.5, float(value), str(value), [value, value + 1]])
        elif isinstance(value, str):
            at = rng.randrange(len(value) + 1)
            within[key] = value[:at] + str(rng.choice([*VALUES, *JUNK])) + value[at + rng.randrange(3) :]
        elif isinstance(value, list):
            rng.shuffle(value)
        elif isinstance(value, dict):
            within[key] = dict(list(value.items())[:1])
    return yaml.dump(tree, Dumper=yaml.CSafeDumper, allow_unicode=True, sort_keys=False)


def is_sound(plan: Plan) -> None:
    """What would be written: files of this spec alone, that can be read again, and whose commands are names."""
    written = compiled_texts(plan, "t")
    for path, text in written.items():
        assert path.startswith((f"specs/{plan.spec}/", f"results/{plan.spec}/")) and ".." not in path.split("/")
        if path.endswith(".json"):
            assert json.loads(text)["kind"]
    stages = yaml.load(written[f"specs/{plan.spec}/dvc.yaml"], Loader=yaml.CSafeLoader)["stages"]
    assert [*stages] == ["spec", *(stage.name for stage in plan.stages)]
    for name, stage in stages.items():
        argument = plan.spec if name == "spec" else f"{plan.spec}/{name}"
        assert stage["cmd"] == f"python3 specs/run.py {argument}" and stage["cmd"].isascii() and "$" not in stage["cmd"]
        outs = [out if isinstance(out, str) else next(iter(out)) for out in stage["outs"]]
        assert all(out.startswith(f"results/{plan.spec}/") and ".." not in out.split("/") for out in outs)


def is_told(error: SpecError, sources: dict[str, str]) -> None:
    """Problems of one line each, at places that there are."""
    assert error.problems
    for problem in error.problems:
        assert problem.message and str(problem).isprintable(), str(problem)
        lines = sources[Path(problem.mark.file).name].splitlines()
        assert 0 < problem.mark.line <= len(lines) + 1 and problem.mark.col > 0
    assert error.render()


@pytest.mark.parametrize("name", SOURCES)
def test_every_spec_is_sound_before(root: Path, name: str) -> None:
    is_sound(make_plan(resolve_file(root / "specs" / name, root, RUN_WIDE)))


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))])
@pytest.mark.parametrize("mutate", [of_text, of_values])
def test_two_thousand_mutants(root: Path, mutate: Callable[[str, random.Random], str], part: int) -> None:
    rng = random.Random(part)
    accepted = 0
    for _ in range(MUTANTS // PARTS // 2):
        name = rng.choice(SPECS)
        path, text = root / "specs" / name, mutate(SOURCES[name], rng)
        path.write_text(text, encoding="utf-8")
        try:
            is_sound(make_plan(resolve_file(path, root, RUN_WIDE)))
            accepted += 1
        except SpecError as error:
            is_told(error, {**SOURCES, name: text})
        path.write_text(SOURCES[name], encoding="utf-8")
    assert 0 < accepted < MUTANTS // PARTS // 3
