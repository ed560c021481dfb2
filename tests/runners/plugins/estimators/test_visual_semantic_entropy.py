import numpy as np
import pytest
from scipy.special import softmax

from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns, signals
from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.plugins.estimators.visual_semantic_entropy import visual_semantic_entropy
from qualm.runners.runtime.settings import Settings

CONTEXT = EstimatorContext(Settings(progress=False))
LINKAGES = {"average": np.mean, "complete": np.max, "single": np.min}


class Nli:
    """Fixed random logits for each pair; equal texts entail each other."""

    def __init__(self, seed):
        self.rng, self.known = np.random.default_rng(seed), {}

    def logits(self, pairs):
        for pair in pairs:
            self.known.setdefault(pair, np.array([50.0, 0.0, -50.0]) if pair[0] == pair[1] else self.rng.normal(scale=2, size=3))
        return np.array([self.known[pair] for pair in pairs]).reshape(-1, 3)

    def distance(self, a, b):
        """One minus the mean probability of entailment in both directions."""
        return 0.0 if a == b else 1 - (softmax(self.known[a, b])[0] + softmax(self.known[b, a])[0]) / 2


class Context:
    def __init__(self, seed):
        self.model = Nli(seed)

    def nli(self, chosen, reads="contradiction"):
        return self.model


def by_definition(answers, distance, linkage, cut):
    """Equations 7 and 8, with clusters joined two at a time while the nearest two are nearer than `cut`."""
    clusters = [[i] for i in range(len(answers))]

    def d(i, j):
        return distance(answers[i], answers[j])

    while len(clusters) > 1:
        pairs = [(a, b) for n, a in enumerate(clusters) for b in clusters[n + 1 :]]
        far, a, b = min(((linkage([d(i, j) for i in a for j in b]), a, b) for a, b in pairs), key=lambda one: one[0])
        if far >= cut:
            break
        clusters = [c for c in clusters if c not in (a, b)] + [sorted(a + b)]
    prototypes = [min(own, key=lambda i, own=own: sum(d(i, j) for j in own)) for own in clusters]
    total = 0.0
    for own, p in zip(clusters, prototypes, strict=True):
        for other, q in zip(clusters, prototypes, strict=True):
            total += len(own) / len(answers) * len(other) / len(answers) * d(p, q)
    return total, len(clusters)


def test_worked_example():
    """Two meanings at distance 1, with weights 3/4 and 1/4: 2 * 3/16."""
    assert visual_semantic_entropy(CONTEXT, [["red", "red", "red", "blue"]])[0] == pytest.approx(0.375)


@pytest.mark.parametrize("method", LINKAGES)
@pytest.mark.parametrize("cut", [0.4, 0.5, 0.6])
def test_against_the_definition(method, cut):
    rng = np.random.default_rng(3)
    context, words = Context(4), list("abcdefghijkl")
    rows = [[str(w) for w in rng.choice(words, rng.integers(1, 8))] for _ in range(12)]
    values = visual_semantic_entropy(context, rows, method=method, cut=cut)
    expected = [by_definition(row, context.model.distance, LINKAGES[method], cut) for row in rows]
    np.testing.assert_allclose(values, [value for value, _ in expected], atol=1e-12)
    assert len({number for _, number in expected}) > 2


def test_wording_within_a_meaning_adds_nothing():
    """Answers that entail each other both ways are one meaning; one that entails another one way only is at distance 1/2, not joined."""
    assert visual_semantic_entropy(CONTEXT, [["red", "Red.", "the red"]])[0] == 0
    assert visual_semantic_entropy(CONTEXT, [["red", "dark red"]])[0] == pytest.approx(2 * 0.25 * 0.5)
    shared = visual_semantic_entropy(CONTEXT, [["a b c", "a b d", "e"]], similarity="jaccard", cut=0.6)[0]
    assert shared == pytest.approx(2 * (2 / 3) * (1 / 3) * 1.0)


def test_edges():
    values = visual_semantic_entropy(CONTEXT, [[], ["red"], ["", ""], ["", "red"]])
    np.testing.assert_allclose(values, [np.nan, 0.0, 0.0, 0.5])


def test_it_reads_the_variants_that_are_named():
    plugin = registry.get("estimators", "visual_semantic_entropy")
    assert columns(plugin, {}) == {"perturbed_texts": "draw_texts_under_all"}
    read = columns(plugin, {"under": "gaussian_noise"})
    assert read == {"perturbed_texts": "draw_texts_under_gaussian_noise"} and signals(read.values()) == {"draws", "text"}
