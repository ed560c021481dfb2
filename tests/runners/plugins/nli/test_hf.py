import json
import re
from collections import Counter

import numpy as np
import pytest

from qualm.runners.contracts.nli import NliContext, NliError
from qualm.runners.inference.nli import ENTAILMENT, open_nli, probabilities
from qualm.runners.plugins.nli.hf import class_order
from qualm.runners.runtime.settings import Settings
from tests.support.models.tiny_nli import LABELS, nli_model

TEXTS = ["red", "a red cube", "two large metal spheres", "no", "it cannot be seen", "what color is it ? gray", "红色", "yes"]
PAIRS = [(a, b) for a in TEXTS for b in TEXTS if a != b]


@pytest.fixture(scope="module", params=["deberta-v2", "roberta"])
def folder(request, tmp_path_factory):
    return nli_model(tmp_path_factory.mktemp("nli") / "m", request.param)


@pytest.fixture(autouse=True)
def one_thread():
    import torch

    torch.set_num_threads(1)


def opened(folder, cache, batch_size=8, **args):
    context = NliContext(Settings(device="cpu", batch_size=batch_size, progress=False), Counter())
    return open_nli({"plugin": "hf", "args": {"artifact": str(folder), "labels": None, "dtype": None, **args}}, context, cache)


def test_logits_are_those_of_the_plain_model_one_pair_at_a_time(folder, tmp_path):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder).eval()
    place = [LABELS.index(name) for name in ("entailment", "neutral", "contradiction")]
    with torch.inference_mode():
        expected = [model(**tokenizer(p, h, return_tensors="pt")).logits[0, place].tolist() for p, h in PAIRS]
    found = opened(folder, tmp_path).logits(PAIRS)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert np.abs(found[0] - found[1]).max() > 0.01  # the pairs differ


@pytest.mark.slow
def test_a_resumed_run_gives_the_same_bits(folder, tmp_path):
    whole = opened(folder, tmp_path / "a", 1).logits(PAIRS)
    cut = opened(folder, tmp_path / "b", 1)
    batches = cut.engine.infer

    def two_batches(pairs):
        stream = batches(pairs)
        yield next(stream)
        yield next(stream)
        raise NliError("killed")

    cut.engine.infer = two_batches
    with pytest.raises(NliError, match="killed"):
        cut.logits(PAIRS)
    again = opened(folder, tmp_path / "b", 1)
    assert again.logits(PAIRS).tolist() == whole.tolist()
    assert 0 < again.counters["nli pairs stored"] < len(PAIRS)


def test_too_little_memory_halves_the_batch(folder, tmp_path):
    import torch

    one = opened(folder, tmp_path, 64)
    one.engine.load()
    plain, sizes = one.engine._model.forward, []

    def tight(*args, **kwargs):
        sizes.append(len(kwargs["input_ids"]))
        if sizes[-1] > 10:
            raise torch.OutOfMemoryError("no room")
        return plain(*args, **kwargs)

    one.engine._model.forward = tight
    found = one.logits(PAIRS)
    np.testing.assert_allclose(found, opened(folder, tmp_path / "whole", 64).logits(PAIRS), atol=2e-5)
    assert one.counters["nli batches halved for want of memory"] == sum(size > 10 for size in sizes) >= 2
    one.engine._model.forward = lambda **_: (_ for _ in ()).throw(torch.OutOfMemoryError("none at all"))
    with pytest.raises(NliError, match=r"one pair of \d+ tokens is more than the device's memory holds"):
        one.logits([("red", "blue and red")])


def test_long_texts_are_cut_and_counted(folder, tmp_path):
    one = opened(folder, tmp_path)
    assert np.isfinite(one.logits([("red " * 5000, "blue"), ("red", "blue")])).all()
    assert one.counters["nli pairs cut to 128 tokens"] == 1


def change(folder, tmp_path, labels):
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {str(i): n for i, n in enumerate(labels)}
    config["label2id"] = {n: i for i, n in enumerate(labels)}
    target = tmp_path / "changed"
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).symlink_to(file) if file.name != "config.json" else (target / file.name).write_text(json.dumps(config))
    return target


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["CONTRADICTION", "NEUTRAL", "ENTAILMENT"], (2, 1, 0)),
        (["entailment", "neutral", "contradiction"], (0, 1, 2)),
        (["Entails", "contradicts", "neutral"], (0, 2, 1)),
    ],
)
def test_order_of_the_classes_is_the_configs(folder, tmp_path, labels, expected):
    assert class_order(change(folder, tmp_path, labels), None) == expected


def test_classes_that_cannot_be_told(folder, tmp_path):
    unnamed = change(folder, tmp_path, ["LABEL_0", "LABEL_1", "LABEL_2"])
    with pytest.raises(NliError, match=re.escape("its config names LABEL_0, LABEL_1, LABEL_2; if it is an NLI model, say `labels: [...]`")):
        class_order(unnamed, None)
    assert class_order(unnamed, ["neutral", "entailment", "contradiction"]) == (1, 0, 2)
    with pytest.raises(NliError, match=r"labels: expected entailment, neutral and contradiction, or .*, in any order, got yes, no"):
        class_order(unnamed, ["yes", "no"])
    with pytest.raises(NliError, match="the spec says"):
        class_order(folder, ["entailment", "neutral", "contradiction"])
    (tmp_path / "twice").mkdir()
    with pytest.raises(NliError, match="its config names entailment, neutral, neutral"):
        class_order(change(folder, tmp_path / "twice", ["entailment", "neutral", "neutral "]), None)
    (tmp_path / "two").mkdir()
    two = change(folder, tmp_path / "two", ["entailment", "not_entailment"])
    with pytest.raises(NliError, match="the spec says"):
        class_order(two, ["entailment", "neutral", "contradiction"])
    (tmp_path / "unnamed").mkdir()
    with pytest.raises(NliError, match=re.escape("has 2 classes (LABEL_0, LABEL_1); `labels` names 3")):
        class_order(change(folder, tmp_path / "unnamed", ["LABEL_0", "LABEL_1"]), ["entailment", "neutral", "contradiction"])


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["not_entailment", "entailment"], None),
        (["Non-Entailment", "ENTAILMENT"], None),
        (["LABEL_0", "LABEL_1"], ["not_entailment", "entailment"]),
    ],
)
def test_a_model_of_two_classes_gives_the_probability_of_entailment(tmp_path, names, labels):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    two = nli_model(tmp_path / "two", labels=names)
    tokenizer, model = AutoTokenizer.from_pretrained(two), AutoModelForSequenceClassification.from_pretrained(two).eval()
    with torch.inference_mode():
        expected = [model(**tokenizer(p, h, return_tensors="pt")).logits[0].softmax(0)[1].item() for p, h in PAIRS]
    one = opened(two, tmp_path / "cache", labels=labels)
    found = probabilities(one.logits([*PAIRS, ("red", " red"), ("red", "")]))
    assert found.shape == (len(PAIRS) + 2, 2)
    np.testing.assert_allclose(found[:-2, ENTAILMENT], expected, atol=2e-5)
    assert found[-2:, ENTAILMENT].tolist() == [1.0, pytest.approx(0.0)]
    again = opened(two, tmp_path / "cache", labels=labels)
    assert again.logits(PAIRS).tolist() == one.logits(PAIRS).tolist() and again.counters["nli pairs computed"] == 0


def test_what_is_no_classifier_is_refused(tmp_path):
    from transformers import AutoModel

    whole = nli_model(tmp_path / "whole", "roberta")
    AutoModel.from_pretrained(whole).save_pretrained(tmp_path / "bare")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "bare" / name).write_bytes((whole / name).read_bytes())
    with pytest.raises(NliError, match=r"weights that its config asks for are absent or of another shape: classifier.*; it must be an NLI"):
        opened(tmp_path / "bare", tmp_path / "cache").logits([("a", "b")])
    with pytest.raises(NliError, match=r"expected config\.json"):
        opened(tmp_path / "nowhere", tmp_path / "cache")


def test_identity_follows_weights_dtype_and_order(folder, tmp_path):
    other = nli_model(tmp_path / "other", seed=1)
    unnamed = change(folder, tmp_path, ["LABEL_0", "LABEL_1", "LABEL_2"])
    ways = [["neutral", "entailment", "contradiction"], LABELS]
    engines = [opened(f, tmp_path, **a).engine for f, a in ((folder, {}), (other, {}), (folder, {"dtype": "bfloat16"}))]
    engines += [opened(unnamed, tmp_path, labels=way).engine for way in ways]
    assert len({engine.identity for engine in engines}) == 5
