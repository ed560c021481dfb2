"""hf_vlm: options, the end of an answer, loading, and what it refuses. Its signals are in test_one_pass.py."""

import json
import math
import shutil

import pytest
import torch

from qualm.runners.contracts.models import Decoding, Model, ModelContext, ModelError, Request
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.prompts.question import messages
from tests.support.models.plain_vlm import Plain, picture
from tests.support.models.tiny_models import FAMILIES

QUESTIONS = ["What color is the cube ?", "How many objects are there left of the big red metal sphere in the picture ?", "What ?"]
CHOICES = [["red", "blue", "green"], ["1", "2", "3"], ["a cube", "a sphere", "a cone"]]


@pytest.fixture(scope="module", params=["idefics3", "llava", "qwen2_vl"])
def model(request, tmp_path_factory):
    made = hf_vlm(ModelContext(request.param, FAMILIES[request.param](tmp_path_factory.mktemp(request.param))))
    made.load()
    return made


def requests(model, choices=False, image=True):
    made = []
    for i, question in enumerate(QUESTIONS):
        options = CHOICES[i] if choices else []
        prompt = model.render(messages(question, options, image))
        parts = ("options",) if choices else ("answer",)
        made.append(Request(prompt, picture(i, (40 + 30 * i, 40)) if image else None, len(options), question, parts))
    return made


def answers(model, asked, limit=6):
    return [next(iter(parts.values())) for parts in model.answer(model.encode(asked), Decoding(limit))]


def test_option_logits_are_the_raw_ones_of_the_letters(model):
    asked, plain = requests(model, choices=True), Plain(model)
    letters = model.option_ids(3)
    for request, part in zip(asked, answers(model, asked), strict=True):
        tokens, logprobs, entropies, first = plain.generate(request.prompt, request.image, 1)
        assert part.numbers == pytest.approx(first[letters].tolist(), abs=1e-4)
        assert part.tokens == tokens
        assert part.logprobs == pytest.approx(logprobs, abs=1e-4)
        assert part.entropies == pytest.approx(entropies, abs=1e-4)


def test_end_of_sequence_ends_an_answer_and_is_counted(model):
    asked = requests(model)
    free = answers(model, asked)
    tokens = free[0].tokens
    stop = tokens[2]  # what the first answer says third is now the end of every answer
    place = tokens.index(stop)
    stops = set(model.stops)
    try:
        model.stops.add(stop)
        short = answers(model, asked)
    finally:
        model.stops = stops
    assert short[0].tokens == tokens[: place + 1]
    assert short[0].logprobs == pytest.approx(free[0].logprobs[: place + 1], abs=1e-5)
    assert len(short[0].entropies) == place + 1
    assert short[0].text == model.tokenizer.decode(tokens[:place], skip_special_tokens=True).strip()


def test_an_answer_is_what_stands_before_the_first_end(model):
    first, second = model.tokenizer("cube red", add_special_tokens=False)["input_ids"][-2:]
    end = next(iter(model.stops))
    assert model.texts([[first, end, second, end], [first], [end, second]]) == [*model.texts([[first]] * 2), ""]


def test_prompt_is_the_processors_own_and_ends_where_the_answer_begins(model):
    asked = messages(QUESTIONS[0])
    alone = model.encode([Request(model.render(asked), picture(0))]).tensors
    asked[0]["content"][0]["image"] = picture(0)
    own = model.processor.apply_chat_template(asked, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt")
    assert set(own) == set(alone)
    assert all(torch.equal(own[name], alone[name]) for name in own)


@pytest.mark.parametrize("image", [True, False])
def test_a_prompt_that_cannot_be_read_is_told_by_its_text(model, image):
    def misfit(question):
        return model.misfit(model.render(messages(question, n_images=image)), image)

    most = {"idefics3": 2048, "llava": 512, "qwen2_vl": 512}[model.label]
    mark = model.processor.image_token
    assert misfit("What color is the cube?") == misfit("cube " * 40) == misfit("😀" * 20) == ""
    tokens = model.tokenizer(model.render(messages("cube " * most, n_images=image)))["input_ids"]
    assert misfit("cube " * (2 * most - len(tokens))) == "", "as many as it reads at most"
    assert misfit("cube " * most) == f"its prompt has {len(tokens):,} tokens, and the model reads at most {most:,}"
    marks = "by which this model's template marks the place of an image; remove it from the question"
    assert misfit(f"What is {mark} ?") == f"its text contains {mark!r}, {marks}"


def test_letters_follow_the_prompt_as_the_template_has_it(model):
    ids = model.option_ids(4)
    shown = model.tokenizer.convert_ids_to_tokens(ids)
    assert shown == {"llava": list("ABCD"), "qwen2_vl": list("ABCD"), "idefics3": ["ĠA", "ĠB", "ĠC", "ĠD"]}[model.label]


def test_keeps_the_contract(model):
    assert isinstance(model, Model)
    with pytest.raises(ModelError, match="mixes requests"):
        model.encode([*requests(model)[:1], *requests(model, image=False)[:1]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return FAMILIES["llava"](tmp_path_factory.mktemp("llava"))


def test_digest_follows_content_and_dtype(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "elsewhere")
    first = hf_vlm(ModelContext("a", folder)).digest
    assert hf_vlm(ModelContext("b", copy)).digest == first
    (copy / "README.md").write_text("a model")
    assert hf_vlm(ModelContext("b", copy)).digest == first
    assert hf_vlm(ModelContext("a", folder), dtype="bfloat16").digest != first
    assert hf_vlm(ModelContext("a", folder, dtype="bfloat16")).digest == hf_vlm(ModelContext("a", folder), dtype="bfloat16").digest
    config = json.loads((copy / "processor_config.json").read_text())
    config["image_processor"]["image_mean"] = [0.5, 0.5, 0.5]
    (copy / "processor_config.json").write_text(json.dumps(config))
    assert hf_vlm(ModelContext("b", copy)).digest != first


def test_shipped_sampling_settings_do_not_change_the_logits(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "penalised")
    settings = {"eos_token_id": 3, "pad_token_id": 0, "repetition_penalty": 1.9, "do_sample": True, "temperature": 0.1}
    (copy / "generation_config.json").write_text(json.dumps(settings))
    said = []
    for place in (folder, copy):
        model = hf_vlm(ModelContext("m", place))
        model.load()
        said.append([(a.text, a.logprobs) for a in answers(model, requests(model))])
    assert said[0] == said[1]


def test_weights_that_are_absent_are_not_made_up(folder, tmp_path):
    from safetensors.torch import load_file, save_file

    copy = shutil.copytree(folder, tmp_path / "torn")
    weights = load_file(copy / "model.safetensors")
    gone = next(n for n in weights if "down_proj" in n)
    save_file({n: w for n, w in weights.items() if n != gone}, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"weights that its config asks for are absent.*down_proj"):
        hf_vlm(ModelContext("torn", copy)).load()


def test_letters_that_cannot_be_distinguished_are_an_error(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "no_letters")
    text = (copy / "tokenizer.json").read_text()
    (copy / "tokenizer.json").write_text(text.replace('"C":', '"CCC":'))
    model = hf_vlm(ModelContext("m", copy))
    assert len(model.option_ids(2)) == 2
    with pytest.raises(ModelError, match=r"option letter C is not a single known token after the prompt; tokens found: .*' C'"):
        model.option_ids(3)


def test_logits_that_are_not_numbers_are_an_error(folder):
    model = hf_vlm(ModelContext("m", folder))
    model.load()
    with torch.no_grad():
        model.module.get_output_embeddings().weight.fill_(math.nan)
    with pytest.raises(ModelError, match="not numbers"):
        answers(model, requests(model), 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one of artifact and hub"),
        ({"artifact": "a", "hub": "b"}, "exactly one of artifact and hub"),
        ({"hub": "owner/model"}, "its revision 'main' has no commit in registry/fetch.lock; `qualm fetch SPEC`"),
        ({"hub": "owner/model", "revision": "v2"}, "its revision 'v2' has no commit"),
        ({"artifact": "registry/data/x", "trust_remote_code": True}, "trust_remote_code is for a hub model"),
        ({"artifact": "registry/data/nowhere"}, "expected config.json"),
    ],
)
def test_what_names_no_model_is_refused(arguments, message):
    with pytest.raises(ModelError, match=message):
        hf_vlm(ModelContext("m"), **arguments)


def test_pickled_weights_are_refused(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "pickled")
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    with pytest.raises(ModelError, match="safetensors; pickled weights are not read"):
        hf_vlm(ModelContext("m", copy))
