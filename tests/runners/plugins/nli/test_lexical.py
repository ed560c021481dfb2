import pytest

from qualm.runners.contracts.nli import NliContext
from qualm.runners.inference.nli import CONTRADICTION, ENTAILMENT, NEUTRAL
from qualm.runners.plugins.nli.lexical import lexical
from qualm.runners.scoring.answer_text import words_of

NAMES = {ENTAILMENT: "follows", NEUTRAL: "neutral", CONTRADICTION: "contradicts"}


def told(premise, hypothesis):
    ((one,),) = lexical(NliContext()).infer([(premise, hypothesis)])
    return NAMES[one[1].index(max(one[1]))]


@pytest.mark.parametrize(
    ("premise", "hypothesis", "expected"),
    [
        ("A red cube.", "red cube", "follows"),
        ("two cubes", "2 Cubes", "follows"),
        ("a big red cube", "red cube", "follows"),
        ("red cube", "a big red cube", "neutral"),
        ("red cube", "cube red", "neutral"),
        ("red", "blue", "contradicts"),
        ("yes", "no", "contradicts"),
        ("yes", "No.", "contradicts"),
        ("no", "no cube", "neutral"),
        ("no cube", "no", "follows"),
        ("a cube", "not a cube", "contradicts"),
        ("not a cube", "cube", "contradicts"),
        ("0", "none", "follows"),
        ("0", "3", "contradicts"),
        ("it isn't red", "it is red", "contradicts"),
        ("красный куб", "Красный куб!", "follows"),
        ("红色的车", "红色", "follows"),
        ("红色", "蓝", "contradicts"),
        ("?!", "? !", "follows"),
        ("?!", "red", "neutral"),
        ("🙂", "🙂 ", "follows"),
        ("ref", "red", "contradicts"),
    ],
)
def test_rules(premise, hypothesis, expected):
    assert told(premise, hypothesis) == expected


def test_equal_texts_and_only_they_entail_each_other():
    texts = ["red", "a red cube", "Red cube", "cube red", "no", "0", "none", "two", "2", "红", "红色"]
    for a in texts:
        for b in texts:
            both = told(a, b) == told(b, a) == "follows"
            assert both == (words_of(a) == words_of(b)), (a, b)
