"""Gradients by hidden states of prompts, of every family: from mixed padded batches, against autograd through one whole forward pass."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from qualm.runners.contracts.models import ModelError
from tests.runners.inference.hf.test_one_pass import answers, requests
from tests.support.models.each_family import EACH_FAMILY
from tests.support.models.plain_vlm import Plain

WANTED = {"gradient/1:1/-1": ([1], 1), "gradient/all/-1": (None, 1), "gradient/1:-2/-3": ([1], 3)}
"""Part -> layers (None: all), and the prompt's token from its end; each family has two layers or more."""


@pytest.fixture(scope="module", params=EACH_FAMILY)
def model(request, family_model):
    torch.set_num_threads(1)
    return family_model(request.param)


def by_autograd(model, request, tokens, layers, back):
    """Equation 4 of the paper: one forward pass over image, prompt and answer, differentiated by the states that it returns."""
    plain = Plain(model)
    with torch.enable_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "no_grad", torch.enable_grad)
        out = plain.read(request.prompt, request.image, tokens[:-1], output_hidden_states=True)
        logprobs = out.logits[0, -len(tokens) :].double().log_softmax(-1)
        weights = torch.special.entr(logprobs.detach().exp()).sum(-1)
        total = (weights * logprobs[torch.arange(len(tokens)), torch.tensor(tokens)]).sum()
        states = [out.hidden_states[layer] for layer in layers]
        gradients = torch.autograd.grad(total, states)
    at = -len(tokens) - back + 1
    return float(np.mean([own[0, at].double().abs().mean() for own in gradients]))


def test_against_autograd_through_the_whole_pass(model):
    asked = requests(model, ("answer", *WANTED))
    if model.label == "paligemma":
        with pytest.raises(ModelError, match="reads its prompts in both directions"):
            answers(model, asked)
        return
    count = model.module.config.get_text_config().num_hidden_layers
    compared = 0
    for request, parts in zip(asked, answers(model, asked), strict=True):
        for name, (layers, back) in WANTED.items():
            own = list(range(1, count + 1)) if layers is None else list(range(1, count)) if name.startswith("gradient/1:-2") else layers
            (value,) = parts[name].numbers
            expected = by_autograd(model, request, parts["answer"].tokens, own, back)
            assert value == pytest.approx(expected, rel=2e-4, abs=1e-9), name
            compared += expected > 1e-6
    assert compared > len(asked)


def test_known_answers_and_each_alone_have_the_same_and_nothing_else_moves(model):
    if model.label == "paligemma":
        pytest.skip("it has none")
    asked = requests(model, ("answer", "draw 1", *WANTED))
    made = answers(model, asked)
    bare = answers(model, [replace(request, parts=("answer", "draw 1")) for request in asked])
    assert [(p["answer"], p["draw 1"]) for p in bare] == [(p["answer"], p["draw 1"]) for p in made]
    for request, before in zip(asked, made, strict=True):
        (alone,) = answers(model, [replace(request, parts=tuple(WANTED), greedy=before["answer"])])
        for name in WANTED:
            assert alone[name].numbers == pytest.approx(before[name].numbers, rel=2e-4, abs=1e-9)
    assert not any(weights.grad is not None for weights in model.module.parameters())


def test_where_there_is_none(model):
    """Before the prompt, and where the image would have to be read anew."""
    if model.label == "paligemma":
        pytest.skip("it has none")
    asked = requests(model, ("answer", "gradient/all/-999"))
    if model.picture_token is not None:
        assert all(parts["gradient/all/-999"].numbers is None for parts in answers(model, asked))
    with pytest.raises(ModelError, match=r"gradient of layers 9:12: it has \d layers, 1 to \d, and none of these"):
        answers(model, [replace(asked[0], parts=("answer", "gradient/9:12/-1"))])
