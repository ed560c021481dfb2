"""Truths by formula and integration are what very many drawn answers give."""

import numpy as np
import pytest
from scipy.stats import kendalltau, norm
from sklearn.metrics import average_precision_score, cohen_kappa_score, f1_score, log_loss, roc_auc_score
from statsmodels.stats.inter_rater import fleiss_kappa

from tests.simulation import comparisons, guarantees, recalibrations, single_values, worlds

MANY = 200_000


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.1, 0.9])
def test_truths_of_single_values(rate):
    drawn = worlds.answers(MANY, "single", rate, np.random.default_rng(1)).columns
    correct, truth = drawn["correct"], worlds.truths(rate)
    found = {"accuracy": correct.mean(), "f1_idk": f1_score(drawn["gt_is_idk"], drawn["pred_is_idk"])}
    for suffix, tenths in (("", False), (", tenths", True)):
        p = worlds.forecasts(drawn["odds"], tenths)
        found |= {f"brier{suffix}": ((p - correct) ** 2).mean(), f"nll{suffix}": log_loss(correct, np.column_stack([1 - p, p]))}
        gaps = np.bincount(np.clip(np.ceil(p * 15 - 1e-9) - 1, 0, 14).astype(int), correct - p, 15)
        found[f"ece{suffix}"] = np.abs(gaps).sum() / MANY
    found["confidence_weighted_accuracy"] = np.where(correct == 1, 1, -1) @ worlds.forecasts(drawn["odds"], False) / MANY
    order = np.argsort(drawn["uncertainty"])
    accuracies = np.cumsum(correct[order]) / np.arange(1, MANY + 1)
    perfect = (np.cumsum(np.sort(correct)[::-1]) / np.arange(1, MANY + 1)).mean()
    found |= {
        "auroc": roc_auc_score(1 - correct, drawn["uncertainty"]),
        "auarc": accuracies.mean(),
        "aurc": 1 - accuracies.mean(),
        "augrc": (np.cumsum(1 - correct[order]) / MANY).mean(),
        "prediction_rejection_ratio": (accuracies.mean() - rate) / (perfect - rate),
        "average_precision": average_precision_score(1 - correct, drawn["uncertainty"]),
        "selective_accuracy": correct[order][: int(0.8 * MANY)].mean(),
    }
    assert set(found) == set(truth)
    for name, value in found.items():
        # The logarithmic score of rounded confidences has losses of 36 nats in it.
        assert truth[name] == pytest.approx(value, abs=0.05 if name == "nll, tenths" else 0.01), name


def test_answers_of_one_group_are_correlated_and_uneven_groups_have_every_row():
    group = worlds.layout_groups("Pareto", 300, np.random.default_rng(2))
    assert len(group) == 300 and len(np.unique(group)) == worlds.PARETO_GROUPS and np.bincount(group).max() > 15
    rng, pairs = np.random.default_rng(3), np.repeat(np.arange(20_000), 2)
    drawn = worlds.latent(pairs, rng, 0.5).reshape(-1, 2)
    assert np.corrcoef(drawn.T)[0, 1] == pytest.approx(0.5, abs=0.02) and drawn.std() == pytest.approx(1, abs=0.02)
    a, b = worlds.latents(pairs, rng, (0.0, 0.8))
    assert np.corrcoef(a, b)[0, 1] == pytest.approx(0.5 * np.sqrt(0.2), abs=0.02)
    assert np.corrcoef(b.reshape(-1, 2).T)[0, 1] == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(
    ("make", "world"),
    [
        *((comparisons.sharpness, world) for world in comparisons.SHARP),
        (comparisons.rankings, comparisons.EQUAL_RANKINGS[1]),
        (comparisons.alike, comparisons.UNEQUAL_VARIANCE),
    ],
)
def test_true_differences_are_those_of_many_answers(make, world):
    layout = str(MANY // 10) if world == comparisons.UNEQUAL_VARIANCE else "single"
    a, b, truth = make(world, MANY, layout, np.random.default_rng(4))
    if "auroc" in truth:
        aurocs = [roc_auc_score(1 - of.columns["correct"], of.columns["uncertainty"]) for of in (a, b)]
        assert aurocs[1] - aurocs[0] == pytest.approx(truth["auroc"], abs=0.01)
    else:
        gaps = [(of.columns["confidence"] - of.columns["correct"]).mean() for of in (a, b)]
        assert gaps == pytest.approx([comparisons.SHARP[world][2]] * 2, abs=0.01)


def test_equal_rejection_ratios():
    one = worlds.of_ranking(comparisons.BETTER, worlds.distance(worlds.AUROC))
    other = worlds.of_ranking(comparisons.WORSE, comparisons.equal_rejection())
    assert one["prediction_rejection_ratio"] == pytest.approx(other["prediction_rejection_ratio"], abs=1e-4)


def test_coefficients_of_agreement_are_those_of_many_ratings():
    first, second = np.divmod(np.random.default_rng(5).choice(9, 50_000, p=single_values.joint(0.9).ravel()), 3)
    truth = single_values.agreement(0.9)
    assert truth["kappa"] == pytest.approx(cohen_kappa_score(first, second), abs=0.02)
    assert truth["tau_b"] == pytest.approx(kendalltau(first, second).statistic, abs=0.02)
    counts = np.eye(3)[first] + np.eye(3)[second]
    assert truth["alpha"] == pytest.approx(fleiss_kappa(counts), abs=0.02), "alike with endless items"


@pytest.mark.parametrize("sizes", guarantees.SIZES.values())
def test_the_true_risk_is_that_of_many_questions(sizes):
    rng = np.random.default_rng(6)
    group = worlds.sized_groups(sizes, 100_000, rng)
    assert worlds.sizes_of(sizes)[1].sum() == pytest.approx(1)
    confidence = rng.random(len(group))
    failed = rng.random(len(group)) < guarantees.wrong(confidence, np.bincount(group)[group])
    answered = confidence >= 0.6
    assert guarantees.true_risk(0.6, sizes, True) == pytest.approx(failed[answered].mean(), abs=0.02)
    assert guarantees.true_risk(0.6, sizes, False) == pytest.approx((failed & answered).mean(), abs=0.01)


def test_recalibrated_metrics_of_answers_whose_chance_is_known():
    chance = norm.cdf(np.linspace(-2, 2, 5001))
    assert recalibrations.metrics_of(chance, chance) == pytest.approx({"brier": (chance * (1 - chance)).mean(), "ece": 0.0})
    off = recalibrations.metrics_of(chance, np.clip(chance + 0.02, 0, 1))
    assert off["ece"] == pytest.approx(0.02) and off["brier"] == pytest.approx((chance * (1 - chance)).mean() + 0.02**2)
