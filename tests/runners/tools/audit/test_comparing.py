"""Comparing two computations of a part."""

import math
from dataclasses import replace

import pytest

from qualm.runners.contracts.models import Part
from qualm.runners.tools.audit.comparing import compared, too_many

ANSWER = Part("a red cube", [5, 6, 7], [-0.1, -2.0, -0.001], [0.3, 1.5, 0.01])


def test_the_same_is_equal():
    assert compared("answer", ANSWER, replace(ANSWER), "float64").verdict == "equal"


@pytest.mark.parametrize(
    ("dtype", "by", "verdict"),
    [("float64", 1e-6, "rounding"), ("float64", 1e-5, "differs"), ("float32", 1e-4, "rounding"), ("float32", 1e-3, "differs"),
     ("bfloat16", 0.1, "rounding"), ("bfloat16", 1.0, "differs")],
)  # fmt: skip
def test_numbers_may_move_by_rounding(dtype, by, verdict):
    result = compared("answer", ANSWER, replace(ANSWER, logprobs=[-0.1, -2.0 - by, -0.001]), dtype)
    assert result.verdict == verdict and result.largest == pytest.approx(by)
    assert result.what == ("logprobs" if verdict == "differs" else "")


def test_small_numbers_of_double_precision_are_compared_in_their_digits():
    moved = replace(ANSWER, logprobs=[-0.1, -2.0, -0.0010001])
    assert (
        compared("answer", ANSWER, moved, "float64").verdict == "differs"
        and compared("answer", ANSWER, moved, "float32").verdict == "rounding"
    )


def test_what_is_undefined_and_what_is_not_differ():
    for other in (replace(ANSWER, entropies=None), replace(ANSWER, logprobs=[-0.1])):
        result = compared("answer", ANSWER, other, "bfloat16")
        assert result.verdict == "differs" and math.isinf(result.largest)
    assert compared("p_true", Part(numbers=[0.5]), Part(numbers=[]), "float32").verdict == "differs"


def test_another_text_of_the_same_tokens_differs():
    result = compared("answer", ANSWER, replace(ANSWER, text="a red  cube"), "bfloat16")
    assert (result.verdict, result.what) == ("differs", "text")


def test_another_token_is_rounding_where_it_was_as_likely():
    other = Part("a blue", [5, 9], [-0.1, -2.00001], [0.3, 1.5])
    assert compared("answer", ANSWER, other, "float32").verdict == "rounding"
    assert compared("answer", ANSWER, other, "float64").verdict == "differs"
    assert compared("answer", ANSWER, replace(other, logprobs=[-0.1, -1.9]), "float32").verdict == "differs"
    assert compared("answer", ANSWER, replace(other, logprobs=[-0.2, -2.00001]), "float32").what == "logprobs", "before that place too"


def test_another_token_of_a_draw_branches_it():
    other = Part("a blue", [5, 9], [-0.1, -4.0], [0.3, 1.5])
    assert compared("draw 3", ANSWER, other, "float32").verdict == "branched"
    assert compared("draw 3", ANSWER, replace(other, entropies=[0.4, 1.5]), "float32").verdict == "differs"


def test_how_many_branches_rounding_explains():
    assert not too_many(0, 100, 16, "float64") and too_many(1, 100, 16, "float64")
    assert not too_many(1, 20, 16, "float32") and too_many(3, 20, 16, "float32")
    assert not too_many(20, 20, 16, "bfloat16"), "of 16 tokens at half precision every draw may"
