import sys

import pytest

from qualm.runners.contracts.judges import JudgeError
from qualm.runners.plugins.judges.final_value import final_value


def rating(reference, reply, question="?", **options):
    (judgement,) = final_value([question], [[reference]], [reply], **options)
    assert judgement.parse_ok is (judgement.rating is not None)
    return judgement.rating


@pytest.mark.parametrize(
    "reference, reply, expected",
    [
        ("72", "First 48, then 24 more. #### 72", 1), ("She sold 24.\n#### 72", "The answer is 72.", 1),
        ("72", r"\boxed{48}", 0),
        ("3", "There are 3 algorithms with an accuracy lower than 8.", 1),
        ("8", "There are 3 algorithms with an accuracy lower than 8.", 0),
        ("2016", "It was highest in 2016, with 94% of schools.", 1), ("94", "It was highest in 2016, with 94% of schools.", 1),
        ("30", "The value of x is **1**. x + 150 = 180. Therefore, the value of x is **30**.", 1),
        ("9", "I count 8. No wait, there are 9.", 1),
        ("12", "10 or 12", None),
        ("4", "z = 4 or z = -4", None), ("10", "more than 10", None), ("10", "at least 12", 0), ("7", "no number here", 0),
        ("0", "There are none.", 1),
        ("5", "It is not 5.", 0), ("12", "not 10 but 12", 1),
    ],
)  # fmt: skip
def test_the_final_number(reference, reply, expected):
    assert rating(reference, reply) == expected


def test_a_question_says_what_is_counted():
    reply = "There are three dogs and two cats."
    assert rating("3", reply, "How many dogs are there?") == 1 and rating("2", reply, "How many dogs are there?") == 0


def test_tolerance_and_rounding():
    assert rating("100", "It is 104.") == 0 and rating("100", "It is 104.", tolerance=0.05) == 1
    assert rating("1.2", "It is 1.234.") == 0 and rating("1.2", "It is 1.234.", rounded=True) == 1


@pytest.mark.parametrize(
    "reference, reply, expected",
    [
        (r"\frac{\sqrt{3}}{2}", r"The answer is $\boxed{\frac{\sqrt 3}{2}}$.", 1),
        ("x^2+2x+1", "Answer: (x+1)^2", 1), ("x<5", "the answer is x>5", 0),
        (r"2\sqrt{2}", r"The length is $2\sqrt{2}$ cm.", 1), (r"2\pi", r"\boxed{3\pi}", 0), ("(1,2)", r"\boxed{(1, 2)}", 1),
        (r"2\sqrt{2}", "I like it.", None),
    ],
)  # fmt: skip
def test_expressions(reference, reply, expected):
    pytest.importorskip("math_verify")
    assert rating(reference, reply) == expected


def test_an_expression_without_math_verify_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    assert rating("72", "72") == 1
    with pytest.raises(JudgeError, match=r"qualm-bench\[math\]"):
        rating(r"\sqrt{2}", "1.41")
