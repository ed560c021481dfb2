"""What every nonconformity score keeps, whoever wrote it."""

from typing import get_args

import numpy as np
import pytest

from qualm.registry.plugins import registry

SORTED = "aps-ties=sorted"
"""Equal options get different scores there, which one gets which being arbitrary."""


def scores():
    """Every score, with its defaults and each other value of its choices and flags, as (probs, uniform) -> (n, K)."""
    for name in registry.names("conformal"):
        plugin, function = registry.get("conformal", name), registry.load("conformal", name)
        variants = [(name, {})]
        for p in plugin.parameters:
            values = get_args(p.annotation) if "Literal" in p.text else [not p.default] if p.annotation is bool else []
            variants += [(f"{name}-{p.name}={value}", {p.name: value}) for value in values if value != p.default]
        for label, args in variants:
            if "uniform" in plugin.reads:
                yield label, lambda probs, uniform, function=function, args=args: function(probs, uniform, **args)
            else:
                yield label, lambda probs, uniform, function=function, args=args: function(probs, **args)


SCORES = dict(scores())
PROBS = np.random.default_rng(0).dirichlet(np.ones(5), size=30)
PROBS[::3, 3:] = np.nan
PROBS[1::6] = [0.3, 0.2, 0.2, 0.2, 0.1]
PROBS /= np.nansum(PROBS, axis=1, keepdims=True)
UNIFORM = np.random.default_rng(1).random(30)
for array in (PROBS, UNIFORM):
    array.flags.writeable = False  # a score that changes its input fails


@pytest.fixture(params=SCORES)
def label(request):
    return request.param


def test_a_row_depends_on_itself_alone(label):
    whole = SCORES[label](PROBS, UNIFORM)
    assert whole.shape == PROBS.shape
    np.testing.assert_allclose(np.concatenate([SCORES[label](PROBS[i : i + 1], UNIFORM[i : i + 1]) for i in range(30)]), whole)


def test_padding_is_nan_and_changes_nothing(label):
    whole = SCORES[label](PROBS, UNIFORM)
    np.testing.assert_array_equal(np.isnan(whole), np.isnan(PROBS))
    np.testing.assert_allclose(SCORES[label](PROBS[::3, :3], UNIFORM[::3]), whole[::3, :3])
    wide = np.c_[PROBS, np.full((30, 8), np.nan)]
    np.testing.assert_allclose(SCORES[label](wide, UNIFORM)[:, :5], whole, rtol=0 if label == SORTED else 1e-15)
    assert np.isfinite(SCORES[label](np.ones((1, 1)), UNIFORM[:1])).all()


def test_likelier_options_never_fit_worse_and_equal_ones_fit_alike_in_any_order(label):
    found = SCORES[label](PROBS, UNIFORM)
    likelier = PROBS[:, :, None] > PROBS[:, None, :]
    worse = found[:, :, None] > found[:, None, :] + 1e-12
    assert likelier.any() and not (likelier & worse).any()
    turned = SCORES[label](PROBS[:, ::-1], UNIFORM)[:, ::-1]
    if label == SORTED:
        found, turned = np.sort(found, axis=1), np.sort(turned, axis=1)
    else:
        assert np.ptp(found[1::6, 1:4], axis=1).max() < 1e-12
    np.testing.assert_allclose(turned, found, atol=1e-12)


def test_single_precision_gives_the_same_scores_up_to_its_rounding(label):
    found = SCORES[label](PROBS.astype(np.float32), UNIFORM)
    rows = np.arange(30) % 6 != 1 if label == SORTED else slice(None)
    np.testing.assert_allclose(found[rows], SCORES[label](PROBS, UNIFORM)[rows], atol=1e-6)


def test_split_sets_cover_what_is_asked_for_whatever_the_probabilities_are(label):
    """Of a model that is not sure enough; 400 questions calibrate for 0.9, on average over 20 draws of them."""
    rng = np.random.default_rng(1)
    logits = 2 * rng.normal(size=(6000, 5))
    truth = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    flat = np.exp(logits / 3)
    every = SCORES[label](flat / flat.sum(axis=1, keepdims=True), rng.random(6000))
    own, covered = every[np.arange(6000), truth], []
    for _ in range(20):
        order = rng.permutation(6000)
        threshold = np.sort(own[order[:400]])[int(np.ceil(401 * 0.9)) - 1]
        covered.append((own[order[400:]] <= threshold).mean())
    assert np.mean(covered) >= 0.89
    assert np.mean(covered) <= 0.91 or label == "top_k", "its scores are whole numbers, of which many are equal"
