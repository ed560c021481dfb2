import json

import pytest

from tests.bench.mutation_map import RECORDER, LineMap
from tests.bench.mutation_sites import mutants
from tests.bench.mutation_uses import executed, inside_function

MODULE = """\
LEAST = 1

class Answer:
    score: float = 2

def accepted(answer):
    if answer.score < LEAST:
        return [
            answer,
            3,
        ]
    return 4

@registered(5)
def other(): return 6
"""
USER = """\
from qualm.compiler.module import Answer

def first(value):
    return Answer(value)

def second(value):
    return value.score

def third(value):
    return value
"""


@pytest.fixture
def checkout(tmp_path):
    root = tmp_path / "checkout"
    for path, text in {
        "compiler/module.py": MODULE,
        "compiler/user.py": USER,
        "tests/test_module.py": "def test_one(): ...\n",
        RECORDER: "",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.mark.parametrize(
    "number, inside, places",
    [
        ("3", True, {"compiler/module.py": {8, 9, 10, 11}}),
        ("4", True, {"compiler/module.py": {12}}),
        ("6", True, {"compiler/module.py": {15}}),
        ("1", False, {"compiler/module.py": {7, 8, 9, 10, 11, 12}}),
        ("2", False, {"compiler/module.py": {7, 8, 9, 10, 11, 12}, "compiler/user.py": {4, 7}}),
        ("5", False, {"compiler/module.py": {15}}),
    ],
)
def test_what_is_executed_with_a_place(checkout, number, inside, places):
    (mutant,) = (one for one in mutants("compiler/module.py", MODULE.encode()) if one.text == str(int(number) + 1))
    assert next(executed(mutant, checkout)) == places and inside_function(mutant, checkout) is inside


def test_a_map_follows_lines_to_where_they_are_now(checkout, tmp_path, monkeypatch):
    def recorded(self, root, tests):
        recordings.append(tests)
        records = tmp_path / f"records{len(recordings)}"
        records.mkdir()
        ran = {"test_one": [7, 12], "test_two": [7, 8, 9, 10]}
        for process, (test, lines) in enumerate(ran.items()):
            name = f"tests/test_module.py::{test}"
            (records / f"{process}.jsonl").write_text(json.dumps({"test": name, "lines": {"compiler/module.py": lines}}) + "\n")
            (records / f"{process}.seconds").write_text(json.dumps([name, 0.5]) + "\n")
        self.read(records)

    recordings = []
    monkeypatch.setattr(LineMap, "_record", recorded)  # that of all tests takes minutes

    def executing(line):
        lines = LineMap(tmp_path / "map", ["compiler/module.py", "compiler/user.py"])
        lines.update(checkout)
        return [test.name.partition("::")[2] for test in lines.executing("compiler/module.py", {line})]

    assert executing(7) == ["test_one", "test_two"] and executing(12) == ["test_one"]
    (checkout / "compiler/module.py").write_text("import math\n" + MODULE.replace("[\n", "[\n            math.e,\n"))
    assert executing(8) == ["test_one", "test_two"] and executing(11) == ["test_two"] and executing(14) == ["test_one"]
    assert recordings == [["tests/test_module.py"]], "the tests are the same"
    (checkout / "tests/test_module.py").write_text("def test_one(): pass\n")
    executing(7)
    (checkout / RECORDER).write_text("pass\n")
    executing(7)
    assert len(recordings) == 3
