"""Examples as ids and tensors: what the processor makes of them, each once, and pictures dropped where memory is short."""

import pytest
import torch

from qualm.runners.contracts.finetunes import FinetuneError
from qualm.runners.contracts.models import ModelContext, Request
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.prompts.question import messages
from qualm.runners.training.encoding import PICTURES_IN_MEMORY, EncodedExample, Encoder
from qualm.runners.training.examples import TrainingExample
from tests.support.models.loaded import loaded_model
from tests.support.models.tiny_models import FAMILIES
from tests.support.projects.asking import picture, png, sample, write_samples

QUESTIONS = ["What color is the cube ?", "What ?", "Is there a cone ?", "What is a cone ?"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return loaded_model(FAMILIES["llava"](tmp_path_factory.mktemp("llava")))


@pytest.fixture
def dataset(tmp_path):
    """Two questions about one picture, one about another, one about none."""
    rows = [sample(f"s{i}", image, q) for i, (image, q) in enumerate(zip(["a", "a", "b", None], QUESTIONS, strict=True))]
    return DatasetFolder("d", write_samples(tmp_path / "d", rows, {"a": png(picture(0, 40)), "b": png(picture(1, 40))}))


def example(row, answer="red", rejected=None):
    return TrainingExample("d", row, tuple(messages(QUESTIONS[row], n_images=row < 3)), answer, rejected)


def own(model, row, dataset):
    return model._processor_tensors([Request(model.render(messages(QUESTIONS[row], n_images=row < 3)), dataset.image(row))])


@pytest.mark.parametrize("row", range(4))
def test_an_example_is_what_the_processor_makes_of_it_and_its_answer(model, dataset, row):
    encode = Encoder(model, {"d": dataset})
    coded, tensors = encode(example(row)), own(model, row, dataset)
    assert coded.prompt == tuple(tensors["input_ids"][0].tolist())
    assert coded.answer == tuple(model.answer_ids(messages(QUESTIONS[row], n_images=row < 3), "red")) == encode.answer(example(row))
    assert len(coded) == len(coded.prompt) + len(coded.answer) and coded.per_token == {}
    assert set(coded.picture) == ({"pixel_values"} if row < 3 else set())
    if row < 3:
        assert torch.equal(coded.picture["pixel_values"], tensors["pixel_values"])


def test_another_text_may_stand_in_the_answers_place(model, dataset):
    encode = Encoder(model, {"d": dataset})
    assert encode(example(0), "blue cube").answer == encode.answer(example(0, "blue cube")) != encode(example(0)).answer
    assert encode(example(0, rejected="blue")).answer == encode.answer(example(0))


def counting(model, monkeypatch):
    calls, plain = [], model._processor_tensors
    monkeypatch.setattr(model, "_processor_tensors", lambda requests: calls.append([r.prompt for r in requests]) or plain(requests))
    return calls


def test_each_is_encoded_once_and_a_picture_is_one_object(model, dataset, monkeypatch):
    encode, calls = Encoder(model, {"d": dataset}), counting(model, monkeypatch)
    first, second, other = encode(example(0)), encode(example(1)), encode(example(2))
    n = len(calls)
    assert [encode(example(i)) for i in (0, 1, 2)] == [first, second, other] and len(calls) == n
    assert first.picture is second.picture is not other.picture
    assert encode(example(3)) == encode(example(3)) and len(calls) == n + 1, "without a picture, too"


def test_a_known_picture_is_not_processed_for_another_prompt(model, dataset, monkeypatch):
    encode, whole = Encoder(model, {"d": dataset}), [own(model, row, dataset)["input_ids"][0].tolist() for row in (0, 1)]
    encode(example(0))
    calls, rendered, render = counting(model, monkeypatch), [], model.render
    monkeypatch.setattr(model, "render", lambda turns: rendered.append(turns) or render(turns))
    asked = example(1)
    assert list(encode(asked).prompt) == whole[1] and list(encode(example(0)).prompt) == whole[0] and calls == []
    before = len(rendered)
    assert encode(asked) == encode(asked) and encode.answer(asked) and len(rendered) == before, "rendered once"


def test_where_a_models_prompts_do_not_follow_one_another_each_goes_through_the_processor(model, dataset, monkeypatch):
    monkeypatch.setattr(model, "_shares", {False: False, True: False})
    encode, calls = Encoder(model, {"d": dataset}), counting(model, monkeypatch)
    assert list(encode(example(0)).prompt) == own(model, 0, dataset)["input_ids"][0].tolist()
    n = len(calls)
    assert list(encode(example(1)).prompt) == own(model, 1, dataset)["input_ids"][0].tolist() and len(calls) == n + 2


def test_which_picture_an_example_is_about(model, dataset):
    encode = Encoder(model, {"d": dataset})
    assert [encode.image_of(example(i)) for i in range(4)] == [("d", "a"), ("d", "a"), ("d", "b"), ("d", None)]


def test_pictures_that_memory_does_not_hold_are_processed_again(model, dataset, monkeypatch):
    size = 4 * 3 * 32 * 32
    for memory, again in ((2 * size, 0), (2 * size - 1, 1), (0, 1)):
        encode = Encoder(model, {"d": dataset}, memory)
        encode(example(0))
        encode(example(2))
        with monkeypatch.context() as patch:
            calls = counting(model, patch)
            encode(example(2))
            assert calls == [], "the last one always stays"
            encode(example(0))
            assert len(calls) == again
        assert encode._bytes == (size if again else 2 * size)


def test_two_gibibytes_are_kept():
    assert PICTURES_IN_MEMORY == 2 * 2**30


def test_a_picture_that_cannot_be_read_is_told(model, tmp_path):
    broken = DatasetFolder("d", write_samples(tmp_path / "x", [sample("s0", "a", QUESTIONS[0])], {"a": b"no picture"}))
    with pytest.raises(FinetuneError, match=r"^d: sample 's0', image 'a': cannot be decoded .*; correct it, or leave .* out by `where:`$"):
        Encoder(model, {"d": broken})(example(0))


def test_what_is_said_of_every_token_goes_beside(tmp_path_factory, dataset):
    gemma = hf_vlm(ModelContext("m", FAMILIES["gemma3"](tmp_path_factory.mktemp("gemma3"))))
    gemma.load()
    coded = Encoder(gemma, {"d": dataset})(example(0))
    kinds = own(gemma, 0, dataset)["token_type_ids"][0].tolist()
    assert coded.per_token == {"token_type_ids": tuple(kinds)} and sum(kinds) == 4 and set(coded.picture) == {"pixel_values"}


def test_length_is_of_prompt_and_answer():
    assert len(EncodedExample((1, 2, 3), (4, 5), {}, {})) == 5
