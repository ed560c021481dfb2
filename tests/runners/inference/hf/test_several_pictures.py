"""Questions about several pictures, in batches and with what they share, against plain forward passes of whole sequences."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from qualm.runners.contracts.models import PARTS, Decoding, ModelContext, ModelError, Request, draw_part
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.prompts.question import messages
from tests.support.models.each_family import EACH_FAMILY
from tests.support.models.loaded import loaded_model
from tests.support.models.plain_vlm import Plain, picture
from tests.support.models.tiny_models import PLAIN, TEMPLATES

SIGNALS = tuple(name for name in PARTS if name not in ("options", "p_true_sampling"))
QUESTIONS = ["Which is bigger ?", "What color is the cube in <image> and in <image> ?", "What ?", "<image> What is here <image>"]
ONE_PICTURE = {"kosmos2", "florence2"}
TOGETHER = [family for family in EACH_FAMILY if family.values[0] not in ONE_PICTURE]
"""Families that are asked about several pictures."""
LIMIT = 1e-4
HALF = 2.0**-10
"""Of float16, relative: what is stored may be one off."""


class Several(Plain):
    """The same, with a list of pictures."""

    def read(self, prompt, image, tokens=(), **also):
        own, self.processor = self.processor, _Listing(self.processor) if image is not None else self.processor
        try:
            return super().read(prompt, image, tokens, **also)
        finally:
            self.processor = own

    def ids(self, prompt, images):
        """Tokens of a prompt, those of its pictures among them."""
        own, self.processor = self.processor, _Listing(self.processor)
        try:
            return self.inputs(prompt, images)["input_ids"][0]
        finally:
            self.processor = own


class _Listing:
    def __init__(self, processor):
        self.processor = processor

    def __call__(self, text, images, **options):
        return self.processor(text=text, images=[list(images[0][0])], **options)


def asked(model, parts, questions=QUESTIONS, n=2):
    pictures = tuple(picture(k, (40 + 30 * k, 40)) for k in range(n))
    return [
        Request(model.render(messages(q, n_images=n)), pictures[0], 0, q, tuple(parts), 1000 + k, "these", more=pictures[1:])
        for k, q in enumerate(questions)
    ]


def answers(model, requests):
    return model.answer(model.encode(requests), Decoding(5, 0.9))


@pytest.mark.slow
@pytest.mark.parametrize("family", [*TOGETHER, *sorted({*PLAIN} - ONE_PICTURE)])
def test_log_probabilities_are_those_of_the_whole_sequence(family, family_model):
    model = family_model(family)
    oracle = Several(model)
    alone = family == "paligemma"
    wanted = [s for s in SIGNALS if not (alone and s in ("without_image", "without_both", "image_divergence"))]
    requests = asked(model, ("answer", draw_part(1), *wanted))
    for request, parts in zip(requests, answers(model, requests), strict=True):
        answer = parts["answer"]
        assert answer.logprobs == pytest.approx(oracle.forced(request.prompt, request.images, answer.tokens), abs=LIMIT)
        drawn = parts[draw_part(1)]
        assert drawn.logprobs == pytest.approx(oracle.forced(request.prompt, request.images, drawn.tokens), abs=LIMIT)
        silent = model.render(messages("", n_images=2))
        assert parts["without_question"].logprobs == pytest.approx(oracle.forced(silent, request.images, answer.tokens), abs=LIMIT)
        if not alone:
            blind = model.render(messages(" ".join(request.question.replace("<image>", "").split()), n_images=0))
            assert parts["without_image"].logprobs == pytest.approx(oracle.forced(blind, None, answer.tokens), abs=LIMIT)


@pytest.mark.parametrize("family", TOGETHER)
def test_attention_on_several_pictures_is_eager_attentions_on_all_of_their_tokens(family, family_folder, family_model):
    model, other = family_model(family), loaded_model(family_folder(family), family, template=TEMPLATES.get(family))
    other.module.set_attn_implementation("eager")
    oracle = Several(other)
    previous, share, entropy = (f"attention/all/{what}" for what in ("previous", "image_share", "image_entropy"))
    requests = asked(model, ("answer", previous, share, entropy))
    for request, parts in zip(requests, answers(model, requests), strict=True):
        tokens = parts["answer"].tokens
        read = oracle.read(request.prompt, request.images, tokens[:-1], output_attentions=True)
        looks = torch.stack(read.attentions)[:, 0].double().numpy()  # (layers, heads, positions, positions)
        ids = oracle.ids(request.prompt, request.images)
        picture = (ids == model.picture_token).numpy()
        seen = looks[:, :, -len(tokens) :].mean(axis=(0, 1))[:, : len(picture)][:, picture]
        np.testing.assert_allclose(parts[share].states.astype(float), seen.sum(1), atol=HALF)
        shares = seen / seen.sum(1, keepdims=True)
        np.testing.assert_allclose(parts[entropy].states.astype(float), -(shares * np.log(shares)).sum(1), rtol=2 * HALF)
        if len(tokens) > 1:
            diagonal = looks.diagonal(axis1=2, axis2=3)[:, :, looks.shape[2] - len(tokens) + 1 :]
            expected = [layer[layer.mean(axis=1).argmax()] for layer in diagonal]
            np.testing.assert_allclose(parts[previous].states.astype(float), np.concatenate(expected), atol=HALF)


def test_what_a_question_is_batched_with_changes_nothing(family_model):
    model = family_model("llava")
    requests = asked(model, ("answer", "p_yes", "without_question"))
    together, single = answers(model, requests), [answers(model, [request])[0] for request in requests]
    for one, other in zip(together, single, strict=True):
        assert one["answer"].tokens == other["answer"].tokens
        assert one["p_yes"].numbers == pytest.approx(other["p_yes"].numbers, abs=LIMIT)
        assert one["without_question"].logprobs == pytest.approx(other["without_question"].logprobs, abs=LIMIT)


def test_the_second_picture_and_the_order_are_seen(family_model):
    model = family_model("llava")
    (request,) = asked(model, ("answer",), QUESTIONS[:1])
    turned = replace(request, image=request.more[0], more=(request.image,), pixels="turned")
    first, second = (answers(model, [r])[0]["answer"].logprobs for r in (request, turned))
    assert not torch.allclose(torch.tensor(first[:1]), torch.tensor(second[:1]), atol=1e-5)


def test_numbers_of_pictures_are_not_mixed_in_a_batch(family_model):
    model = family_model("llava")
    with pytest.raises(ModelError, match="mixes requests with different numbers of images"):
        model.encode([*asked(model, ("answer",), QUESTIONS[:1]), *asked(model, ("answer",), QUESTIONS[:1], n=3)])


@pytest.mark.parametrize("family", sorted(ONE_PICTURE))
def test_families_of_one_picture_refuse(family, family_model):
    assert "takes one image" in family_model(family).refusal(2)


def test_a_template_that_shows_one_picture_is_refused(family_folder):
    text = "{% for c in m['content'] %}{% if c['type'] == 'text' %}{{ c['text'] }}{% endif %}{% endfor %}"
    once = "{% for m in messages %}{% if m['content'][0]['type'] == 'image' %}<image>{% endif %}" + text + "{% endfor %}"
    assert "1 marks of images" in hf_vlm(ModelContext("llava", family_folder("llava")), template=once).refusal(2)
