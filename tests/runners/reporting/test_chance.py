"""Levels of chance are the means over orders that know nothing, by the metrics themselves; what does not beat them is said."""

import numpy as np
import pytest

from qualm.registry.plugins import registry
from qualm.runners.reporting.chance import describe_chance_levels, none_beats_chance
from qualm.runners.scoring.measuring.metrics import chance_of, read_metrics

N = 1000
LEVELS = {
    "auroc": 0.5, "prediction_rejection_ratio": 0.0, "auarc": 0.7, "selective_accuracy": 0.7, "aurc": 0.3, "augrc": 0.15,
    "average_precision": 0.3, "fpr_at_tpr": 0.95, "auroc_uncertain": 0.5, "answerability_average_precision": 0.3,
    "auroc_perturbed": 0.5,
}  # fmt: skip


@pytest.mark.parametrize("name", LEVELS)
def test_a_random_order_reaches_it_on_average(name):
    rng, plugin = np.random.default_rng(3), registry.get("metrics", name)
    args = {p.name: p.default for p in plugin.parameters}
    (metric,) = read_metrics([{"label": name, "plugin": name, "args": args}])
    right = (np.arange(N) < 0.7 * N) * 1.0
    columns = {"correct": right, "answerable": right, "uncertain": 1 - right}
    drawn = [{**columns, "uncertainty": rng.random(N), "clean_uncertainty": rng.random(N)} for _ in range(100)]
    values = [metric.function(*(of[c] for c in metric.reads), np.ones((1, N)), **args)[0] for of in drawn]
    assert chance_of(metric, columns.get) == pytest.approx(LEVELS[name])
    assert np.mean(values) == pytest.approx(LEVELS[name], abs=4 * np.std(values) / 10 + 0.01)


def test_every_metric_of_the_order_of_one_estimator_has_a_level_or_is_known_to_have_none():
    reading = [registry.get("metrics", name) for name in registry.names("metrics")]
    of_estimators = {p.name for p in reading if {"uncertainty", "doubt"} & set(p.reads) and p.declares["higher_is_better"] is not None}
    assert of_estimators - LEVELS.keys() == {"best_f1", "e_aurc", "uncertainty_reflection_rate"}, "no closed form, or ties"


ROW = {"metric": "auroc", "value": 0.28, "low": 0.22, "high": 0.34, "chance": 0.5}
LOWER = {"metric": "aurc", "chance": 0.3}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (ROW, "the ranking is inverted"),
        (LOWER | {"value": 0.5, "low": 0.4, "high": 0.6}, "the ranking is inverted"),
        (LOWER | {"value": 0.1, "low": 0.05, "high": 0.2}, ""),
        (LOWER | {"value": 0.2, "low": 0.1, "high": 0.35}, "the best is not significantly better than chance (0.300)"),
        (ROW | {"value": 0.49, "high": 0.6}, "none beats chance (0.500)"),
        (ROW | {"low": None, "high": None}, "none beats chance (0.500)"),
        (ROW | {"value": 0.6, "low": None, "high": None}, ""),
        (ROW | {"chance": None}, ""),
        (ROW | {"metric": "not_here"}, ""),
    ],
)
def test_what_is_said_of_a_best_that_is_not_better_than_chance(row, said):
    found = none_beats_chance(row)
    assert (said in found) if said else found == ""
    assert ("inverted" in found) == ("inverted" in said)


def test_levels_in_words():
    assert describe_chance_levels([{"metric": "set_size", "chance": None}]) == "" == describe_chance_levels([])
    said = describe_chance_levels([{"metric": "aurc[luq]", "chance": 0.25}, {"metric": "aurc[p_true]", "chance": 0.25}])
    assert said == "chance level: aurc 0.250"
