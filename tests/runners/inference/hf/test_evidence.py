"""Evidence in the output head, of every family: from mixed padded batches, against evidence theory spelt out over all hypotheses."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from qualm.runners.contracts.models import ModelError
from qualm.runners.inference.hf.evidence import conflict_and_ignorance
from tests.runners.inference.hf.test_one_pass import answers, requests
from tests.support.models.each_family import EACH_FAMILY
from tests.support.models.plain_vlm import Plain

WANTED = ("evidence/conflict", "evidence/ignorance")


@pytest.fixture(scope="module", params=EACH_FAMILY)
def model(request, family_model):
    torch.set_num_threads(1)
    return family_model(request.param)


def masses(weights, state):
    """Conflict and ignorance with a weight of evidence for each pair of a row of weights and a hypothesis, as the authors' code has them.

    Rows of the head's matrix are taken for features, and its columns for hypotheses; each row is centred, and gives all columns the same.
    """
    rows, hypotheses = weights.shape
    evidence = np.repeat((weights - weights.mean(axis=1, keepdims=True)) @ state[:, None] / rows, hypotheses, axis=1)
    support, against = np.maximum(evidence, 0).sum(axis=0), np.maximum(-evidence, 0).sum(axis=0)
    plus = 1 / (np.exp(support).sum() - hypotheses + 1)
    minus = 1 / (1 - np.prod(1 - np.exp(-against)))
    kappa = (plus * (np.exp(support) - 1) * (1 - minus * np.exp(-against))).sum()
    return kappa, np.exp(-against).sum() / (1 - kappa) * plus * minus


def inputs(head, call):
    """What a module is given last during a call."""
    given = []
    handle = head.register_forward_pre_hook(lambda _, args: given.append(args[0]))
    try:
        call()
    finally:
        handle.remove()
    return given[-1]


def test_against_all_pairs_of_evidence(model):
    plain, head = Plain(model), model.module.get_output_embeddings()
    assert getattr(head, "bias", None) is None
    for request, parts in zip(requests(model, ("answer", *WANTED)), answers(model, requests(model, ("answer", *WANTED))), strict=True):
        tokens = parts["answer"].tokens
        read = inputs(head, lambda request=request, tokens=tokens: plain.read(request.prompt, request.image, tokens[:-1]))
        states = read[0, -len(tokens) :].double().numpy()
        expected = np.array([masses(head.weight.detach().double().numpy(), own) for own in states])
        for name, own in zip(WANTED, expected.T, strict=True):
            np.testing.assert_allclose(parts[name].numbers, own, rtol=1e-3)
        assert (expected > 0).all() and (expected[:, 0] < 1).all()


def test_known_answers_and_each_alone_have_the_same(model):
    asked = requests(model, ("answer", *WANTED))
    for request, before in zip(asked, answers(model, asked), strict=True):
        (alone,) = answers(model, [replace(request, parts=WANTED, greedy=before["answer"])])
        for name in WANTED:
            assert alone[name].numbers == pytest.approx(before[name].numbers, rel=1e-3)


def test_a_head_without_weights_is_named(model, monkeypatch):
    monkeypatch.setattr(model.module, "get_output_embeddings", lambda: None)
    with pytest.raises(ModelError, match=r"the output head of \w+ is no layer of floating-point weights; leave out the estimators"):
        answers(model, requests(model, ("answer", *WANTED)))


def test_conflict_and_ignorance():
    """By hand: z = (2, -1) of three hypotheses; no evidence; and evidence that no double holds, whose conflict nears 1 - 1/K."""
    conflict, ignorance = conflict_and_ignorance(torch.tensor([[2.0, -1.0], [0.0, 0.0], [4000.0, -4000.0], [-3.0, -1.0]]).double(), 3)
    np.testing.assert_allclose(conflict, [0.2965891, 0.0, 2 / 3, 0.0], atol=1e-7)
    np.testing.assert_allclose(ignorance, [0.4475519, 3.0, 0.0, 1.148409], atol=1e-6)
