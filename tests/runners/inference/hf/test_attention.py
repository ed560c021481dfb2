"""Where answers look, of every family: from mixed padded batches, against transformers' own eager attention of one prompt at a time."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from qualm.registry.plugins.internals import layer_range
from qualm.runners.contracts.models import ModelError
from qualm.runners.inference.hf.attention import attention_weights, most_attended, share_and_entropy
from tests.runners.inference.hf.test_one_pass import answers, requests
from tests.support.models.each_family import EACH_FAMILY
from tests.support.models.loaded import loaded_model
from tests.support.models.plain_vlm import Plain
from tests.support.models.tiny_models import TEMPLATES

PREVIOUS, SHARE, ENTROPY = (f"attention/all/{what}" for what in ("previous", "image_share", "image_entropy"))
INFORMATION = ("image_information/all/0.5", "image_information/all/1.0")
HALF = 2.0**-10
"""Of float16, relative: what is stored may be one off."""


@pytest.fixture(scope="module", params=EACH_FAMILY)
def model(request, family_model):
    torch.set_num_threads(1)
    return family_model(request.param)


@pytest.fixture(scope="module")
def eager(model, family_folder):
    """Return the same model, whose attention returns its weights."""
    made = loaded_model(family_folder(model.label), model.label, template=TEMPLATES.get(model.label))
    made.module.set_attn_implementation("eager")
    return Plain(made)


@pytest.fixture(scope="module")
def told(model):
    wanted = ("answer", "draw 1", PREVIOUS, "attention/-1:-1/previous", *((SHARE, ENTROPY) if model.picture_token is not None else ()))
    asked = requests(model, wanted)
    return asked, answers(model, asked)


def looks(eager, request, tokens):
    """Weights (layers, heads, positions, positions) of a prompt and the tokens that follow it."""
    return torch.stack(eager.read(request.prompt, request.image, tokens, output_attentions=True).attentions)[:, 0].double().numpy()


def test_what_each_token_gives_to_the_one_before(eager, told):
    for request, parts in zip(*told, strict=True):
        tokens = parts["answer"].tokens
        own = looks(eager, request, tokens[:-1])  # (layers, heads, positions, positions)
        diagonal = own.diagonal(axis1=2, axis2=3)[:, :, own.shape[2] - len(tokens) + 1 :]  # of the tokens read while the others are told
        expected = [layer[layer.mean(axis=1).argmax()] for layer in diagonal]
        for name, wanted in ((PREVIOUS, np.concatenate(expected)), ("attention/-1:-1/previous", expected[-1])):
            if len(tokens) < 2:
                assert parts[name].states is None
                continue
            assert parts[name].states.dtype == np.float16
            np.testing.assert_allclose(parts[name].states.astype(float), wanted, atol=HALF)


def test_how_much_the_picture_is_looked_at_and_how_widely(model, eager, told):
    if model.picture_token is None:
        with pytest.raises(ModelError, match="does not say which tokens are an image's"):
            answers(model, requests(model, ("answer", SHARE)))
        return
    for request, parts in zip(*told, strict=True):
        tokens = parts["answer"].tokens
        own = looks(eager, request, tokens[:-1])[:, :, -len(tokens) :].mean(axis=(0, 1))
        picture = (eager.inputs(request.prompt, request.image)["input_ids"][0] == model.picture_token).numpy()
        seen = own[:, : len(picture)][:, picture]
        np.testing.assert_allclose(parts[SHARE].states.astype(float), seen.sum(1), atol=HALF)
        shares = seen / seen.sum(1, keepdims=True)
        np.testing.assert_allclose(parts[ENTROPY].states.astype(float), -(shares * np.log(shares)).sum(1), rtol=2 * HALF)


def test_known_answers_look_the_same_and_so_does_each_alone(model, told):
    asked, made = told
    names = [name for name in made[0] if name.startswith("attention")]
    later = [replace(r, parts=tuple(names), greedy=p["answer"]) for r, p in zip(asked, made, strict=True)]
    for parts, before, request in zip(answers(model, later), made, later, strict=True):
        assert set(parts) == set(names)
        (alone,) = answers(model, [request])
        for name in names:
            for again in (parts, alone):
                if before[name].states is None:
                    assert again[name].states is None
                else:
                    np.testing.assert_allclose(
                        again[name].states.astype(float), before[name].states.astype(float), rtol=4 * HALF, atol=HALF
                    )


def test_nothing_else_moves(model, told):
    asked, made = told
    bare = answers(model, [replace(request, parts=("answer", "draw 1")) for request in asked])
    assert [(p["answer"], p["draw 1"]) for p in bare] == [(p["answer"], p["draw 1"]) for p in made]


def test_the_core_of_a_picture_hidden_from_what_follows_it(model, eager):
    if model.picture_token is None:
        return
    asked = requests(model, ("answer", *INFORMATION))
    if model.label == "paligemma":
        with pytest.raises(ModelError, match="can only be read as a whole"):
            answers(model, asked)
        return
    for request, parts in zip(asked, answers(model, asked), strict=True):
        tokens = parts["answer"].tokens
        inputs = eager.inputs(request.prompt, request.image)
        picture = (inputs["input_ids"][0] == model.picture_token).nonzero().flatten()
        look = looks(eager, request, tokens[:-1])[:, :, -len(tokens) :].mean(axis=(0, 1))[:, picture].sum(0)
        for name, share in zip(INFORMATION, (0.5, 1.0), strict=True):
            hidden = picture[np.argsort(-look)[: max(1, int(len(picture) * share))]]
            expected = masked_entropies(model, eager, request, tokens, hidden) - np.array(parts["answer"].entropies)
            np.testing.assert_allclose(parts[name].states.astype(float), expected, rtol=2 * HALF, atol=2e-4)
            assert np.abs(expected).max() > 1e-3


def masked_entropies(model, plain, request, tokens, hidden):
    """Of one prompt, whose tokens behind the picture do not see the hidden ones; by a hook on each layer's mask."""
    ids = plain.inputs(request.prompt, request.image)["input_ids"][0]
    last = int((ids == model.picture_token).nonzero().max())

    def blind(module, args, kwargs):
        mask = kwargs["attention_mask"]
        if mask is None:
            size = kwargs["hidden_states"].shape[1] if "hidden_states" in kwargs else args[0].shape[1]
            mask = torch.full((size, size), torch.finfo(torch.float32).min).triu(1)[None, None]
        mask = mask.clone()
        mask[:, :, last + 1 :, hidden] = False if mask.dtype == torch.bool else torch.finfo(mask.dtype).min
        return args, {**kwargs, "attention_mask": mask}

    inner = plain.module.get_decoder()
    inner = inner if hasattr(inner, "layers") else inner.model
    handles = [layer.self_attn.register_forward_pre_hook(blind, with_kwargs=True) for layer in inner.layers]
    try:
        logits = plain.logits(request.prompt, request.image, tokens[:-1])
    finally:
        for handle in handles:
            handle.remove()
    spread = torch.log_softmax(logits, dim=-1)
    return torch.special.entr(spread.exp()).sum(-1).numpy()


def test_text_alone_has_no_picture_to_look_at(model):
    if model.label == "paligemma" or model.picture_token is None:
        pytest.skip("it is not asked without a picture, or its pictures are not known")
    for parts in answers(model, requests(model, ("answer", PREVIOUS, SHARE, INFORMATION[0]), image=False)):
        assert parts[SHARE].states is None and parts[INFORMATION[0]].states is None
        assert (parts[PREVIOUS].states is None) == (len(parts["answer"].tokens) < 2)


def test_layers_that_there_are_not(model):
    with pytest.raises(ModelError, match=r"attention of layers 30:40: it has \d layers, 1 to \d, and none of these"):
        answers(model, requests(model, ("answer", "attention/30:40/previous")))
    assert layer_range("30:40", 2) == []


def test_weights_by_hand():
    query = torch.tensor([[[[1.0, 0.0], [0.0, 2.0]]]])
    key = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]])
    seen = attention_weights(query, key, None, 2, 1.0)[0, 0]
    e = np.e
    np.testing.assert_allclose(seen[0], [e / (e + 1), 1 / (e + 1), 0.0], rtol=1e-6)
    np.testing.assert_allclose(seen[1], np.array([1, e**2, e**2]) / (1 + 2 * e**2), rtol=1e-6)
    masked = attention_weights(query, key, torch.tensor([[[[True, False, True]] * 2]]), 1, 1.0)[0, 0]
    np.testing.assert_allclose(masked[0], np.array([1, 0, e**2]) / (1 + e**2), rtol=1e-6)
    capped = attention_weights(query, key, torch.zeros(1, 1, 2, 3), 1, 1.0, softcap=1.0)[0, 0, 0]
    np.testing.assert_allclose(capped, np.exp(np.tanh([0, 2, 2])) / np.exp(np.tanh([0, 2, 2])).sum(), rtol=1e-6)
    shared = attention_weights(query.repeat(1, 2, 1, 1), key, None, 2, 1.0)  # two heads of queries to one of keys
    np.testing.assert_allclose(shared[0, 1], seen)


def test_share_entropy_and_core_by_hand():
    look = torch.tensor([[0.1, 0.2, 0.4, 0.3], [0.5, 0.0, 0.25, 0.25]], dtype=torch.float64)
    picture = torch.tensor([False, True, True])
    share, entropy = share_and_entropy(look, picture)
    np.testing.assert_allclose(share, [0.6, 0.25])
    np.testing.assert_allclose(entropy, [-(1 / 3 * np.log(1 / 3) + 2 / 3 * np.log(2 / 3)), 0.0], atol=1e-12)
    assert (
        most_attended(look, picture, 0.5).tolist() == [False, False, True]
        and most_attended(look, picture, 1.0).tolist() == picture.tolist()
    )


def test_attention_that_returns_its_weights_is_read_from_there(model, told):
    asked, made = told
    model.module.set_attn_implementation("eager")
    try:
        again = answers(model, asked)
    finally:
        model.module.set_attn_implementation("sdpa")
    for parts, before in zip(again, made, strict=True):
        for name in parts:
            if name.startswith("attention") and before[name].states is not None:
                np.testing.assert_allclose(parts[name].states.astype(float), before[name].states.astype(float), atol=4 * HALF)
