from collections import Counter

import numpy as np
import pytest

from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns, signals
from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.plugins.estimators.vl_uncertainty import vl_uncertainty
from qualm.runners.runtime.settings import Settings

CONTEXT = EstimatorContext(Settings(progress=False))


def test_worked_example():
    assert vl_uncertainty(CONTEXT, [["red", "red", "red", "blue"]])[0] == pytest.approx(0.562335, abs=1e-6)


def test_against_the_papers_count():
    """One answer to each of five prompts, as the paper samples them; its code counts in bits."""
    rng = np.random.default_rng(5)
    rows = [[str(w) for w in rng.choice(["red", "blue", "no"], 5)] for _ in range(30)]
    bits = [-sum(n / 5 * np.log2(n / 5) for n in Counter(row).values()) for row in rows]
    np.testing.assert_allclose(vl_uncertainty(CONTEXT, rows), np.array(bits) * np.log(2), atol=1e-12)


def test_what_it_reads_is_under_the_perturbations_that_are_named():
    plugin = registry.get("estimators", "vl_uncertainty")
    assert columns(plugin, {}) == {"perturbed_texts": "draw_texts_under_all"}
    read = columns(plugin, {"under": "blur@radius=2"})
    assert read == {"perturbed_texts": "draw_texts_under_blur@radius=2"} and signals(read.values()) == {"draws", "text"}
