"""HALP's network."""

import numpy as np

from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns
from qualm.runners.plugins.probes.halp import halp
from qualm.runners.training.probe import train_probe


def test_three_hidden_layers_on_the_last_query_token() -> None:
    assert columns(registry.get("probes", "halp"), {"layer": "last", "epochs": 1, "rate": 1e-3}) == {
        "states": "hidden_states/-1/prompt_last"
    }
    rng = np.random.default_rng(0)
    made = halp(list(rng.normal(size=(40, 3))), epochs=1)
    weights = train_probe(made, rng.integers(0, 2, 40).astype(float), 0).weights()
    shapes = [tuple(value.shape) for name, value in weights.items() if name.endswith("weight")]
    assert shapes == [(512, 3), (256, 512), (128, 256), (1, 128)]
