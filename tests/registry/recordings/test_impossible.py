import math

import pytest

from qualm.registry.recordings.impossible import CHECKS, without_impossible
from qualm.registry.recordings.signals import LISTS, NUMBERS


def test_every_number_of_a_recording_is_checked():
    assert set(CHECKS) == {*LISTS, *NUMBERS}


@pytest.mark.parametrize(
    "column, good, bad",
    [
        ("token_logprobs", [-1.0, 0.0], [0.5]),
        ("token_entropies", [0.0, 2.0], [-0.5]),
        ("logprobs_without_both", [-3.0], [math.nan]),
        ("image_divergence", [0.5], [-1.0]),
        ("option_logits", [-5.0, 5.0], [math.inf]),
        ("p_yes", 1.0, 1.5),
        ("p_true", 0.0, -0.5),
    ],
)
def test_a_number_that_cannot_be_is_gone_with_a_reason_and_the_rest_stays(column, good, bad):
    assert without_impossible({"text": "a", column: good}) == ({"text": "a", column: good}, [])
    kept, reasons = without_impossible({"text": "a", column: bad})
    assert kept == {"text": "a"} and len(reasons) == 1 and reasons[0].startswith(f"{column}: ")


def test_lists_of_different_lengths_are_all_gone():
    kept, reasons = without_impossible({"text": "a", "token_logprobs": [-1.0, -2.0], "token_entropies": [1.0], "option_logits": [1.0, 2.0]})
    assert kept == {"text": "a", "option_logits": [1.0, 2.0]} and len(reasons) == 1
    assert without_impossible({"token_logprobs": None, "token_entropies": [1.0]}) == (
        {"token_logprobs": None, "token_entropies": [1.0]},
        [],
    )
