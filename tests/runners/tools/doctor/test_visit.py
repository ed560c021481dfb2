"""Each check of the doctor finds the fault that it is for, in a model that was made ill by hand, and says what to do."""

import json
import math
import shutil
from dataclasses import replace

import pytest
import torch

from qualm.runners.contracts.models import ModelContext
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.tools.doctor.cases import SHAPES, scene_cases
from qualm.runners.tools.doctor.patient import TOLERANCE, Patient, attempt, judge
from qualm.runners.tools.doctor.visit import DoctorOptions, checks, examine, visit
from tests.support.models.tiny_models import FAMILIES

CASES = scene_cases()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return FAMILIES["qwen2_vl"](tmp_path_factory.mktemp("qwen"))


def patient(folder, **args):
    model = hf_vlm(ModelContext("m", folder), **args)
    model.load()
    return Patient(model, CASES)


def found(patient, *names):
    return {name: attempt(name, checks()[name], patient) for name in names}


def ill(patient, change):
    """The module's forward with its arguments changed."""
    forward = patient.model.module.forward

    def worse(*args, **kwargs):
        return forward(*args, **change(kwargs))

    patient.model.module.forward = worse
    return patient


def test_a_healthy_model(folder):
    verdicts = {f.check: f.verdict for f in examine(patient(folder))}
    assert list(verdicts) == list(checks()) and set(verdicts.values()) == {"ok"}


def test_padding_that_is_read(folder):
    def unmasked(kwargs):
        return {**kwargs, "attention_mask": torch.ones_like(kwargs["attention_mask"])}

    found_ = found(ill(patient(folder), unmasked), "padding", "batches")
    assert found_["padding"].verdict == "fail" and "batch_size 1" in found_["padding"].advice
    assert found_["batches"].verdict == "fail" and found_["batches"].numbers["differ"] > 0


def test_a_cache_at_the_wrong_positions(folder):
    def shifted(kwargs):
        cache = kwargs.get("past_key_values")
        if cache is not None and cache.get_seq_length():
            kwargs = {**kwargs, "position_ids": kwargs["position_ids"] + 3}
        return kwargs

    seen = found(ill(patient(folder), shifted), "padding", "continuation", "log-probabilities", "draws", "priors", "p_yes, p_true")
    assert [f.verdict for f in seen.values()] == ["ok", "warn", "fail", "fail", "fail", "fail"]
    assert seen["log-probabilities"].numbers["worst"] > 0.1


def test_a_picture_that_does_not_arrive(folder):
    blind = patient(folder)
    with torch.no_grad():
        for p in blind.model.module.model.visual.merger.parameters():
            p.zero_()
    finding = found(blind, "picture matters")["picture matters"]
    assert finding.verdict == "fail" and finding.found == "another picture changes log-probabilities by 0 nats at most"


def test_overflow(folder):
    loud = patient(folder, dtype="float16")
    with torch.no_grad():
        loud.model.module.get_output_embeddings().weight.fill_(6e4)
    finding = found(loud, "finite")["finite"]
    assert finding.verdict == "fail" and "not numbers at float16" in finding.found and "bfloat16" in finding.advice


def test_a_prompt_read_both_ways(tmp_path):
    """PaliGemma's: what is read first depends on what comes after, so no prompt may be read in two parts."""
    seen = found(patient(FAMILIES["paligemma"](tmp_path)), "text alone", "padding", "continuation")
    assert [f.verdict for f in seen.values()] == ["warn", "ok", "warn"]
    assert "share: false" in seen["continuation"].advice


def test_a_template_without_the_text(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "mute")
    (copy / "chat_template.jinja").write_text("{% for m in messages %}<|vision_start|><|image_pad|><|vision_end|>{% endfor %}")
    finding = found(patient(copy), "prompt")["prompt"]
    assert finding.verdict == "fail" and "does not hold the question" in finding.found


def test_a_second_beginning_of_sequence(tmp_path):
    """A template that writes <bos> itself, and a tokenizer that adds one: harmless here, a fault in what is asked elsewhere."""
    copy = FAMILIES["gemma3"](tmp_path)
    template = (copy / "chat_template.jinja").read_text()
    (copy / "chat_template.jinja").write_text(template.replace("<bos>", "<bos><bos>"))
    assert "<bos><bos>" in found(patient(copy), "prompt")["prompt"].found


def test_an_end_that_is_not_the_template_s(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "endless")
    for name in ("tokenizer_config.json", "generation_config.json", "config.json"):
        settings = json.loads((copy / name).read_text())
        if name == "tokenizer_config.json":
            settings["eos_token"] = "<|endoftext|>"
        elif name == "generation_config.json":
            settings["eos_token_id"] = 0
        (copy / name).write_text(json.dumps(settings))
    finding = found(patient(copy), "stop token")["stop token"]
    assert finding.verdict == "warn" and "<|im_end|>" in finding.found and "eos_token_id" in finding.advice


def test_letters_that_are_no_tokens(tmp_path):
    folder = FAMILIES["llava"](tmp_path)
    text = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(text.replace('"C":', '"CCC":').replace('"yes":', '"yess":'))
    seen = found(patient(folder), "option letters", "yes, no, True")
    assert [f.verdict for f in seen.values()] == ["fail", "fail"]
    assert "option letter C is no single known token" in seen["option letters"].found


def test_what_a_port_raises_is_the_finding(folder):
    def refuse(kwargs):
        raise AttributeError("no such mask")

    finding = found(ill(patient(folder), refuse), "padding")["padding"]
    assert finding.verdict == "fail" and finding.found == "AttributeError: no such mask"


@pytest.mark.parametrize(("worst", "verdict"), [(0.0, "ok"), (1e-4, "ok"), (2e-4, "warn"), (0.02, "fail"), (math.inf, "fail")])
def test_verdicts(worst, verdict):
    finding = judge("x", worst, TOLERANCE["float32"], "apart", "do this")
    assert finding.verdict == verdict and finding.advice == ("" if verdict == "ok" else "do this")


def test_scenes_have_shapes_and_a_shared_picture():
    assert len({c.image.size for c in CASES}) == len(SHAPES)
    assert CASES[-1].pixels == CASES[-2].pixels == CASES[0].pixels and CASES[1].pixels != CASES[0].pixels
    assert len({c.question for c in CASES}) == len({c.stream for c in CASES}) == len(CASES)


def test_visit(folder, tmp_path):
    wish = DoctorOptions("m", "hf_vlm", {"dtype": "float32"}, folder, "cpu", drift=True)
    findings = {f.check: f for f in visit(wish, CASES)}
    assert list(findings)[:2] == ["files", "weights"] and list(findings)[-2:] == ["speed and memory", "drift"]
    weights = findings["weights"].numbers
    assert weights["bytes"] == 4 * weights["parameters"]
    assert findings["speed and memory"].numbers["seconds"] > 0
    assert findings["drift"].numbers["samples"] == 5
    copy = shutil.copytree(folder, tmp_path / "torn")
    (copy / "model.safetensors").unlink()
    (only,) = visit(replace(wish, folder=copy), CASES)
    assert (only.check, only.verdict) == ("files", "fail") and "safetensors" in only.found


def test_half_precision_is_within_its_tolerance(folder):
    for dtype in ("bfloat16", "float16"):
        seen = found(patient(folder, dtype=dtype), "finite", "padding", "continuation", "log-probabilities", "option logits")
        assert {f.verdict for f in seen.values()} <= {"ok", "warn"}, (dtype, seen)
