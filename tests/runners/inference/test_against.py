"""`qualm doctor model --against vllm`, on a fake engine over the same weights, sound and ill."""

import sys

import pytest

from qualm.runners.inference.check_cases import scene_cases
from qualm.runners.inference.check_model import DoctorOptions, check_backend, load_onto_device, open_model
from qualm.runners.inference.model_under_test import ModelUnderTest
from tests.support.models import fake_vllm
from tests.support.models.tiny_models import tiny_llava


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("llava"))


@pytest.fixture(scope="module")
def examined(folder):
    return under_test(folder, "float32")


def under_test(folder, dtype):
    wish = DoctorOptions("m", "hf_vlm", {"dtype": dtype}, folder, "cpu", against="vllm")
    model = open_model(wish)
    load_onto_device(model, "cpu")
    return ModelUnderTest(model, scene_cases(3)), wish.against, wish.folder, wish.args


@pytest.fixture(autouse=True)
def _fake(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "vllm", fake_vllm.module())
    monkeypatch.chdir(tmp_path)


def test_the_same_weights_give_the_same_numbers(examined):
    found = check_backend(*examined)
    assert (found.check, found.verdict) == ("against vllm", "ok") and found.numbers["worst"] < 1e-4
    tokens = sum(len(parts["answer"].tokens) for parts in examined[0].baseline)
    assert found.numbers == {"worst": found.numbers["worst"], "tokens": tokens, "differ": 0}
    assert found.found.startswith(f"log-probabilities of {tokens} tokens by vllm against plain forward passes: ")
    assert found.found.endswith("; 0 of 3 answers differ from those of hf_vlm")


@pytest.mark.slow
def test_log_probabilities_of_another_temperature_are_found(examined, folder, monkeypatch):
    plain = fake_vllm.LLM._logprobs
    monkeypatch.setattr(fake_vllm.LLM, "_logprobs", lambda self, ids, extra: (plain(self, ids, extra) / 2).log_softmax(-1))
    found = check_backend(*examined)
    assert found.verdict == "fail" and found.numbers["worst"] > 0.1 and found.numbers["differ"] == 0
    advice = "do not compare numbers of vllm with those of hf_vlm; "
    assert found.advice == f"{advice}tell the developers of vllm", "float32 is advice for other types alone"
    half = check_backend(*under_test(folder, "bfloat16"))
    assert half.advice == f"{advice}try `--dtype float32`, or tell the developers of vllm"


def test_other_prompts_are_found_before_any_weight_is_read(examined, monkeypatch):
    from qualm.runners.plugins.models._vllm import VllmModel

    monkeypatch.setattr(VllmModel, "render", lambda self, turns: "other")
    fake_vllm.LLM.made.clear()
    assert (check_backend(*examined).verdict, fake_vllm.LLM.made) == ("fail", [])
