import numpy as np
import pytest

from qualm.runners.inference.nli import CONTRADICTION, ENTAILMENT, NEUTRAL
from qualm.runners.plugins.estimators._meanings import clusters


class Nli:
    """Says of a pair what a table says; else that neither follows."""

    def __init__(self, **told):
        self.told, self.asked = {tuple(pair): what for pair, what in told.items()}, []

    def logits(self, pairs):
        self.asked += pairs
        return np.eye(3)[[self.told.get(pair, NEUTRAL) for pair in pairs]].reshape(-1, 3)


def found(nli, *texts, **options):
    return [c.tolist() for c in clusters(nli, list(texts), **options)]


def test_both_must_follow_from_each_other():
    nli = Nli(ab=ENTAILMENT, ba=ENTAILMENT, ac=ENTAILMENT)
    assert found(nli, ["a", "c", "b", "a"]) == [[0, 1, 0, 0]]
    assert ("c", "a") in nli.asked and ("d", "a") not in nli.asked


def test_a_draw_joins_the_first_cluster_whose_first_member_means_the_same():
    nli = Nli(ac=ENTAILMENT, ca=ENTAILMENT, bc=ENTAILMENT, cb=ENTAILMENT)
    assert found(nli, ["a", "b", "c"], ["b", "a", "c"], ["c", "b", "a"]) == [[0, 1, 0], [0, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize("same, expected", [("entailment", [0, 1, 2]), ("no_contradiction", [0, 1, 0])])
def test_neutral_texts_are_the_same_only_where_contradiction_decides(same, expected):
    assert found(Nli(ab=CONTRADICTION), ["a", "b", "c"], same=same) == [expected]


def test_questions_stand_before_texts_but_not_before_an_empty_one():
    nli = Nli()
    found(nli, ["a", "b", " "], ["c", "d"], questions=["Q?", "  "])
    assert ("Q? a", "Q? b") in nli.asked and ("Q? a", " ") in nli.asked and ("c", "d") in nli.asked


def test_no_draws_and_one_draw():
    nli = Nli()
    assert found(nli, [], ["a"], ["b", "b"]) == [[], [0], [0, 0]] and nli.asked == []
