"""Checks of words: what a healthy model's say, and what each says of a fault."""

import pytest
import torch

from qualm.runners.inference import check_words as words
from qualm.runners.inference.check_cases import Case
from qualm.runners.inference.model_under_test import ModelUnderTest
from tests.support.models.loaded import loaded_model
from tests.support.models.plain_vlm import picture
from tests.support.models.tiny_models import FAMILIES

CASES = [Case("What color is the cube ?", picture(0, (40, 30))), Case("What ?", picture(1)), Case("What is a cone ?", None)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return FAMILIES["llava"](tmp_path_factory.mktemp("llava"))


@pytest.fixture(scope="module")
def healthy(folder):
    return under_test(folder)


def under_test(folder, **args):
    return ModelUnderTest(loaded_model(folder, **args), CASES)


def test_the_prompt_is_shown_to_be_compared(healthy):
    found = words.prompt(healthy)
    assert (found.check, found.verdict, found.found) == ("prompt", "ok", repr("USER: <image>\nWhat color is the cube ? ASSISTANT:"))
    assert found.numbers == {"prompt": "USER: <image>\nWhat color is the cube ? ASSISTANT:"} and found.advice


def test_picture_tokens_are_counted_beside_the_text(healthy):
    found = words.image_tokens(healthy)
    assert found.verdict == "ok" and found.numbers == {"tokens": {"40x30": 15, "40x40": 15}}, "sixteen for one mark"
    assert found.found.endswith("by image size: 40x30: 15, 40x40: 15")


@pytest.mark.parametrize("name", ["input_ids", "pixel_values"])
def test_tokens_that_are_not_the_processors_own(healthy, monkeypatch, name):
    plain = healthy.model._processor_tensors

    def other(requests):
        tensors = plain(requests)
        return {**tensors, name: tensors[name] + (tensors[name] > 4).to(tensors[name].dtype) if name == "input_ids" else tensors[name] + 1}

    monkeypatch.setattr(healthy.model, "_processor_tensors", other)
    monkeypatch.setattr(healthy.model, "_shares", {False: False, True: False})
    found = words.image_tokens(healthy)
    assert found.verdict == "fail" and found.found.startswith(f"{name} of the rendered prompt is not what the processor makes")


def test_text_alone(healthy, monkeypatch):
    assert words.text_alone(healthy).verdict == "ok"
    with monkeypatch.context() as patch:
        patch.setattr(healthy.plain, "inputs", lambda prompts, images: (_ for _ in ()).throw(RuntimeError("a picture, please")))
        found = words.text_alone(healthy)
    assert found.verdict == "warn" and found.found == "the processor refuses a prompt without an image: a picture, please"


def test_the_turn_of_an_answer(healthy, folder):
    tokenizer = healthy.model.tokenizer
    found = words.answer_turn(healthy)
    assert found.verdict == "ok" and found.numbers == {"tokens": tokenizer.convert_tokens_to_ids(["yes", "</s>"])}
    assert found.found == "an answer of 'yes' is the tokens ['yes', '</s>']"
    thinking = under_test(
        folder, template="{% if add_generation_prompt %}hm {% endif %}{% for m in messages %}{{ m['content'][-1]['text'] }}{% endfor %}"
    )
    found = words.answer_turn(thinking)
    assert found.verdict == "warn" and "does not continue the prompt" in found.found and "cannot be fine-tuned" in found.advice


def test_what_stops_an_answer(healthy, monkeypatch):
    end, other = healthy.model.tokenizer.convert_tokens_to_ids(["</s>", "<s>"])
    found = words.stops(healthy)
    assert (found.verdict, found.found, found.numbers) == ("ok", "</s>", {"stops": [end]})
    monkeypatch.setattr(healthy.model, "stops", {end, other})
    assert words.stops(healthy).verdict == "ok" and words.stops(healthy).numbers == {"stops": sorted((end, other))}
    monkeypatch.setattr(healthy.model, "stops", {other})
    found = words.stops(healthy)
    assert found.verdict == "warn" and found.found == "['<s>'] stop an answer, but the template ends a turn with ['</s>']"
    monkeypatch.setattr(healthy.model, "stops", set())
    assert (words.stops(healthy).verdict, words.stops(healthy).advice) == ("fail", "every answer runs to max_new_tokens")


def test_a_template_that_ends_no_turn_is_no_fault(folder):
    plain = under_test(folder, template="{% for m in messages %}{{ m['content'][-1]['text'] }} {% endfor %}")
    assert words.stops(plain).verdict == "ok"


def test_letters_and_words_are_named(healthy):
    found = words.letters(healthy)
    assert found.found == str(list("ABCDEF")) and found.numbers == {"ids": healthy.model.option_ids(6)}
    found = words.own_answer_words(healthy)
    assert found.numbers == {"yes": ["yes"], "no": ["no"], "True": ["True"]} and found.found == "yes: ['yes']; no: ['no']; True: ['True']"


def test_every_check_stands_under_its_own_name(healthy):
    with torch.inference_mode():
        assert all(check(healthy).check == name for name, check in words.CHECKS.items())
