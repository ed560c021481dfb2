"""What every judge that needs no model keeps, whoever wrote it."""

import pytest

from qualm.registry.plugins import registry
from qualm.runners.contracts.judges import Judgement


@pytest.fixture(params=["rules"])
def judge(request):
    return registry.load("judges", request.param)


def test_one_judgement_each_in_order(judge):
    found = judge(["?", "?", "?"], [["red"], ["red"], []], ["red", "green", "I don't know"])
    assert [type(j) for j in found] == [Judgement] * 3
    assert [j.rating for j in found] == [1, 0, 1]
    assert judge([], [], []) == []


@pytest.mark.parametrize("name", ["pope", "amber", "mme"])
def test_marks_are_those_that_are_declared(name):
    found = registry.load("judges", name)(["Is it?"] * 3, [["yes"], ["no"], []], ["Yes", "well", "I don't know"])
    assert [set(j.marks) for j in found] == [set(registry.get("judges", name).declares["MARKS"])] * 2 + [set()]


def test_columns_of_other_lengths_are_refused(judge):
    with pytest.raises(ValueError, match="zip"):
        judge(["?"], [["red"]], ["red", "blue"])
