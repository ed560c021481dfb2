import tempfile

import pytest
import torch

from qualm.runners.contracts.models import ModelError
from qualm.runners.inference import model_under_test as module
from qualm.runners.inference.hf.plain import append_tokens
from qualm.runners.inference.hf.self_check import TOLERANCE
from qualm.runners.inference.model_under_test import Plain, judge_difference, run_check
from qualm.runners.prompts.question import messages
from tests.support.models import plain_vlm
from tests.support.models.loaded import loaded_model
from tests.support.models.plain_vlm import picture
from tests.support.models.tiny_models import FAMILIES, TEMPLATES


@pytest.mark.parametrize(
    "worst, verdict", [(0.0, "ok"), (0.1, "ok"), (0.11, "warn"), (1.0, "warn"), (1.01, "fail"), (float("inf"), "fail")]
)
def test_a_distance_is_right_up_to_the_first_limit_and_fails_beyond_the_second(worst, verdict):
    result = judge_difference("padding", worst, (0.1, 1.0), "batch and alone", "do this")
    assert result.verdict == verdict and result.advice == ("" if verdict == "ok" else "do this")
    assert result.found == f"batch and alone: {worst:.2g} nats at most"
    bare = judge_difference("padding", 0.123, (1, 2), "batch and alone", "do this", unit="")
    assert (bare.found, bare.tolerance) == ("batch and alone: 0.12 at most", "1")
    assert result.tolerance == "0.1 nats" and result.numbers == {"worst": worst} and result.as_json()["check"] == "padding"


def test_half_precisions_may_differ_by_more():
    assert TOLERANCE["float64"][0] <= TOLERANCE["float32"][0] < TOLERANCE["float16"][0] < TOLERANCE["bfloat16"][0]
    assert all(ok < bad for ok, bad in TOLERANCE.values())


@pytest.mark.parametrize(
    "error, verdict, shown", [(ModelError("lacks a template"), "fail", "lacks a template"), (KeyError("x"), "error", "KeyError: 'x'")]
)
def test_a_check_that_raises(error, verdict, shown, tmp_path, monkeypatch):
    def check(tested):
        raise error

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    result = run_check("template", check, None)
    assert (result.check, result.verdict) == ("template", verdict) and result.found.endswith(shown) and result.advice
    assert run_check("t", lambda tested: result, None) is result and module.DRAWS >= 2


@pytest.fixture(scope="module", params=["gemma3", "kosmos2", "llava", "paligemma", "qwen2_vl"])
def model(request, tmp_path_factory):
    folder = FAMILIES[request.param](tmp_path_factory.mktemp(request.param))
    return loaded_model(folder, request.param, template=TEMPLATES.get(request.param))


def test_logits_and_forced_answers_are_the_oracles(model):
    ours, oracle = Plain(model), plain_vlm.Plain(model)
    prompt, image = model.render(messages("What color is the cube ?")), picture(1)
    said = model.tokenizer("red cube", add_special_tokens=False)["input_ids"]
    for tokens in ((), said[:1], said):
        logits = ours.logits(prompt, image, tokens)
        assert logits.shape == (1 + len(tokens), logits.shape[1]) and logits.dtype == torch.float64
        assert torch.allclose(logits, oracle.logits(prompt, image, tokens), atol=1e-9)
    logprobs, entropies = ours.forced(prompt, image, said)
    assert logprobs == pytest.approx(oracle.forced(prompt, image, said))
    rows = torch.log_softmax(oracle.logits(prompt, image, said)[:-1], dim=1)
    assert entropies == pytest.approx((-(rows.exp() * rows).sum(dim=1)).tolist())


def test_without_a_picture(model):
    if model.label == "paligemma":
        pytest.skip("its processor wants a picture")
    prompt = model.render(messages("What color is the cube ?", n_images=False))
    said = model.tokenizer("red", add_special_tokens=False)["input_ids"]
    logits = Plain(model).logits(prompt, None, said)
    assert torch.allclose(logits, plain_vlm.Plain(model).logits(prompt, None, said), atol=1e-9)


def test_prompts_together_are_padded_on_the_left(model):
    prompts = [model.render(messages(q)) for q in ("What ?", "How many big red cube are there ?")]
    inputs = Plain(model).inputs(prompts, [picture(0), picture(1)])
    mask = inputs["attention_mask"]
    assert mask.shape[0] == 2 and mask[1].all() and mask[0, 0] == 0 and mask[0, -1] == 1 and "labels" not in inputs


def test_nothing_is_computed_for_gradients_nor_kept(model):
    plain = Plain(model)
    inputs = plain.inputs([model.render(messages("What ?"))], [picture(0)])
    out = plain.forward(inputs)
    assert not out.logits.requires_grad and getattr(out, "past_key_values", None) is None
    assert plain.forward(inputs, use_cache=True).past_key_values is not None


def test_a_prompt_is_not_begun_twice(model):
    begins = model.tokenizer.bos_token
    prompt = model.render(messages("What ?"))
    ids = Plain(model).inputs([prompt], [picture(0)])["input_ids"][0].tolist()
    if begins and prompt.startswith(begins):
        assert ids.count(model.tokenizer.bos_token_id) == 1
    inputs = {"input_ids": torch.tensor([[1, 2]]), "attention_mask": torch.tensor([[0, 1]]), "x": torch.ones(3)}
    longer = append_tokens(model.module, inputs, [7, 8])
    assert longer["input_ids"].tolist() == [[1, 2, 7, 8]] and longer["attention_mask"].tolist() == [[0, 1, 1, 1]]
    assert longer["x"].shape == (3,)
