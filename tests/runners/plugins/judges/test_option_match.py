import re
import string
from collections import Counter
from itertools import product

import pytest

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges.option_match import find_option, option_match
from qualm.runners.runtime.settings import Settings
from qualm.runners.scoring.apply_judge import Answered
from qualm.runners.scoring.apply_judge import judge as apply

OPTIONS = ["a red cube", "a blue ball", "two cats", "Bill Gates"]


def judge(prediction, right=1, choices=OPTIONS, **arguments):
    references = (choices[right], string.ascii_uppercase[right])
    ref = {"label": "option_match", "plugin": "option_match", "args": arguments}
    (one,) = apply(ref, [Answered("?", references, prediction, choices=tuple(choices))], Settings(progress=False), Counter())
    return one


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        ("B", 1),
        ("The answer is B", 1),
        ("(B) a red cube", 1),
        ("B. a red cube", 1),
        ("answer:B", None),
        ("answer :B", 1),
        ("A", 0),
        ("A cat sat here", None),
        ("A cat sat, so C", None),  # two letters are words
        ("A. cat sat here", 0),
        ("A or B", None),
        ("A, or else B:", 0),  # marks are tried in an order, and a comma comes before a colon
        ("It is a Blue Ball.", 1),
        ("a red cube and a blue ball", None),
        ("bill gates", 3),
        ("E", None),
        ("", None),
        ("I don't know", None),
    ],
)
def test_the_first_two_steps(reply, place):
    assert find_option(reply, OPTIONS) == place


def by_regular_expressions(reply, options):
    """The same steps, written otherwise: every kind of mark in one pattern, words between spaces."""
    kinds = [r"{}", r"{}\.", r"{},", r"{}:", r"{}\)", r"{}\)\.", r"\({}\)", r"\({}\)\.", r":{}", r":{},", r":{}\.", r":{}\)", r":{}\)\."]
    for kind in kinds:
        found = [k for k in string.ascii_uppercase[: len(options)] if re.search(rf"(?:^|\s){kind.format(k)}(?=\s|$)", reply)]
        if len(found) == 1 and not (kind == r"{}" and found == ["A"] and len(re.findall(r"\S+", reply)) > 3):
            return string.ascii_uppercase.index(found[0])
    found = [k for k, text in enumerate(options) if re.search(re.escape(text.lower()), reply.lower())]
    return found[0] if len(found) == 1 else None


@pytest.mark.slow
def test_against_another_way_to_write_it():
    pieces = ["A", "B", "(A)", "B.", ":C", "D).", "E", "answer", "a", "Two CATS", "a red cube"]
    replies = [" ".join(words) for n in (1, 2, 3, 4) for words in product(pieces, repeat=n)]
    assert [find_option(r, OPTIONS) for r in replies] == [by_regular_expressions(r, OPTIONS) for r in replies]


def test_right_wrong_refused_and_unscored():
    assert judge("B") == Judgement(1.0, False) and judge("(C)") == Judgement(0.0, False)
    assert judge("no idea") == Judgement(0.0, True), "a refusal is wrong, and known to be one"
    assert judge("B or C") == judge("something else") == Judgement(None, False, parse_ok=False)
    assert judge("B", choices=["same", "same"], right=0).rating == 0
    (one,) = option_match(["?"], [["red"]], ["red"], [[]])
    assert one == Judgement(None, None, parse_ok=False)


def test_mmbench_s_own_two_steps():
    """What the first reading guesses and the second does not, and the other way round."""
    assert judge("answer:B").rating == 1 and judge("answer:B", rule="mmbench").parse_ok is False
    assert judge("A, or else B:").parse_ok is False and judge("A, or else B:", rule="mmbench", right=0).rating == 1
    assert judge("no idea", rule="mmbench") == Judgement(0.0, True)


def test_an_empty_option_is_in_no_reply():
    """`six_options_published` fills options up with an empty one."""
    options = ["a blue ball", "a red cube", ""]
    assert [find_option(reply, options) for reply in ("It is a red cube.", "It is green.", "C")] == [1, None, 2]


def test_what_is_left_goes_to_another_judge():
    vqa = {"plugin": "vqa", "args": {}}
    assert judge("either a red cube or a blue ball").rating is None
    assert judge("either a red cube or a blue ball", otherwise="exact_match") == Judgement(0.0, False), "a judge of open answers"
    assert judge("(A)", otherwise=vqa).rating == 0
    assert judge("I don't know", otherwise=vqa) == Judgement(0.0, True)
    assert judge("B or C", otherwise="first_character").rating == 1, "a judge of options is told them"
