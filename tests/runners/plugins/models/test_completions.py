import math

import pytest

from qualm.registry.formats.plausible import MIN_LOGPROB
from qualm.runners.plugins.models._completions import (
    depends_on_temperature,
    entropy_lower_bounds,
    logprobs_in_prompt,
    option_logits,
    true_probability,
    yes_share,
)


def test_letters_are_added_up_over_their_spellings():
    tops = [{"A": math.log(0.2), " A": math.log(0.1), "B": math.log(0.3), "AB": math.log(0.1), "C": MIN_LOGPROB - 1}]
    assert option_logits(tops, 2) == pytest.approx([math.log(0.3), math.log(0.3)])
    assert option_logits(tops, 4) == "C, D not among the 5 likeliest first tokens; a larger `logprobs` shows more"
    assert option_logits([], 1).startswith("A not among the 0 likeliest")


def test_yes_and_true():
    tops = [{"Yes": math.log(0.4), "yes": math.log(0.2), "No": math.log(0.2), "True": math.log(0.15), "x": -9.0}]
    assert yes_share(tops) == pytest.approx(0.6 / 0.8) and true_probability(tops) == pytest.approx(0.15)
    assert yes_share([{"Yes": -0.1, "No": -5000.0}]) == 1.0 and yes_share([{"Yes": -5000.0, "No": -0.1}]) == pytest.approx(0)
    assert yes_share([{"Yes": -0.1}]).startswith("no not among the 1") and yes_share([]).startswith("yes and no not among")
    assert true_probability([{"True": 0.0, " True": -17.0}]) == 1.0, "servers round"
    assert true_probability([{"Yes": -0.1}]).startswith("True not among the 1")
    assert true_probability([{"True": math.log(0.5), " True": -2000.0}]) == pytest.approx(0.5), "however far apart they are"
    assert true_probability([{"True": MIN_LOGPROB}]).startswith("True not among"), "which says that there is none"


def test_the_part_of_the_entropy_that_is_shown():
    assert entropy_lower_bounds([{"a": math.log(0.5), "b": math.log(0.5)}, {"a": 0.0, "b": MIN_LOGPROB - 999}, {}]) == pytest.approx(
        [math.log(2), 0, 0]
    )


def test_whether_a_server_divides_log_probabilities_by_the_temperature():
    cold, warm = {"a": -0.1, "b": -2.6, "c": -3.1}, {"a": -0.01, "b": -5.01, "c": -6.01}
    assert (
        depends_on_temperature(cold, warm, 0.5) and not depends_on_temperature(cold, cold, 0.5) and depends_on_temperature(warm, cold, 2.0)
    )
    assert not depends_on_temperature(cold, cold, 1.0), "at temperature 1 nothing tells"
    assert not depends_on_temperature(cold, {"a": -0.1, "b": MIN_LOGPROB}, 0.5), "one token has no distances"
    assert depends_on_temperature({"a": 0.0, "b": -1000.0}, {"a": -0.1, "b": -2.6}, 0.7), "temperature 0 taken at its word"


def test_tokens_are_found_where_they_stand_last():
    prompt = [{}, {1: -0.1}, {2: -0.2}, {1: -0.3}, {2: -0.4, 9: -1.0}, {3: -0.5}]
    assert (
        logprobs_in_prompt(prompt, [1, 2]) == [-0.3, -0.4]
        and logprobs_in_prompt(prompt, [3]) == [-0.5]
        and logprobs_in_prompt(prompt, [2, 1]) == [-0.2, -0.3]
    )
    assert logprobs_in_prompt(prompt, [4]) is None and logprobs_in_prompt(prompt, [1] * 9) is None
