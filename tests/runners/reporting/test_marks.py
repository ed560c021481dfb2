"""Signs beside values: better or worse than the baseline, surely or not, and the test in words."""

import math

import pytest

from qualm.runners.reporting import marks
from qualm.runners.reporting.marks import MarkedNumber, difference, is_finite, verdict_mark

NAN = math.nan


def compared(change=0.125, p=0.02, higher=True, low=0.0625, high=0.25, **more):
    ends = {"low": low, "high": high}
    return {"a": "base", "difference": change, "p_adjusted": p, "higher_is_better": higher, "n": 1200, **ends, **more}


@pytest.mark.parametrize(
    ("change", "p", "higher", "sign"),
    [
        (0.1, 0.005, True, ("▲", "better")), (0.1, 0.01, True, ("△", "better")), (0.1, 0.049, True, ("△", "better")),
        (0.1, 0.05, True, ("", "")), (0.1, 0.2, True, ("", "")), (-0.1, 0.005, True, ("▼", "worse")), (-0.1, 0.01, True, ("▽", "worse")),
        (0.1, 0.005, False, ("▼", "worse")), (0.1, 0.02, False, ("▽", "worse")), (-0.1, 0.005, False, ("▲", "better")),
        (0.1, 0.005, None, ("", "")), (0.0, 0.005, True, ("", "")), (None, 0.005, True, ("", "")), (0.1, None, True, ("", "")),
        (NAN, 0.005, True, ("", "")), (0.1, NAN, True, ("", "")), (0.1, 0.0, True, ("▲", "better")),
    ],
)  # fmt: skip
def test_a_sign_says_which_way_and_how_surely(change, p, higher, sign):
    assert verdict_mark(compared(change, p, higher)) == sign


@pytest.mark.parametrize(
    ("test", "text"),
    [
        (compared(), "+0.12 (+0.06 to +0.25) against base, p = 0.0200"),
        (compared(-0.5, p=None, low=None, why="3 scored groups"), "−0.500 against base, not tested: 3 scored groups"),
        (compared(compared_by="ece_debiased"), "+0.12 (+0.06 to +0.25) against base by squared ece_debiased, p = 0.0200"),
        (
            compared(margin=0.5, p_equivalent=0.01, p_not_worse=0.001),
            "+0.12 (+0.06 to +0.25) against base, p = 0.0200, equal within 0.5",
        ),
        (compared(high=None), "+0.125 against base, p = 0.0200"),
        (compared(low=NAN), "+0.125 against base, p = 0.0200"),
        (compared(None, a="b\x07"), "undefined (+0.06 to +0.25) against b⟨U+0007⟩, p = 0.0200"),
    ],
)
def test_a_test_in_words(test, text):
    assert marks.describe_test(test) == text


def test_a_difference_with_its_interval_sign_and_number():
    assert difference(None) == MarkedNumber("–", title="not measured for both")
    assert difference(compared(None)) == MarkedNumber("undefined", title="n = 1,200") == difference(compared(NAN))
    whole = difference(compared())
    assert whole == MarkedNumber("+0.12", "+0.06 to +0.25", "", "△", "better", f"n = 1,200; {marks.describe_test(compared())}")
    untested = difference(compared(p=None, low=None, why="3 scored groups"))
    assert untested.interval == "not tested" and untested.title.endswith("not tested: 3 scored groups")
    assert difference(compared(None, why="no row")).title == "n = 1,200; no row"
    near = compared(margin=0.5, p_equivalent=0.2, p_not_worse=0.001)
    assert difference(near).interval == "+0.06 to +0.25; not worse by 0.5"
    assert difference(compared(low=None)).interval == "" == difference(compared(high=NAN)).interval


def test_finite():
    assert is_finite(0.0) and is_finite(-1.5) and not is_finite(None) and not is_finite(NAN) and not is_finite(math.inf)
