"""Hidden states of every family: of mixed padded batches, against transformers' own, one prompt at a time."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from qualm.registry.plugins.internals import ANSWER_LAST, ANSWER_MEAN, PROMPT_LAST
from qualm.runners.contracts.models import Decoding, ModelError, Part
from qualm.runners.inference.hf.internals import RequestedInternals
from qualm.runners.prompts.thinking import ANSWERED, CUT, Thinking
from tests.runners.inference.hf.test_one_pass import answers, requests
from tests.support.models.each_family import EACH_FAMILY
from tests.support.models.plain_vlm import Plain

LAYERS = ("0", "0.5", "-1")
WANTED = tuple(
    f"hidden_states/{layer}/{place}{of}"
    for layer in LAYERS
    for place in (PROMPT_LAST, ANSWER_LAST, ANSWER_MEAN)
    for of in (("",) if place == "prompt_last" else ("", " 1", " 2"))
)
ULP = 2.0**-10
"""Of float16, relative: what is stored may be one off where it was computed in another way."""


@pytest.fixture(scope="module", params=EACH_FAMILY)
def model(request, family_model):
    torch.set_num_threads(1)
    return family_model(request.param)


@pytest.fixture(scope="module")
def told(model):
    asked = requests(model, ("answer", "draw 1", "draw 2", *WANTED))
    return asked, answers(model, asked)


def close(part, expected):
    if expected is None:
        assert part.states is None
        return
    assert part.states.dtype == np.float16
    np.testing.assert_allclose(part.states.astype(float), expected, atol=ULP * np.abs(expected).max())


def test_they_are_those_of_transformers(model, told):
    plain = Plain(model)
    for request, parts in zip(*told, strict=True):
        for draw, name in ((0, "answer"), (1, "draw 1")):
            tokens = parts[name].tokens
            states = plain.hidden_states(request.prompt, request.image, tokens)
            read = len(tokens) - 1
            for layer, place in zip(LAYERS, (0, len(states) // 2, len(states) - 1), strict=True):
                own = states[place].double().numpy()
                of = f" {draw}" if draw else ""
                close(parts[f"hidden_states/{layer}/prompt_last"], own[-len(tokens) - 1])
                close(parts[f"hidden_states/{layer}/answer_last{of}"], own[-2] if read else None)
                close(parts[f"hidden_states/{layer}/answer_mean{of}"], own[-1 - read : -1].mean(0) if read else None)


def test_known_answers_are_read_once_more_to_the_same_numbers(model, told):
    asked, made = told
    later = [
        replace(r, parts=WANTED, greedy=p["answer"], drawn_parts={1: p["draw 1"], 2: p["draw 2"]}) for r, p in zip(asked, made, strict=True)
    ]
    for parts, before in zip(answers(model, later), made, strict=True):
        assert set(parts) == set(WANTED)
        for name in WANTED:
            close(parts[name], None if before[name].states is None else before[name].states.astype(float))


def test_nothing_depends_on_the_batch_and_nothing_else_moves(model, told):
    asked, made = told
    for request, before in zip(asked[::2], made[::2], strict=True):
        (alone,) = answers(model, [request])
        (bare,) = answers(model, [replace(request, parts=("answer", "draw 1", "draw 2"))])
        for name in WANTED:
            close(alone[name], None if before[name].states is None else before[name].states.astype(float))
        assert (bare["answer"], bare["draw 1"]) == (alone["answer"], alone["draw 1"])


def test_the_end_of_a_choice_prompt(model):
    asked = [replace(request, parts=("options", "hidden_states/-1/prompt_last"), options=3) for request in requests(model, ("options",))]
    opened = answers(model, requests(model, ("answer", "hidden_states/-1/prompt_last")))
    try:
        chosen = answers(model, asked)
    except ModelError as error:
        pytest.skip(str(error))
    for parts, other in zip(chosen, opened, strict=True):
        close(parts["hidden_states/-1/prompt_last"], other["hidden_states/-1/prompt_last"].states.astype(float))


def test_an_answer_of_one_token_has_none(model):
    (parts,) = answers(
        model, [replace(requests(model, ("answer", *WANTED[:2]))[0], parts=("answer", "hidden_states/0/answer_last"))], Decoding(1)
    )
    assert parts["hidden_states/0/answer_last"].states is None


def test_layers_that_there_are_not_and_answers_that_nobody_knows(model):
    (request,) = requests(model, ("answer", "hidden_states/40/prompt_last"))[:1]
    layers = model.module.config.get_text_config().num_hidden_layers
    words = rf"hidden states of layer 40: it has {layers} layers; expected 0 \(the embeddings\) to {layers} \(behind the last\)"
    with pytest.raises(ModelError, match=words):
        answers(model, [request])
    assert model.network.taps is None
    with pytest.raises(ModelError, match="neither holds that answer nor asks for it"):
        answers(model, [replace(request, parts=("hidden_states/0/answer_last 3",))])


def test_nothing_is_tapped_where_nothing_is_wanted(model):
    assert not RequestedInternals(model, ("answer", "p_true")).wanted


def test_the_pictures_last_token_and_the_mean_of_its_tokens(model):
    wanted = tuple(f"hidden_states/{layer}/{place}" for layer in LAYERS for place in ("image_last", "image_mean"))
    asked = requests(model, wanted)
    if model.picture_token is None:
        with pytest.raises(ModelError, match="does not say which tokens are an image's"):
            answers(model, asked)
        return
    plain = Plain(model)
    for request, parts in zip(asked, answers(model, asked), strict=True):
        ids = plain.inputs(request.prompt, request.image)["input_ids"][0]
        picture = (ids == model.picture_token).nonzero().flatten().numpy()
        states = plain.hidden_states(request.prompt, request.image, [])
        assert len(picture)
        for layer, at in zip(LAYERS, (0, len(states) // 2, len(states) - 1), strict=True):
            if model.label == "qwen3_vl" and layer == "0.5":
                continue  # after its first layers it adds to the picture's tokens, which transformers tells without: here is what is read
            own = states[at].double().numpy()
            close(parts[f"hidden_states/{layer}/image_last"], own[picture[-1]])
            close(parts[f"hidden_states/{layer}/image_mean"], own[picture].mean(0))


def test_texts_have_no_picture_to_be_inside_of(model):
    if model.label == "paligemma" or model.picture_token is None:
        pytest.skip("it is not asked without a picture, or its pictures are not known")
    asked = requests(model, ("hidden_states/0/image_mean", "hidden_states/0/prompt_last"), image=False)
    for parts in answers(model, asked):
        assert parts["hidden_states/0/image_mean"].states is None and parts["hidden_states/0/prompt_last"].states is not None


def test_where_tokens_end_in_the_text(model):
    asked = requests(model, ("answer", "draw 1", "token_ends", "token_ends 1"))
    for parts in answers(model, asked):
        for name, of in (("answer", "token_ends"), ("draw 1", "token_ends 1")):
            tokens, text = parts[name].tokens, parts[name].text
            ends = parts[of].numbers
            assert len(ends) == len(tokens) and ends[-1] == len(text) and (np.diff(ends) >= 0).all()
            for i, end in enumerate(map(int, ends[:-1])):
                written = model.tokenizer.decode(tokens[: i + 1], skip_special_tokens=True).lstrip()
                assert text[:end] == written[:end]


@pytest.mark.parametrize(
    ("of", "how", "span"),
    [
        ("answer", ANSWERED, (3, 5)),
        ("answer", CUT, (0, 0)),
        ("thinking", CUT, (0, 3)),
        ("thinking", ANSWERED, (0, 3)),
        ("both", ANSWERED, (0, 5)),
        (None, ANSWERED, (0, 5)),
    ],
)
def test_which_tokens_of_a_model_that_thinks_are_read(of, how, span):
    thinking = of and Thinking(of=of)
    thinks, plain = (RequestedInternals(SimpleNamespace(thinks=thinks, thinking=thinking), []) for thinks in (True, False))
    answer = Part(tokens=[5, 6, 7, 8, 9], numbers=[3.0, float(how)])
    assert thinks._span(answer) == span and plain._span(answer) == (0, 5)
    assert thinks._reads_answers is (of in ("answer", None)) and plain._reads_answers
