"""P(pred) against a plain forward pass over the whole conversation, one request alone."""

import math

import numpy as np
import PIL.Image
import pytest
import torch

from runners.models import ModelContext, ModelError, Request
from runners.models._own_answer import spellings
from runners.models.hf_vlm import hf_vlm
from runners.prompts import VERIFY, messages
from tests.tiny_models import FAMILIES

QUESTIONS = ["What color is the cube ?", "How many objects are there left of the big red metal sphere in the picture ?", "What ?"]


@pytest.fixture(scope="module", params=["idefics3", "llava", "qwen2_vl"])
def model(request, tmp_path_factory):
    made = hf_vlm(ModelContext(request.param, FAMILIES[request.param](tmp_path_factory.mktemp(request.param))))
    made.load()
    return made


def requests(model):
    rng = np.random.default_rng(1)
    pictures = [PIL.Image.fromarray(rng.integers(0, 256, (40, 40 + 30 * i, 3), dtype=np.uint8)) for i in range(len(QUESTIONS))]
    return [Request(model.render(messages(q)), p, 0, q) for q, p in zip(QUESTIONS, pictures, strict=True)]


def test_equals_a_plain_forward_pass_over_the_conversation(model):
    asked = requests(model)
    for request, answer in zip(asked, model.answer(model.encode(asked), frozenset({"text", "p_yes"}), 4), strict=True):
        said = [
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": request.question}]},
            {"role": "assistant", "content": [{"type": "text", "text": answer.text}]},
            {"role": "user", "content": [{"type": "text", "text": VERIFY}]},
        ]
        prompt = model.processor.apply_chat_template(said, add_generation_prompt=True, tokenize=False)
        inputs = model.encode([Request(prompt, request.image)]).tensors
        with torch.no_grad():
            probs = model.module(**inputs, use_cache=False).logits[0, -1].double().softmax(0)
        yes = float(probs[spellings(model, "yes", prompt)].sum())
        no = float(probs[spellings(model, "no", prompt)].sum())
        assert answer.p_yes == pytest.approx(yes / (yes + no), abs=1e-5)


def test_worked_example():
    """ln P(yes) = -0.2 and ln P(no) = -1.9 give 0.845535."""
    assert math.exp(-0.2) / (math.exp(-0.2) + math.exp(-1.9)) == pytest.approx(0.845535, abs=1e-6)
    assert float(torch.sigmoid(torch.tensor(-0.2 - -1.9, dtype=torch.float64))) == pytest.approx(0.845535, abs=1e-6)


def test_is_not_given_unasked(model):
    asked = requests(model)[:1]
    assert model.answer(model.encode(asked), frozenset({"text"}), 2)[0].p_yes is None


def test_a_tokenizer_without_yes_is_an_error(model):
    with pytest.raises(ModelError, match="no spelling of 'yes' is one known token"):
        spellings(_Deaf(model), "yes", "prompt")


class _Deaf:
    """A model whose tokenizer knows no word."""

    def __init__(self, model):
        self.label, self.tokenizer = model.label, model.tokenizer

    def tokenize(self, text):
        return [self.tokenizer.unk_token_id if self.tokenizer.unk_token_id is not None else 0, *(ord(c) for c in text)]
