import numpy as np
import pytest

from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.plugins.estimators.number_of_semantic_sets import _components, number_of_semantic_sets
from qualm.runners.runtime.settings import Settings

CONTEXT = EstimatorContext(Settings(progress=False))
TEXTS = [["red", "Red.", "blue", "red"], ["2", "two", "a two"], ["no", "yes", "", " "], ["red"], []]


@pytest.mark.parametrize("sets", ["clusters", "components"])
def test_counts(sets):
    np.testing.assert_array_equal(number_of_semantic_sets(CONTEXT, TEXTS, sets=sets), [2, 1, 3, np.nan, np.nan])


def test_a_chain_is_one_component():
    """0-1 and 1-2 entail each other, 0 and 2 do not."""
    entail, neutral = (3.0, 0.0, -3.0), (0.0, 3.0, 1.0)
    logits = np.array([[entail, entail, neutral], [entail, entail, entail], [neutral, entail, entail]])
    assert _components(logits) == 1
    logits[1, 2] = neutral
    assert _components(logits) == 2
