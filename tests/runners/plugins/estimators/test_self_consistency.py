import numpy as np
import pytest

from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.inference.nli import CONTRADICTION, ENTAILMENT
from qualm.runners.plugins.estimators.self_consistency import self_consistency
from qualm.runners.runtime.settings import Settings
from tests.support.models.tiny_nli import Answered, Told

CONTEXT = EstimatorContext(Settings(progress=False))
DRAWS = [["red", "blue", "Red.", "green"]]


class Table:
    """Logits by the pair of texts."""

    def logits(self, pairs):
        values = np.zeros((len(pairs), 3))
        for row, (a, b) in zip(values, pairs, strict=True):
            row[ENTAILMENT], row[CONTRADICTION] = len(a), 2 * len(b)
        return values


def test_cosine_is_the_normalised_similarity_of_uqlm():
    """1 - (1/N) sum (1 + cos) / 2, over cosines that depend on no direction."""
    cosines = {"crimson red": 0.8, "no red": -0.2, "crimson no": 0.1}
    words = ["red", "crimson", "no"]
    told = Told({(a, b): (cosines.get(" ".join(sorted((a, b))), 1.0),) for a in words for b in words}, classes=1)
    found = self_consistency(Answered(told), ["red"], [["crimson", "no", "red"]], similarity="cosine", nli="told")
    assert found[0] == pytest.approx(1 - (0.9 + 0.4 + 1.0) / 3)


def test_worked_example():
    assert self_consistency(CONTEXT, ["red"], DRAWS)[0] == 0.5
    assert self_consistency(CONTEXT, ["red"], DRAWS, similarity="jaccard")[0] == 0.75, "without a rule for punctuation"


@pytest.mark.parametrize("similarity", ["entailment", "contradiction"])
def test_probabilities_of_both_directions_against_the_definition(similarity, monkeypatch):
    monkeypatch.setattr(EstimatorContext, "nli", lambda self, chosen, reads: Table())
    answer, draws = "ab", ["a", "abc", "abcd"]

    def like(a, b):
        powers = np.exp(Table().logits([(a, b)])[0])
        shares = powers / powers.sum()
        return shares[ENTAILMENT] if similarity == "entailment" else 1 - shares[CONTRADICTION]

    expected = 1 - np.mean([(like(answer, d) + like(d, answer)) / 2 for d in draws])
    assert self_consistency(CONTEXT, [answer], [draws], similarity=similarity)[0] == pytest.approx(expected)


def test_edges():
    values = self_consistency(CONTEXT, ["red", "red", "", ""], [[], ["red", "red"], [""], ["red"]])
    np.testing.assert_array_equal(values, [np.nan, 0.0, 0.0, 1.0])
