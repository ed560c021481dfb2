import pytest

from qualm.runners.contracts.models import ModelError
from qualm.runners.tools.doctor import patient as module
from qualm.runners.tools.doctor.patient import TOLERANCE, attempt, judge


@pytest.mark.parametrize(
    "worst, verdict", [(0.0, "ok"), (0.1, "ok"), (0.11, "warn"), (1.0, "warn"), (1.01, "fail"), (float("inf"), "fail")]
)
def test_a_distance_is_right_up_to_the_first_limit_and_fails_beyond_the_second(worst, verdict):
    result = judge("padding", worst, (0.1, 1.0), "batch and alone", "do this")
    assert result.verdict == verdict and result.advice == ("" if verdict == "ok" else "do this")
    assert result.tolerance == "0.1 nats" and result.numbers == {"worst": worst} and result.as_json()["check"] == "padding"


def test_half_precisions_may_differ_by_more():
    assert TOLERANCE["float64"][0] <= TOLERANCE["float32"][0] < TOLERANCE["float16"][0] < TOLERANCE["bfloat16"][0]
    assert all(ok < bad for ok, bad in TOLERANCE.values())


@pytest.mark.parametrize("error, shown", [(ModelError("lacks a template"), "lacks a template"), (KeyError("x"), "KeyError: 'x'")])
def test_a_check_that_cannot_be_made_is_a_failure(error, shown):
    def check(patient):
        raise error

    result = attempt("template", check, None)
    assert (result.check, result.verdict) == ("template", "fail") and shown in str(result.as_json().values()) and result.advice
    assert attempt("t", lambda patient: result, None) is result and module.DRAWS >= 2
