import numpy as np
import pytest
from scipy.stats import entropy as scipy_entropy

from qualm.runners.contracts.finetunes import FinetuneContext
from qualm.runners.training.examples import Row
from qualm.runners.training.opinions import answer_entropy, judge_answers


@pytest.mark.parametrize("counts", [[1], [3], [1, 1], [3, 1], [2, 2, 1]])
def test_entropy_is_that_of_the_shares(counts):
    texts = [f"answer {chr(98 + i)}" for i, n in enumerate(counts) for _ in range(n)]
    assert answer_entropy(texts) == pytest.approx(scipy_entropy(np.array(counts) / sum(counts)), abs=1e-12)


def test_answers_are_the_same_up_to_case_punctuation_and_articles():
    assert answer_entropy(["Red.", "the red", "RED"]) == 0.0 and answer_entropy(["two", "2", "three"]) == pytest.approx(
        answer_entropy(["a b", "a b", "c"])
    )


def test_options_are_right_by_their_letter_and_open_answers_by_the_judge():
    import inspect

    names = list(inspect.signature(Row).parameters)
    plain = {"row": 0, "sample_id": "s", "question": "Q?", "choices": (), "references": ("red",), "answerable": True, "target": "B"}

    def row(**changes):
        values = {**plain, **changes}
        return Row(**{name: values.get(name) for name in names})

    rows = [row(choices=("x", "y")), row(choices=("x", "y")), row(), row(), row(answerable=False, references=())]
    answers = [" B ", "A", "Red.", "blue", "I don't know"]
    context = FinetuneContext({}, 7)
    assert judge_answers(context, rows, answers, {"plugin": "rules", "args": {}}) == [True, False, True, False, True]
    animals = row(choices=("a cat", "a dog"), references=())
    answers = ["(B) a dog", "The answer is B.", "It is a cat.", "I don't know.", "A or B", ""]
    for judge in ("rules", "exact_match"):
        assert judge_answers(context, [animals] * 6, answers, judge) == [True, True, False, False, None, None]
    unknown = row(choices=("a cat", "a dog"), answerable=False)
    assert judge_answers(context, [unknown] * 2, ["I cannot tell.", "B"], "rules") == [True, False]
    assert judge_answers(context, [row(choices=("a cat", "a dog"), target="red")], ["Red."], "rules") == [True]
