"""What the semantic entropy probe sees and learns."""

import numpy as np

from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns
from qualm.runners.plugins.probes.semantic_entropy_probe import semantic_entropy_probe


def test_it_reads_the_place_that_is_named_and_learns_the_estimator_that_is() -> None:
    plugin = registry.get("probes", "semantic_entropy_probe")
    args = {"of": "semantic_entropy", "layer": "middle", "place": "prompt_last", "decay": 1.0}
    assert columns(plugin, args) == {"states": "hidden_states/0.5/prompt_last"}
    assert columns(plugin, args | {"place": "answer_last"}) == {"states": "hidden_states/0.5/answer_last"}
    assert plugin.declares["TARGET"] == {"high": "of"}
    assert semantic_entropy_probe([np.array([1.0])]).features.tolist() == [[1]]
