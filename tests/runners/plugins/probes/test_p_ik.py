"""What P(IK) sees."""

import numpy as np

from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns
from qualm.runners.plugins.probes.p_ik import p_ik


def test_it_reads_the_prompt_alone_and_is_logistic_regression() -> None:
    plugin = registry.get("probes", "p_ik")
    assert columns(plugin, {"layer": "0.25", "decay": 1.0}) == {"states": "hidden_states/0.25/prompt_last"}
    assert plugin.declares["TARGET"] == "wrong"
    made = p_ik([np.array([1.0, 2.0]), np.array([3.0, 5.0])], decay=2.0)
    assert made.features.tolist() == [[1, 2], [3, 5]] and made.hidden == () and made.decay == 2
