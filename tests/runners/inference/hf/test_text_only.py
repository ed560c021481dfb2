"""Text-only models: every number equals that of plain, unpadded forward passes."""

import time
from dataclasses import replace

import pytest
import torch

from qualm.runners.contracts.models import PARTS, Decoding, Request, draw_part
from qualm.runners.inference.check_cases import QUESTIONS, scene_cases
from qualm.runners.inference.check_model import DoctorOptions, check_model
from qualm.runners.inference.hf.sampling import uniforms
from qualm.runners.prompts.question import messages
from tests.support.models.loaded import loaded_model
from tests.support.models.smollm2 import WHY_NOT, are_weights_installed, save_smollm2
from tests.support.models.tiny_models import tiny_llm

SIGNALS = tuple(name for name in PARTS if name not in ("options", "answer"))


def asked(model, parts, questions=QUESTIONS):
    return [Request(model.render(messages(q, n_images=0)), None, 0, q, parts, 17 + n) for n, q in enumerate(questions)]


def forced(model, prompt, tokens):
    """Logits before each of these tokens, by one forward pass without padding or cache."""
    ids = model.tokenizer(prompt, add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        logits = model.module(input_ids=torch.tensor([[*ids, *tokens]]), use_cache=False).logits
    return logits[0, len(ids) - 1 : -1].double()


def check_against_plain_passes(model, limit, questions=QUESTIONS, steps=12):
    """Hold greedy answers to `generate` and log-probabilities to forward passes; return the number of equal answers."""
    decoding = Decoding(steps, 0.8)
    requests = asked(model, ("answer", draw_part(1), "without_question"), questions)
    equal = 0
    for request, parts in zip(requests, model.answer(model.encode(requests), decoding), strict=True):
        inputs = model.tokenizer(request.prompt, add_special_tokens=False, return_tensors="pt")
        with torch.inference_mode():
            whole = model.module.generate(**inputs, max_new_tokens=steps, do_sample=False)
        equal += parts["answer"].tokens == whole[0, inputs["input_ids"].shape[1] :].tolist()
        for name in ("answer", draw_part(1)):
            tokens = parts[name].tokens
            logits = forced(model, request.prompt, tokens)
            logprobs = torch.log_softmax(logits, 1)
            assert parts[name].logprobs == pytest.approx(logprobs[range(len(tokens)), tokens].tolist(), abs=limit)
            assert parts[name].entropies == pytest.approx(torch.special.entr(logprobs.exp()).sum(1).tolist(), abs=10 * limit)
        tokens = parts[draw_part(1)].tokens
        total = (forced(model, request.prompt, tokens) / decoding.temperature).softmax(1).cumsum(1)
        numbers = uniforms(request.stream, 1, steps)
        assert tokens == [int((row <= n * row[-1]).sum()) for row, n in zip(total, numbers, strict=False)]
        prior = forced(model, model.render(messages("", n_images=0)), parts["answer"].tokens).log_softmax(1)
        told = parts["answer"].tokens
        assert parts["without_question"].logprobs == pytest.approx(prior[range(len(told)), told].tolist(), abs=limit)
    return equal


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    torch.set_num_threads(1)
    return loaded_model(tiny_llm(tmp_path_factory.mktemp("llm")))


def test_numbers_are_those_of_plain_passes(model):
    assert model.text_only and check_against_plain_passes(model, 1e-4) == len(QUESTIONS)


def test_every_signal_and_multiple_choice(model):
    (parts,) = model.answer(model.encode(asked(model, ("answer", *SIGNALS, draw_part(1)), QUESTIONS[:1])), Decoding(6, 0.8))
    assert parts["image_divergence"].logprobs is None
    assert parts["without_image"].logprobs == pytest.approx(parts["answer"].logprobs, abs=1e-4)
    choices = ("yes", "no", "perhaps")
    request = Request(model.render(messages("Is it?", choices, 0)), None, 3, "Is it?", ("options",), 1)
    (parts,) = model.answer(model.encode([request]), Decoding(6))
    assert len(parts["options"].numbers) == 3


def test_a_question_with_an_image_is_refused(model):
    assert "reads text only" in model.refusal(1) and "reads text only" in model.refusal(3)


def test_a_template_that_takes_lists_is_given_strings(model):
    assert model.render(messages("Why?", n_images=0)) == "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
    assert model.answer_ids(messages("Why?", n_images=0), "so")[-1] == model.tokenizer.eos_token_id


def findings(folder):
    return list(check_model(DoctorOptions("m", "hf_vlm", {}, folder, "cpu"), scene_cases()))


@pytest.mark.slow
def test_the_doctor_examines_it(model):
    found = findings(model.base.folder)
    assert len(found) >= 24 and not [f for f in found if f.verdict == "fail"]
    assert {f.check for f in found if f.verdict == "skip"} >= {"image tokens", "image matters"}


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory):
    if not are_weights_installed():
        pytest.skip(WHY_NOT)
    torch.set_num_threads(2)
    return save_smollm2(tmp_path_factory.mktemp("smollm2"))


@pytest.mark.slow
def test_smollm2_answers_as_generate_does(smollm2):
    model = loaded_model(smollm2)
    questions = [*QUESTIONS, *(q.replace("?", ", in one word?") for q in QUESTIONS[:8])]
    assert check_against_plain_passes(model, 1e-4, questions) == 20


@pytest.mark.slow
def test_smollm2_passes_the_doctor(smollm2):
    begun = time.process_time()
    found = findings(smollm2)
    assert [f for f in found if f.verdict == "fail"] == [] and len(found) >= 24
    assert replace(found[0], numbers={}).check == "files"
    print(f"{time.process_time() - begun:.0f} s of CPU")
