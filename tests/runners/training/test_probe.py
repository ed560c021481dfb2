"""Probes against scikit-learn; the same whatever the threads."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from qualm.runners.contracts.probes import ProbeDesign
from qualm.runners.plugins.metrics.ece import ece
from qualm.runners.training.probe import ProbeTrainer, best_split, fit_probe, train_probe, validate_probe
from qualm.runners.training.probe_data import TrainingData, probe_task


def data(n: int = 120, d: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(n, d)) * np.arange(1, d + 1) + 5
    return features, (features[:, 0] - features[:, 3] / 4 + rng.normal(size=n) > 3.8).astype(float)


@pytest.mark.parametrize("decay", [0.1, 1.0, 30.0])
def test_logistic_regression_is_scikit_learns(decay: float) -> None:
    features, target = data()
    ours = train_probe(ProbeDesign(features, decay=decay), target, 0)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    theirs = LogisticRegression(C=1 / decay, tol=1e-12, max_iter=10_000).fit(scaled, target)
    assert ours.probability(features) == pytest.approx(theirs.predict_proba(scaled)[:, 1], abs=1e-6)
    weights = ours.weights()
    assert weights["0.weight"].numpy() == pytest.approx(theirs.coef_, abs=1e-6)
    assert weights["mean"].numpy() == pytest.approx(features.mean(axis=0))


def test_shares_count_as_that_much_of_both_classes() -> None:
    features, target = data()
    soft = train_probe(ProbeDesign(features), 0.25 + target / 2, 0)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    both = LogisticRegression(C=1.0, tol=1e-12, max_iter=10_000).fit(
        np.concatenate([scaled, scaled]),
        np.repeat([1, 0], len(scaled)),
        sample_weight=np.concatenate([0.25 + target / 2, 0.75 - target / 2]),
    )
    assert soft.probability(features) == pytest.approx(both.predict_proba(scaled)[:, 1], abs=1e-6)


def test_a_constant_feature_is_no_obstacle_and_a_number_that_is_none_has_no_probability() -> None:
    features, target = data()
    features[:, 2] = 4.0
    probe = train_probe(ProbeDesign(features), target, 0)
    told = features[:3].copy()
    told[1, 0] = np.nan
    assert np.isfinite(probe.probability(told)).tolist() == [True, False, True]


def test_a_network_has_a_bend_between_layers_and_none_at_its_end() -> None:
    features, target = data()
    probe = train_probe(ProbeDesign(features, hidden=(5, 3), epochs=1), target, 0)
    weights = {name: value.numpy() for name, value in probe.weights().items()}
    values = (features - weights["mean"]) / weights["scale"]
    for layer in (0, 2, 4):
        values = values @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"]
        values = np.maximum(values, 0) if layer < 4 else values
    assert values.shape == (120, 1) and np.ptp(values) > 0
    assert probe.probability(features) == pytest.approx(1 / (1 + np.exp(-values[:, 0])))
    stated = train_probe(ProbeDesign(features, hidden=(5, 3), decay=1.0, epochs=1, rate=1e-3, batch=32), target, 0)
    assert np.array_equal(stated.probability(features), probe.probability(features)), "what goes without saying"


def test_training_says_and_writes_nothing_and_leaves_the_threads_as_they_were(tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    features, target = data()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    train_probe(ProbeDesign(features, hidden=(3,), epochs=1), target, 0)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)
    assert not list(tmp_path.iterdir()) and capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_network_learns_what_is_not_linear_and_is_the_same_on_any_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 2))
    target = (features[:, 0] * features[:, 1] > 0).astype(float)
    design = ProbeDesign(features, hidden=(32, 16), decay=0.01, epochs=150, rate=1e-2)
    before = torch.get_num_threads()
    probabilities = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        torch.manual_seed(threads)
        probabilities.append(train_probe(design, target, 5).probability(features))
    torch.set_num_threads(before)
    assert np.array_equal(*probabilities)
    assert ((probabilities[0] > 0.5) == target).mean() > 0.9
    assert not np.array_equal(train_probe(design, target, 6).probability(features), probabilities[0])
    linear = train_probe(ProbeDesign(features), target, 0).probability(features)
    assert ((linear > 0.5) == target).mean() < 0.7


def test_the_ranking_is_what_right_answers_miss_of_the_margin_by_hand() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(1, 1, dtype=torch.float64))
    torch.nn.init.ones_(network[0].weight)
    torch.nn.init.zeros_(network[0].bias)
    design = ProbeDesign(np.empty((0, 1)), hidden=(1,), margin=0.3, ranking=2.0)
    clean, black, wrong = (np.array(of) for of in ([-1.0, 0.5, 2.0, -2.0], [0.0, 0.7, 2.0, np.nan], [0.0, 0.0, 1.0, 0.0]))
    p, p0 = 1 / (1 + np.exp(-clean)), 1 / (1 + np.exp(-black))
    log_loss = -(wrong * np.log(p) + (1 - wrong) * np.log(1 - p)).mean()
    missed = np.mean([max(0, 0.3 - (p0[i] - p[i])) for i in (0, 1)])  # the third is wrong, the fourth has no black picture
    there = np.isfinite(black)
    batch = [clean[:, None], wrong, np.where(there, black, 0.0)[:, None], np.where(there, 1 - wrong, 0.0)]
    tensors = [torch.from_numpy(of) for of in batch]
    found = ProbeTrainer(network, design).training_step(tensors, 0)
    assert float(found.detach()) == pytest.approx(log_loss + 2.0 * missed)
    unranked = ProbeTrainer(network, ProbeDesign(design.features, hidden=(1,), margin=0.3)).training_step(tensors, 0)
    assert float(unranked.detach()) == pytest.approx(log_loss), "none is asked for by default"
    without_margin = ProbeTrainer(network, ProbeDesign(design.features, hidden=(1,), ranking=1.0)).training_step(tensors, 0)
    assert float(without_margin.detach()) == pytest.approx(log_loss), "both are already surer with their picture"


@pytest.mark.parametrize("hidden", [(), (6,)])
def test_a_fifth_of_the_groups_is_measured_by_a_probe_that_never_saw_them(hidden) -> None:
    rng = np.random.default_rng(2)
    features = rng.normal(size=(200, 3))
    target = (features[:, 0] + rng.normal(size=200) > 0.4).astype(float)
    groups = np.array([f"0/{i // 4}" for i in range(200)])
    design = ProbeDesign(features, hidden=hidden, epochs=2)
    found = validate_probe(design, target, groups, 3)
    names = np.random.default_rng(3).permutation(np.unique(groups))
    out = np.isin(groups, names[:10])
    probe = train_probe(ProbeDesign(features[~out], hidden=hidden, epochs=2), target[~out], 3)
    probability = probe.probability(features[out])
    assert found["auroc"] == pytest.approx(roc_auc_score(target[out], probability), abs=1e-6)
    assert found["accuracy"] == pytest.approx(((probability > 0.5) == target[out]).mean(), abs=1e-6)
    error = ece(probability, target[out], np.zeros(out.sum()), np.ones((1, out.sum())))[0]
    assert found["calibration_error"] == pytest.approx(error, abs=1e-5)
    assert out.sum() == 40, "whole groups"


def test_where_a_class_is_absent_nothing_is_measured() -> None:
    features, target = data()
    assert validate_probe(ProbeDesign(features), np.r_[np.ones(1), np.zeros(len(target) - 1)], np.arange(len(target)), 0) == {}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (5, None),
        (4, "4 of 12 answers are wrong; expected at least 5 of each class"),
        (7, None),
        (8, "8 of 12 answers are wrong; expected at least 5 of each class"),
    ],
)
def test_five_of_each_class_are_enough(wrong: int, why: str | None) -> None:
    features = np.random.default_rng(1).normal(size=(12, 2))
    data = TrainingData(ProbeDesign(features), np.repeat([1.0, 0.0], [wrong, 12 - wrong]), np.arange(12) // 2, None)
    args = {"layer": "middle", "decay": 1.0}
    facts, probe = fit_probe(probe_task({"label": "p_ik", "plugin": "p_ik", "args": args}), [data], 0)
    measured = [facts.pop(f"val_{name}") for name in ("accuracy", "calibration_error", "auroc")]
    assert facts == {"n": 12, "n_groups": 6, "share": wrong / 12, "threshold": None, "why": why}
    assert measured == [None] * 3 or (not why and all(0 <= value <= 1 for value in measured)), "the group held out may be of one kind"
    assert (probe is None) == (why is not None)


@pytest.mark.parametrize(("values", "threshold"), [([0, 0, 3], 0), ([1, 1], None), ([0.2, 0.1, 0.9, 1.0, 0.8], 0.2)])
def test_high_is_what_splits_best(values: list[float], threshold: float | None) -> None:
    assert best_split(np.array(values, dtype=float)) == threshold
    if threshold is not None:
        parts = [(np.array([v for v in values if v <= t]), np.array([v for v in values if v > t])) for t in sorted(set(values))[:-1]]
        errors = [sum(((part - part.mean()) ** 2).sum() for part in both) for both in parts]
        assert sorted(set(values))[int(np.argmin(errors))] == threshold
