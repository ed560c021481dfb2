import pytest

from qualm.registry.adapters import AdapterError
from qualm.registry.adapters._yes_no import instructed, yes_or_no


def test_a_question_with_its_instruction():
    assert instructed("Is it?", "Say yes or no.") == "Is it? Say yes or no." and instructed("Is it?", "") == "Is it?"


@pytest.mark.parametrize("value, found", [("Yes", "yes"), (" NO\n", "no")])
def test_yes_and_no_in_any_case(value, found):
    assert yes_or_no({"k": value}, "k", "w") == found


@pytest.mark.parametrize("value", ["maybe", True, None, "yes."])
def test_what_is_neither(value):
    with pytest.raises(AdapterError, match=r"f:3: k: expected yes or no, got"):
        yes_or_no({"k": value}, "k", "f:3")
