"""BICR's features, and what its ranking does to a network."""

import numpy as np
import pytest

from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns
from qualm.runners.plugins.probes.bicr import bicr
from qualm.runners.training.probe import train_probe

N = 200


def test_it_reads_what_p_ik_reads() -> None:
    reads = {"states": "hidden_states/-1/prompt_last"}
    assert columns(registry.get("probes", "bicr"), {"layer": "last"}) == reads


@pytest.mark.slow
def test_of_two_signs_of_a_right_answer_it_takes_the_one_that_a_black_picture_takes_away() -> None:
    """The first number, of the picture, and the second, of the question, tell the same; a black picture leaves the second alone."""
    rng = np.random.default_rng(0)
    wrong = rng.integers(0, 2, N).astype(float)
    seen, words = (wrong[:, None] * 2 - 1 + rng.normal(size=(N, 2)) / 2).T
    states, black = np.column_stack([seen, words]), np.column_stack([np.zeros(N), words])
    surer = {}
    for weight in (0.0, 5.0):
        probe = train_probe(bicr(list(states), weight=weight, margin=0.5, units=16, epochs=40), wrong, 0, black)
        surer[weight] = (probe.probability(black) - probe.probability(states))[wrong == 0].mean()
        assert ((probe.probability(states) > 0.5) == wrong).mean() > 0.9
    assert 0 < surer[0.0] < surer[5.0] / 2


def test_without_black_pictures_of_some_answers_these_count_for_the_rest_alone() -> None:
    rng = np.random.default_rng(1)
    states, wrong = rng.normal(size=(40, 3)), rng.integers(0, 2, 40).astype(float)
    nothing = np.full((40, 3), np.nan)
    design = bicr(list(states), weight=3.0, units=8, epochs=3)
    plain = train_probe(bicr(list(states), weight=0.0, units=8, epochs=3), wrong, 0)
    assert train_probe(design, wrong, 0, nothing).probability(states) == pytest.approx(plain.probability(states), abs=1e-12)
