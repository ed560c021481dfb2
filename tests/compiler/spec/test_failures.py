import pytest

from qualm.compiler.spec.errors import Position, Problem
from qualm.compiler.spec.reader import Failures
from qualm.compiler.spec.yaml_positions import parse

TEXT = "models:\n  a: {x: 1}\n  b: {y: 2}\nmetrics:\n  - ece\n  - {auroc: {}}\nestimatrs: [x]\n"


def failures(*places):
    return Failures(parse(TEXT, "s"), [Problem(Position("s"), "", "", at=place) for place in places])


@pytest.mark.parametrize(
    "places, section, name, failed",
    [
        ([], "models", "", False),
        ([("models", "a", "x")], "models", "", True),
        ([("models", "a", "x")], "models", "a", True),
        ([("models", "a", "x")], "models", "a@x=1", True),
        ([("models", "a", "x")], "models", "b", False),
        ([("models",)], "models", "b", True),
        ([("metrics", 0)], "metrics", "ece", True),
        ([("metrics", 1, "auroc")], "metrics", "auroc", True),
        ([("metrics", 1, "auroc")], "metrics", "ece", False),
        ([("metrics", 2)], "metrics", "ece", False),
        ([("metrics", 9)], "metrics", "ece", False),
        ([("judges", 0)], "models", "a", False),
    ],
)
def test_what_has_mistakes(places, section, name, failed):
    assert failures(*places).has_errors(section, name) is failed


def test_a_misspelt_section_and_a_file_that_was_read_in_part_may_hold_anything():
    assert failures().has_errors("estimators") and failures().has_errors("estimators", "x") and not failures().has_errors("judges")
    assert failures().names("models") == ["a", "b"] and failures().names("metrics") == [] and not failures().incomplete


def test_problems_that_come_later_count():
    problems = []
    found = Failures(parse(TEXT, "s"), problems)
    assert not found.has_errors("models", "a")
    problems.append(Problem(Position("s"), "", "", at=("models", "a")))
    assert found.has_errors("models", "a")
