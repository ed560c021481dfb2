"""With its first question the engine is compared with plain passes, and given up with one line where it differs."""

import pytest
import torch

from qualm.runners.contracts.models import Decoding, Request
from qualm.runners.inference.hf.plain import PlainNetwork
from qualm.runners.prompts.question import messages
from tests.support.models.each_family import EACH_FAMILY
from tests.support.models.loaded import loaded_model
from tests.support.models.plain_vlm import picture
from tests.support.models.tiny_models import FAMILIES, tiny_llava

DECODING = Decoding(5, 0.9)
PARTS = ("answer", "draw 1", "without_question", "p_true")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.set_num_threads(1)
    return tiny_llava(tmp_path_factory.mktemp("llava"))


def asked(model):
    questions = ("What color is the cube ?", "How many are there ?")
    return [Request(model.render(messages(q)), picture(n), 0, q, PARTS, n, str(n)) for n, q in enumerate(questions)]


def test_an_engine_that_agrees_is_kept_without_a_word(folder, capsys):
    model = loaded_model(folder)
    model.answer(model.encode(asked(model)), DECODING)
    assert not model.plain and capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["numbers", "exception"])
def test_an_engine_that_differs_is_replaced_by_plain_passes(folder, capsys, fault):
    right = loaded_model(folder)
    expected = right.answer(right.encode(asked(right)), DECODING)
    model = loaded_model(folder, "mine")
    forward = model.module.forward

    def other(*args, **kwargs):
        """As a release of transformers may: fail with a cache, or see too much by it."""
        if kwargs.get("use_cache") and fault == "exception":
            raise TypeError("forward() got an unexpected keyword argument")
        out = forward(*args, **kwargs)
        if kwargs.get("use_cache"):
            out.logits = out.logits.roll(1, dims=-1)
        return out

    model.module.forward = other
    made = model.answer(model.encode(asked(model)), DECODING)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith("model 'mine': with transformers ") and "read by plain passes" in said
    assert ("TypeError: forward() got" in said) == (fault == "exception") and isinstance(model.network, PlainNetwork)
    for parts, others in zip(made, expected, strict=True):
        assert parts["answer"].tokens == others["answer"].tokens and parts["draw 1"].tokens == others["draw 1"].tokens
        for name in PARTS[:3]:
            assert parts[name].logprobs == pytest.approx(others[name].logprobs, abs=1e-4)
    again = model.answer(model.encode(asked(model)), DECODING)
    assert again == made and capsys.readouterr().err == ""


def test_too_little_memory_is_no_difference(folder):
    model = loaded_model(folder)

    def full(*args, **kwargs):
        raise torch.OutOfMemoryError("out of memory")

    model.module.forward = full
    with pytest.raises(torch.OutOfMemoryError):
        model.answer(model.encode(asked(model)), DECODING)


@pytest.mark.parametrize("family", EACH_FAMILY)
def test_every_family_agrees(family, tmp_path, capsys):
    from tests.support.models.tiny_models import TEMPLATES

    model = loaded_model(FAMILIES[family](tmp_path), family, template=TEMPLATES.get(family))
    model.answer(model.encode(asked(model)[:1]), Decoding(2))
    assert capsys.readouterr().err == ""
