"""Words that a model weighs its own answer with; their probabilities are held to plain passes in test_one_pass.py."""

import math
from types import SimpleNamespace

import pytest
import torch

from qualm.runners.contracts.models import ModelContext, ModelError
from qualm.runners.inference.hf.own_answer import spellings, true_probability, yes_share
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from tests.support.models.tiny_models import tiny_qwen2_vl


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return hf_vlm(ModelContext("tiny", tiny_qwen2_vl(tmp_path_factory.mktemp("tiny"))))


def test_worked_example(model):
    """ln P(yes) = -0.2 and ln P(no) = -1.9 give 0.845535."""
    yes, no = (spellings(model, word, "?") for word in ("yes", "no"))
    logits = torch.full((1, len(model.tokenizer)), -math.inf, dtype=torch.float64)
    logits[0, yes[0]], logits[0, no[0]] = -0.2, -1.9
    assert yes_share(model, logits, "?") == [pytest.approx(0.845535, abs=1e-6)]


def test_impossible_is_undefined(model):
    logits = torch.full((2, len(model.tokenizer)), -math.inf, dtype=torch.float64)
    logits[:, 0] = 0.0
    assert yes_share(model, logits, "?") == [None, None]
    assert true_probability(model, logits, "?") == [0.0, 0.0]


def test_every_spelling_counts(model):
    ids = spellings(model, "True", "?")
    logits = torch.zeros(1, len(model.tokenizer), dtype=torch.float64)
    assert set(ids) == set(model.tokenizer.convert_tokens_to_ids(["True", "ĠTrue"])) - {None}
    assert true_probability(model, logits, "?") == [pytest.approx(len(ids) / len(model.tokenizer))]


def test_spellings_add_up():
    """A tokenizer that knows the word with and without a space before it."""
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]], dtype=torch.float64)
    p = logits.softmax(1)[0]
    assert true_probability(_Spelt({"True": 1, " True": 3}), logits, "?") == [pytest.approx(float(p[1] + p[3]))]
    found = yes_share(_Spelt({"yes": 0, " Yes": 1, "no": 2, "NO": 3}), logits, "?")
    assert found == [pytest.approx(float(p[:2].sum()))]


@pytest.mark.parametrize("word", ["yes", "no", "True"])
def test_a_tokenizer_without_the_word_is_an_error(model, word):
    with pytest.raises(ModelError, match=f"no spelling of '{word}' is one known token"):
        spellings(_Deaf(model), word, "prompt")


class _Deaf:
    """A model whose tokenizer knows no word."""

    def __init__(self, model):
        self.label, self.tokenizer = model.label, model.tokenizer

    def tokenize(self, text):
        return [self.tokenizer.unk_token_id if self.tokenizer.unk_token_id is not None else 0, *(ord(c) for c in text)]


class _Spelt:
    """A model whose tokenizer knows these texts behind a prompt, and reads anything else letter by letter."""

    def __init__(self, ids):
        self.label, self.tokenizer, self.ids = "spelt", SimpleNamespace(unk_token_id=None), ids

    def tokenize(self, text):
        behind = text.removeprefix("?")
        return [99, self.ids[behind]] if behind in self.ids else [99, *map(ord, behind)]
