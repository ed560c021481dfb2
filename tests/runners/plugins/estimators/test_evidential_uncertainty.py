from itertools import combinations

import numpy as np
import pytest
import torch

from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns, signals
from qualm.runners.inference.hf.evidence import conflict_and_ignorance
from qualm.runners.plugins.estimators.evidential_uncertainty import evidential_uncertainty


def test_worked_example():
    """V = 2, K = 3, z = (2, -1): a = 1 and b = 1/2."""
    conflict, ignorance = conflict_and_ignorance(torch.tensor([[2.0, -1.0]]).double(), 3)
    assert evidential_uncertainty([conflict.numpy()])[0] == pytest.approx(0.296589, abs=1e-6)
    assert evidential_uncertainty([ignorance.numpy()])[0] == pytest.approx(0.447552, abs=1e-6)


@pytest.mark.parametrize(("support", "against", "hypotheses"), [(1.0, 0.5, 3), (0.2, 2.0, 4), (3.0, 0.01, 2)])
def test_conflict_is_what_dempsters_rule_discards(support, against, hypotheses):
    """Every set of hypotheses written out: combined simple mass functions for each hypothesis, then for each complement, normalised."""
    sets = [frozenset(s) for n in range(hypotheses + 1) for s in combinations(range(hypotheses), n)]
    everything = frozenset(range(hypotheses))

    def combined(focal, weight):
        """The combination of mass functions with 1 - exp(-weight) on one set of these and the rest on everything, normalised."""
        mass = dict.fromkeys(sets, 0.0) | {everything: 1.0}
        for own in focal:
            parts = {own: 1 - np.exp(-weight), everything: np.exp(-weight)}
            grown = dict.fromkeys(sets, 0.0)
            for a, m in mass.items():
                for b, n in parts.items():
                    grown[a & b] += m * n
            mass = grown
        lost = mass.pop(frozenset())
        return {a: m / (1 - lost) for a, m in mass.items()}

    plus = combined([frozenset([k]) for k in range(hypotheses)], support)
    minus = combined([everything - {k} for k in range(hypotheses)], against)
    lost = sum(m * n for a, m in plus.items() for b, n in minus.items() if not a & b)
    logits = torch.tensor([[2 * support, -2 * against]], dtype=torch.float64)
    assert float(conflict_and_ignorance(logits, hypotheses)[0]) == pytest.approx(lost, abs=1e-12)


def test_it_is_the_mean_over_tokens():
    assert evidential_uncertainty([np.array([0.2, 0.4])])[0] == pytest.approx(0.3)
    plugin = registry.get("estimators", "evidential_uncertainty")
    for measure in ("conflict", "ignorance"):
        (column,) = columns(plugin, {"measure": measure}).values()
        assert column == f"evidence/{measure}" and signals([column]) == {column}
