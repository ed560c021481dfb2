"""The tiny models are what they stand for: they load by name alone, read their picture, and are small."""

import numpy as np
import PIL.Image
import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from qualm.runners.inference.hf.still_images import still_images_only
from qualm.runners.prompts.question import messages
from tests.support.models.tiny_models import FAMILIES, TEMPLATES


def picture(seed, size):
    return PIL.Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_loads_and_sees(family, tmp_path):
    folder = FAMILIES[family](tmp_path)
    assert sum(p.stat().st_size for p in folder.iterdir()) < 2**20
    with still_images_only():
        processor = AutoProcessor.from_pretrained(folder, backend="pil", local_files_only=True)
    model, found = AutoModelForImageTextToText.from_pretrained(folder, output_loading_info=True)
    assert not found["missing_keys"] and not found["unexpected_keys"]
    prompt = processor.apply_chat_template(
        messages("What color is the cube ?"), chat_template=TEMPLATES.get(family), add_generation_prompt=True, tokenize=False
    )
    logits, lengths = [], []
    for seed, size in ((0, (40, 40)), (1, (40, 40)), (0, (120, 40))):
        inputs = dict(processor(text=[prompt], images=[[picture(seed, size)]], return_tensors="pt"))
        inputs.pop("labels", None)
        lengths.append(inputs["input_ids"].shape[1])
        with torch.no_grad():
            logits.append(model.eval()(**inputs).logits[0, -1])
    assert not torch.allclose(logits[0], logits[1], atol=1e-2), "the picture does not matter"
    fixed = family in ("llava", "gemma3", "paligemma", "kosmos2")  # every picture is shrunk to one size
    assert (lengths[0] == lengths[2]) == fixed


def test_saved_processor_holds_the_template_it_was_given(tmp_path):
    for family in FAMILIES.keys() - TEMPLATES.keys():
        with still_images_only():
            processor = AutoProcessor.from_pretrained(FAMILIES[family](tmp_path / family), backend="pil", local_files_only=True)
        assert processor.chat_template, family
