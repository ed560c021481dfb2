"""The small networks: their sizes, what they start from, and the processor that goes with them."""

import numpy as np
import PIL.Image
import pytest
import torch

from qualm.runners.training.data import build_tokenizer, vocabulary
from qualm.runners.training.network import build_model, build_processor
from qualm.runners.training.pictures import normalise

SIZE = {"pixels": 32, "patch": 8, "width": 48, "layers": 3, "heads": 4, "vision_layers": 2}


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(vocabulary())


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(1)
    return build_model(tokenizer, **SIZE)


def test_the_sizes_are_those_that_were_asked_for(model, tokenizer):
    vision, text, whole = model.config.vision_config, model.config.text_config, model.config
    assert (vision.hidden_size, vision.intermediate_size, vision.num_hidden_layers, vision.num_attention_heads) == (48, 192, 2, 4)
    assert (vision.image_size, vision.patch_size, vision.projection_dim) == (32, 8, 48)
    assert (text.hidden_size, text.intermediate_size, text.num_hidden_layers) == (48, 128, 3), "8/3 of the width, a multiple of 8"
    assert (text.num_attention_heads, text.num_key_value_heads, text.max_position_embeddings, text.rms_norm_eps) == (4, 4, 1024, 1e-5)
    assert (text.vocab_size, text.initializer_range, text.tie_word_embeddings, text.bos_token_id) == (len(tokenizer), 0.06, False, None)
    assert (text.pad_token_id, text.eos_token_id) == (tokenizer.pad_token_id, tokenizer.eos_token_id)
    assert (whole.image_seq_length, whole.vision_feature_layer, whole.vision_feature_select_strategy) == (16, -1, "default")
    assert whole.image_token_id == tokenizer.convert_tokens_to_ids("<image>") and whole.tie_word_embeddings is False
    head, words = model.get_output_embeddings().weight, model.get_input_embeddings().weight
    assert head.data_ptr() != words.data_ptr()


@pytest.mark.parametrize(("width", "inner"), [(48, 128), (64, 168), (96, 256), (32, 80)])
def test_inner_widths_are_multiples_of_eight(tokenizer, width, inner):
    assert build_model(tokenizer, **{**SIZE, "width": width, "layers": 1, "vision_layers": 1}).config.text_config.intermediate_size == inner


def test_weights_follow_from_the_seed_and_attention_begins_with_likeness(model, tokenizer):
    torch.manual_seed(1)
    again = build_model(tokenizer, **SIZE)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    for layer in model.model.language_model.layers:
        assert torch.equal(layer.self_attn.k_proj.weight, layer.self_attn.q_proj.weight)
    projector = model.model.multi_modal_projector
    for weight in (projector.linear_1.weight.detach(), projector.linear_2.weight.detach()):
        assert float(weight.std()) == pytest.approx(0.06, rel=0.05) and abs(float(weight.mean())) < 0.01


def test_it_answers_greedily_until_its_end(model, tokenizer):
    settings = model.generation_config
    assert (settings.pad_token_id, settings.eos_token_id, settings.bos_token_id, settings.do_sample) == (
        tokenizer.pad_token_id, tokenizer.eos_token_id, None, False,
    )  # fmt: skip


@pytest.mark.parametrize("size", [(32, 32), (64, 20)])
def test_the_processor_brings_any_picture_to_the_models_size(tokenizer, size):
    processor = build_processor(tokenizer, pixels=32, patch=8)
    picture = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    inputs = processor(text=["<user><image>What?"], images=[[picture]], return_tensors="pt")
    assert inputs["pixel_values"].shape == (1, 3, 32, 32)
    assert (inputs["input_ids"] == tokenizer.convert_tokens_to_ids("<image>")).sum() == 16
    pixels = np.asarray(picture.resize((32, 32), PIL.Image.Resampling.BICUBIC))
    np.testing.assert_allclose(inputs["pixel_values"][0].numpy(), normalise(pixels[None])[0], atol=1e-5)


def test_the_processors_settings(tokenizer):
    processor = build_processor(tokenizer, pixels=32, patch=8)
    settings = processor.image_processor
    assert (settings.do_resize, settings.do_center_crop, settings.do_rescale, settings.do_normalize, settings.do_convert_rgb) == (
        True, False, True, True, True,
    )  # fmt: skip
    assert settings.resample == 3 and processor.num_additional_image_tokens == 1 and processor.patch_size == 8
    assert processor.chat_template == tokenizer.chat_template
