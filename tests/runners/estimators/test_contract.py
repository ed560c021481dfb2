"""What every estimator keeps, whoever wrote it."""

import numpy as np
import pytest

from registry import plugins
from registry.sample import GENERATIONS

RNG = np.random.default_rng(0)
LENGTHS = [3, 1, 0, 7, 2]
COLUMNS = {
    "token_logprobs": [-RNG.random(n) for n in LENGTHS],
    "token_entropies": [RNG.random(n) for n in LENGTHS],
    **{f"logprobs_without_{what}": [-RNG.random(n) for n in LENGTHS] for what in ("image", "question", "both")},
    "option_logits": [RNG.normal(size=4) for _ in LENGTHS],
    "text": ["a", "b c", "", "d", "e"],
    "p_true": RNG.random(5),
    "p_yes": RNG.random(5),
}


@pytest.fixture(params=plugins.names("estimators"))
def estimator(request):
    plugin = plugins.get("estimators", request.param)
    return plugin, plugins.load("estimators", request.param), [COLUMNS[name] for name in plugin.reads]


def test_needs_are_the_columns_it_reads(estimator):
    plugin, *_ = estimator
    assert tuple(plugin.declares["NEEDS"]) == plugin.reads
    assert set(plugin.reads) <= set(GENERATIONS.names)
    assert plugin.summary


def test_one_number_per_row_whatever_else_is_in_the_batch(estimator):
    _, function, columns = estimator
    whole = function(*columns)
    assert whole.shape == (5,)
    assert whole.dtype == np.float64
    np.testing.assert_allclose(np.concatenate([function(*(c[i : i + 1] for c in columns)) for i in range(5)]), whole)
    assert function(*(c[:0] for c in columns)).shape == (0,)


def test_an_empty_generation_is_undefined(estimator):
    plugin, function, columns = estimator
    if {"token_logprobs", "token_entropies"} & set(plugin.reads):
        assert np.isnan(function(*columns)[2])
