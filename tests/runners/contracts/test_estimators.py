import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.runners.contracts import estimators
from qualm.runners.contracts.estimators import EstimatorContext, means, sums
from qualm.runners.contracts.nli import NliError


@given(st.lists(st.lists(st.floats(-100, 0), max_size=5), max_size=6))
def test_sums_and_means_of_every_row(rows):
    arrays = [np.array(row, dtype=float) for row in rows]
    total, length = sums(arrays)
    np.testing.assert_allclose(total, [math.fsum(row) for row in rows], atol=1e-9)
    assert length.tolist() == [len(row) for row in rows]
    np.testing.assert_allclose(means(arrays), [math.fsum(row) / len(row) if row else math.nan for row in rows], atol=1e-9)


def model(classes):
    return SimpleNamespace(classes=classes, engine=SimpleNamespace(name="hf (zeroshot)"))


def test_a_model_of_two_classes_tells_no_contradictions(monkeypatch):
    monkeypatch.setattr(estimators, "open_nli", lambda *_: model(2))
    context = EstimatorContext()
    assert context.nli("m", "entailment").classes == 2
    with pytest.raises(NliError, match=r"hf \(zeroshot\) has two classes.*: choose an NLI model of three classes, or, .*same: entailment"):
        context.nli("m")


def test_an_encoder_gives_cosines_only(monkeypatch):
    monkeypatch.setattr(estimators, "open_nli", lambda chosen, *_: model(chosen))
    context = EstimatorContext()
    assert context.nli(1, "cosine").classes == 1
    with pytest.raises(NliError, match="gives cosine similarities and tells no entailment: set `similarity: cosine`"):
        context.nli(1, "entailment")
    with pytest.raises(NliError, match=r"gives no cosine: choose an encoder, `nli: \{embedding: \{hub: MODEL\}\}`"):
        context.nli(3, "cosine")


def test_a_model_of_inference_is_opened_once_for_all_who_name_it(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(estimators, "open_nli", lambda chosen, context, cache: opened.append((chosen, cache)) or model(3))
    context = EstimatorContext(cache=tmp_path)
    first = context.nli({"plugin": "hf", "args": {"a": 1}})
    assert context.nli({"args": {"a": 1}, "plugin": "hf"}) is first
    assert context.nli({"plugin": "hf", "args": {"a": 2}}) is not first
    assert len(opened) == 2 and opened[0][1] == tmp_path
