"""Levels of chance are the means over orders that know nothing, by the metrics themselves."""

import numpy as np
import pytest

from qualm.registry.plugins import rule
from qualm.runners.reporting.chance import BY_ACCURACY, FIXED, chance_level, in_words


@pytest.mark.parametrize("metric", [*FIXED, *BY_ACCURACY])
def test_a_random_order_reaches_it_on_average(metric):
    rng = np.random.default_rng(3)
    correct = (np.arange(300) < 210) * 1.0
    function = rule.load("metrics", metric)
    values = [function(rng.random(300), correct, np.ones((1, 300)))[0] for _ in range(300)]
    level = chance_level(metric, 0.7)
    assert level == pytest.approx(np.mean(values), abs=4 * np.std(values) / 300**0.5 + 1e-3)


def test_no_level_without_what_it_follows_from():
    assert chance_level("auarc", None) is None and chance_level("set_size", 0.7) is None
    assert in_words(["set_size"]) == ""
    assert in_words(["aurc", "aurc"]) == "chance, of an uncertainty that knows nothing: aurc 1 − accuracy"
