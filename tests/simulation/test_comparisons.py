"""What a study says of equal models, and of models that differ: simulated with a known truth, seeded."""

import numpy as np

from tests.simulation.comparisons import METRICS, least, metrics, model, samples, study


def rejections(studies, kinds, names, permutations, n=400, groups=200, gain=0.0, seed=1):
    rng, of, named = np.random.default_rng(seed), samples(n, groups, kinds), metrics(*names)
    for _ in range(studies):
        difficulty = rng.random(groups)
        yield study(of, model(of, rng, difficulty), model(of, rng, difficulty, gain), named, permutations)


def test_twenty_slices_and_three_metrics_of_equal_models():
    studies = list(rejections(60, 20, METRICS, 199))
    assert np.mean([least(tests, "max_t", "study") < 0.05 for tests in studies]) <= 0.06 + 0.05
    assert np.mean([least(tests, "holm", "metric") < 0.05 for tests in studies]) > 0.5, "no family spans slices"


def test_one_test_of_equal_models_and_of_a_difference():
    null = [least(tests, "max_t", "study") < 0.05 for tests in rejections(400, 1, ["accuracy"], 199, 200, 50)]
    assert 0.025 <= np.mean(null) <= 0.08
    better = list(rejections(60, 1, ["accuracy"], 199, 200, 50, gain=0.15))
    by_max_t, alone = (np.mean([least(tests, how, "study") < 0.05 for tests in better]) for how in ("max_t", "none"))
    assert by_max_t == alone > 0.4
