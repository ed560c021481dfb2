"""Weights: whole or not at all, in the dtype that was asked for, and nothing of the shipped generation settings but the stops."""

import json
import shutil

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, T5Config
from transformers import T5ForConditionalGeneration as T5

from qualm.runners.contracts.models import ModelError
from qualm.runners.inference.hf.weights import read_weights, whole_module
from tests.support.models.tiny_parts import words_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A GPT-2 of two layers, published with settings that change what it says."""
    place = tmp_path_factory.mktemp("gpt2")
    torch.manual_seed(0)
    tokenizer = words_tokenizer()
    config = GPT2Config(vocab_size=len(tokenizer), n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=2, eos_token_id=3)
    GPT2LMHeadModel(config).save_pretrained(place)
    tokenizer.save_pretrained(place)
    published(place, eos_token_id=3, repetition_penalty=1.9, temperature=0.1, do_sample=True, max_length=3)
    return place


def published(place, **settings):
    (place / "generation_config.json").write_text(json.dumps(settings))


def place_of(folder):
    return {"pretrained_model_name_or_path": str(folder), "local_files_only": True}


def read(folder, dtype="float32", **more):
    return read_weights("model 'm'", AutoModelForCausalLM, place_of(folder), dtype, words_tokenizer(), **more)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_weights_are_in_the_dtype_that_was_asked_for_and_ready_to_answer(folder, dtype):
    module, stops = read(folder, dtype)
    assert {p.dtype for p in module.parameters()} == {getattr(torch, dtype)} and not module.training and stops == {3}
    original = GPT2LMHeadModel.from_pretrained(folder)
    for name, weight in module.state_dict().items():
        assert torch.equal(weight, original.state_dict()[name].to(weight.dtype)), name


def test_of_the_shipped_generation_settings_only_the_stops_are_left(folder):
    settings = read(folder)[0].generation_config
    assert settings.eos_token_id == [3] and settings.pad_token_id == 0
    assert settings.repetition_penalty in (None, 1.0) and settings.temperature in (None, 1.0) and not settings.do_sample


@pytest.mark.parametrize(
    ("ends", "own", "stops"), [(3, 3, {3}), ([5, 7], 3, {3, 5, 7}), (None, 3, {3}), ([9, 4], None, {4, 9}), (None, None, set())]
)
def test_stops_are_the_models_and_the_tokenizers(folder, tmp_path, ends, own, stops):
    copy = shutil.copytree(folder, tmp_path / "copy")
    published(copy, **({} if ends is None else {"eos_token_id": ends}))
    tokenizer = AutoTokenizer.from_pretrained(copy)
    tokenizer.eos_token = None if own is None else tokenizer.convert_ids_to_tokens(own)
    module, found = read_weights("m", AutoModelForCausalLM, place_of(copy), "float32", tokenizer)
    assert found == stops and module.generation_config.eos_token_id == (sorted(stops) or None)


def test_an_encoder_decoder_is_refused(tmp_path):
    config = T5Config(vocab_size=64, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_decoder_layers=1, num_heads=2, decoder_start_token_id=0)
    T5(config).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"^model 'm': T5ForConditionalGeneration is an encoder-decoder; expected a decoder-only model$"):
        read_weights("model 'm'", AutoModelForSeq2SeqLM, place_of(tmp_path), "float32", words_tokenizer())


def changed(folder, tmp_path, change):
    from safetensors.torch import load_file, save_file

    copy = shutil.copytree(folder, tmp_path / "changed")
    weights = load_file(copy / "model.safetensors")
    change(weights)
    save_file(weights, copy / "model.safetensors", {"format": "pt"})
    return copy


def test_weights_that_are_absent_are_named_five_at_most(folder, tmp_path):
    def fewer(weights):
        for name in [n for n in weights if ".h.1." in n]:
            del weights[name]

    with pytest.raises(ModelError) as error:
        whole_module("judge", AutoModelForCausalLM, place_of(changed(folder, tmp_path, fewer)), "float32")
    told, names = str(error.value).split(": weights that its config asks for are absent or of another shape: ")
    layer = sorted(n for n in GPT2LMHeadModel.from_pretrained(folder).state_dict() if ".h.1." in n)
    assert told == "judge" and names.split(", ") == layer[:5]


def test_a_weight_of_another_shape_is_an_error(folder, tmp_path):
    def wider(weights):
        name = next(n for n in weights if n.endswith("ln_f.weight"))
        weights[name] = torch.ones(17)

    with pytest.raises(ModelError, match=r"absent or of another shape: transformer\.ln_f\.weight$"):
        whole_module("judge", AutoModelForCausalLM, place_of(changed(folder, tmp_path, wider)), "float32")


@pytest.mark.parametrize("damage", ["gone", "pickled", "torn", "no config"])
def test_files_that_cannot_be_read_are_told(folder, tmp_path, damage):
    copy = shutil.copytree(folder, tmp_path / "copy")
    file = copy / "model.safetensors"
    if damage == "pickled":
        torch.save(GPT2LMHeadModel.from_pretrained(folder).state_dict(), copy / "pytorch_model.bin")
    if damage == "torn":
        file.write_bytes(file.read_bytes()[:-100])
    elif damage == "no config":
        (copy / "config.json").write_text("{")
    else:
        file.unlink()
    with pytest.raises(ModelError, match=r"^model 'm': its weights cannot be read: "):
        read(copy)


def test_further_arguments_reach_transformers(folder):
    assert read(folder, attn_implementation="eager")[0].config._attn_implementation == "eager"
