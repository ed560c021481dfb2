"""SAPLMA's network."""

import numpy as np

from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns
from qualm.runners.plugins.probes.saplma import saplma
from qualm.runners.training.probe import train_probe


def test_three_hidden_layers_on_the_answer() -> None:
    parameters = {"layer": "middle", "place": "answer_mean", "epochs": 5, "rate": 1e-3}
    assert columns(registry.get("probes", "saplma"), parameters) == {"states": "hidden_states/0.5/answer_mean"}
    rng = np.random.default_rng(0)
    design = saplma(list(rng.normal(size=(40, 3))), epochs=1)
    weights = train_probe(design, rng.integers(0, 2, 40).astype(float), 0).weights()
    shapes = [tuple(value.shape) for name, value in weights.items() if name.endswith("weight")]
    assert shapes == [(256, 3), (128, 256), (64, 128), (1, 64)]


def test_it_learns_what_answers_of_a_direction_are_wrong() -> None:
    rng = np.random.default_rng(1)
    states = rng.normal(size=(400, 8))
    wrong = (states[:, 0] + 0.1 * rng.normal(size=400) > 0).astype(float)
    probe = train_probe(saplma(list(states[:300])), wrong[:300], 0)
    values = probe.probability(saplma(list(states[300:])).features)
    assert values[wrong[300:] == 1].mean() > 0.8 > 0.2 > values[wrong[300:] == 0].mean()
