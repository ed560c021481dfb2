"""Comparing two computations of a part."""

import math
from dataclasses import replace

import pytest
from scipy.stats import binom

from qualm.runners.contracts.models import Part
from qualm.runners.inference.audit import PartDifference, compare_parts, too_many_branches

ANSWER = Part("a red cube", [5, 6, 7], [-0.1, -2.0, -0.001], [0.3, 1.5, 0.01])


def test_the_same_is_equal():
    assert compare_parts("answer", ANSWER, replace(ANSWER), "float64").verdict == "equal"


@pytest.mark.parametrize(
    ("dtype", "by", "verdict"),
    [("float64", 1e-6, "rounding"), ("float64", 1e-5, "differs"), ("float32", 1e-4, "rounding"), ("float32", 1e-3, "differs"),
     ("bfloat16", 0.1, "rounding"), ("bfloat16", 1.0, "differs")],
)  # fmt: skip
def test_numbers_may_move_by_rounding(dtype, by, verdict):
    result = compare_parts("answer", ANSWER, replace(ANSWER, logprobs=[-0.1, -2.0 - by, -0.001]), dtype)
    assert result.verdict == verdict and result.largest == pytest.approx(by)
    assert result.what == ("logprobs" if verdict == "differs" else "")


def test_small_numbers_of_double_precision_are_compared_in_their_digits():
    moved = replace(ANSWER, logprobs=[-0.1, -2.0, -0.0010001])
    assert (
        compare_parts("answer", ANSWER, moved, "float64").verdict == "differs"
        and compare_parts("answer", ANSWER, moved, "float32").verdict == "rounding"
    )


def test_what_is_undefined_and_what_is_not_differ():
    for other in (replace(ANSWER, entropies=None), replace(ANSWER, logprobs=[-0.1])):
        result = compare_parts("answer", ANSWER, other, "bfloat16")
        assert result.verdict == "differs" and math.isinf(result.largest)
    assert compare_parts("p_true", Part(numbers=[0.5]), Part(numbers=[]), "float32").verdict == "differs"
    for undefined in (math.nan, -math.inf):
        one, other = ([undefined, -1.0], [-5.0, -1.0])
        for stored, computed in ((one, other), (other, one)):
            result = compare_parts("answer", replace(ANSWER, logprobs=stored), replace(ANSWER, logprobs=computed), "bfloat16")
            assert result == PartDifference("differs", math.inf, "logprobs")
    same = replace(ANSWER, logprobs=[math.nan, -1.0])
    assert compare_parts("answer", same, replace(ANSWER, logprobs=[float("nan"), -1.0]), "bfloat16").verdict == "rounding"


def test_another_text_of_the_same_tokens_differs():
    result = compare_parts("answer", ANSWER, replace(ANSWER, text="a red  cube"), "bfloat16")
    assert (result.verdict, result.what) == ("differs", "text")


def test_another_token_is_rounding_where_it_was_as_likely():
    other = Part("a blue", [5, 9], [-0.1, -2.00001], [0.3, 1.5])
    assert compare_parts("answer", ANSWER, other, "float32").verdict == "rounding"
    assert compare_parts("answer", ANSWER, other, "float64").verdict == "differs"
    assert compare_parts("answer", ANSWER, replace(other, logprobs=[-0.1, -1.9]), "float32").verdict == "differs"
    assert compare_parts("answer", ANSWER, replace(other, logprobs=[-0.2, -2.00001]), "float32").what == "logprobs", "before that place too"


def test_another_token_of_a_draw_branches_it():
    other = Part("a blue", [5, 9], [-0.1, -4.0], [0.3, 1.5])
    assert compare_parts("draw 3", ANSWER, other, "float32").verdict == "branched"
    assert compare_parts("draw 3", ANSWER, replace(other, entropies=[0.4, 1.5]), "float32").verdict == "differs"


def test_a_number_may_move_by_its_share_and_large_ones_by_more():
    """At float32 by 2e-4, above 1 times its size; in double precision by 2e-6 of its size and the last digit that is kept."""
    for dtype, value, allowed in (("float32", -0.5, 2e-4), ("float32", -50.0, 1e-2), ("float64", -0.5, 1.002e-6), ("float64", 0.0, 2e-9)):
        for by, verdict in ((0.99 * allowed, "rounding"), (-0.99 * allowed, "rounding"), (1.01 * allowed, "differs")):
            result = compare_parts("p_true", Part(numbers=[0.25, value]), Part(numbers=[0.25, value + by]), dtype)
            assert (result.verdict, result.what) == (verdict, "numbers" if verdict == "differs" else ""), (dtype, value, by)
            assert result.largest == pytest.approx(abs(by), rel=1e-6)
    assert compare_parts("p_true", Part(numbers=[1.0]), Part(numbers=[1.15]), "unheard of").verdict == "rounding", "as the coarsest"


def test_the_first_numbers_that_are_apart_are_named_and_the_largest_is_told():
    moved = replace(ANSWER, logprobs=[-0.1, -2.5, -0.001], entropies=[0.3, 1.5, 1.01])
    assert compare_parts("answer", ANSWER, moved, "float32") == PartDifference("differs", 1.0, "logprobs")
    assert compare_parts("answer", ANSWER, replace(ANSWER, entropies=[0.3, 1.5, 1.01]), "float32").what == "entropies"


def test_tokens_that_were_as_likely_within_twice_what_numbers_may_move():
    for by, verdict in ((3.99e-4, "rounding"), (-3.99e-4, "rounding"), (4.01e-4, "differs")):
        other = Part("a blue", [5, 9], [-0.1, -0.5 + by], [0.3, 1.5])
        one = replace(ANSWER, logprobs=[-0.1, -0.5, -0.001])
        assert compare_parts("answer", one, other, "float32").verdict == verdict, by
    shorter = Part("a", [5], [-0.1], [0.3])
    assert compare_parts("answer", ANSWER, shorter, "bfloat16") == PartDifference("differs", 0.0, "text"), "nothing is known of its end"
    assert (
        compare_parts("answer", replace(ANSWER, logprobs=None), replace(ANSWER, tokens=[5, 6, 8], logprobs=None), "float32").verdict
        == "differs"
    )


def test_tokens_that_are_known_of_one_alone_differ():
    assert compare_parts("answer", ANSWER, replace(ANSWER, tokens=None), "float32") == PartDifference("differs", 0.0, "text")


@pytest.mark.parametrize(("branched", "draws"), [(2, 35), (3, 149)])
def test_so_many_branches_are_too_many_of_few_draws(branched, draws):
    """Of 16 tokens at float32 a draw branches with a chance of 4 x 0.1 x 2e-4 x 16; that so many do has one of 1 in 1000."""
    assert binom.sf(branched - 1, draws, 0.00128) < 1e-3 < binom.sf(branched - 1, draws + 1, 0.00128)
    assert too_many_branches(branched, draws, 16, "float32") and not too_many_branches(branched, draws + 1, 16, "float32")
    assert not too_many_branches(0, 10, 16, "float32") and not too_many_branches(0, 0, 16, "float64")


def test_how_many_branches_rounding_explains():
    assert not too_many_branches(0, 100, 16, "float64") and too_many_branches(1, 100, 16, "float64")
    assert not too_many_branches(1, 20, 16, "float32") and too_many_branches(3, 20, 16, "float32")
    assert not too_many_branches(20, 20, 16, "bfloat16"), "of 16 tokens at half precision every draw may"


def test_branches_of_thousands_of_draws_are_counted():
    """Binomial coefficients of so many draws exceed the largest float."""
    assert not too_many_branches(600, 5000, 2000, "float32") and too_many_branches(600, 5000, 16, "float32")
