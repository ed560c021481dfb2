"""What a study says of equal models, and of models that differ: simulated with a known truth, seeded."""

import numpy as np
import pytest

from tests.simulation.comparisons import (
    CLAIMS,
    best_of_useless,
    different_scales,
    false_results,
    found,
    least,
    metrics,
    model,
    power_beside_plain,
    ranked_alike,
    samples,
    study,
)


def rejections(studies, kinds, names, permutations, n=400, groups=200, gain=0.0, seed=1):
    rng, of, named = np.random.default_rng(seed), samples(n, groups, kinds), metrics(*names)
    for _ in range(studies):
        difficulty = rng.random(groups)
        yield study(of, model(of, rng, difficulty), model(of, rng, difficulty, gain), named, permutations)


@pytest.mark.slow
def test_twenty_slices_and_three_metrics_of_equal_models():
    some = false_results(60, permutations=199)
    assert some["max-T, study"] <= 0.06 + 0.05
    assert some["Holm, metric"] > 0.5, "no family spans slices"


@pytest.mark.slow
def test_the_best_of_many_useless_estimators_is_seldom_clear_of_chance():
    told = best_of_useless(30, times=200)
    assert told["AUROC of the best"] > 0.6 and told["by its own interval"] > 0.3
    assert told["clear of chance"] <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 30)


def test_one_test_by_itself_finds_what_plain_sign_flips_find():
    ours, plain = power_beside_plain(0.1, 40, permutations=999)
    assert plain > 0.3 and abs(ours - plain) <= 0.05


def test_one_test_of_equal_models_and_of_a_difference():
    null = [least(tests, "max_t", "study") < 0.05 for tests in rejections(400, 1, ["accuracy"], 199, 200, 50)]
    assert 0.025 <= np.mean(null) <= 0.08
    better = list(rejections(60, 1, ["accuracy"], 199, 200, 50, gain=0.15))
    by_max_t, alone = (np.mean([least(tests, how, "study") < 0.05 for tests in better]) for how in ("max_t", "none"))
    assert by_max_t == alone > 0.4


def test_within_one_family_max_t_finds_what_holm_finds_and_more():
    shares = dict(zip(CLAIMS, found(0.3, 10), strict=True))
    for span in ("metric", "slice", "study"):
        assert shares["max_t", span] >= shares["holm", span] > 0
    assert shares["max_t", "metric"] > shares["max_t", "slice"] > shares["max_t", "study"], "who claims more finds less"


def test_of_models_that_are_alike_none_is_called_best_and_hardly_any_is_left_out():
    shares = ranked_alike(100, 50, 0.9, ["accuracy", "ece", "mce"], 25, models=5, times=200)
    assert set(shares) == {f"{name}: {what}" for name in ("accuracy", "ece", "study") for what in ("out", "alone")}, "mce is not ranked"
    assert all(share == 0 for name, share in shares.items() if name.endswith("alone"))
    assert all(share <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 25) for share in shares.values()), shares


def test_equally_good_models_whose_uncertainties_have_other_scales_are_seldom_told_apart():
    alike, tenfold, coarse = (different_scales(60, 60, 0.03, how, 199) for how in ("same", "tenfold", "coarse"))
    assert tenfold == alike, "only the order counts"
    assert max(tenfold, coarse) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 50)
