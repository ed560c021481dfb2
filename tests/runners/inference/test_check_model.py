"""Each check of the doctor finds the fault that it is for, in a model that was made ill by hand; a whole visit, step by step."""

import json
import math
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from importlib import metadata
from types import SimpleNamespace

import pytest
import torch

from qualm.runners.contracts.models import ANSWER, ModelContext, ModelError
from qualm.runners.inference import check_model as module
from qualm.runners.inference.check_cases import SHAPES, Case, scene_cases
from qualm.runners.inference.check_model import (
    DoctorOptions,
    check_drift,
    check_model,
    checks,
    load_onto_device,
    open_model,
    speed,
)
from qualm.runners.inference.hf.self_check import TOLERANCE
from qualm.runners.inference.model_under_test import CheckResult, ModelUnderTest, judge_difference, run_check
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from tests.support.models.loaded import loaded_model
from tests.support.models.plain_vlm import picture
from tests.support.models.tiny_models import FAMILIES


@cache
def cases():
    """Return the doctor's cases with images of a quarter of their width and height."""
    return [replace(case, image=case.image.reduce(4)) for case in scene_cases()]


@pytest.fixture(scope="module")
def folder(family_folder):
    return family_folder("qwen2_vl")


def under_test(folder, **args):
    return ModelUnderTest(loaded_model(folder, **args), cases())


def found(under_test, *names):
    return {name: run_check(name, checks()[name], under_test) for name in names}


def ill(under_test, change):
    """The module's forward with its arguments changed."""
    forward = under_test.model.module.forward

    def worse(*args, **kwargs):
        return forward(*args, **change(kwargs))

    under_test.model.module.forward = worse
    return under_test


@pytest.mark.slow
def test_padding_that_is_read(folder):
    def unmasked(kwargs):
        return {**kwargs, "attention_mask": torch.ones_like(kwargs["attention_mask"])}

    found_ = found(ill(under_test(folder), unmasked), "padding", "batches")
    assert found_["padding"].verdict == "fail" and "batch_size 1" in found_["padding"].advice
    assert found_["batches"].verdict == "fail" and found_["batches"].numbers["differ"] > 0


@pytest.mark.slow
def test_a_cache_at_the_wrong_positions(folder):
    def shifted(kwargs):
        cache = kwargs.get("cache", kwargs.get("past_key_values"))  # renamed in transformers 5.24
        if cache is not None and cache.get_seq_length():
            kwargs = {**kwargs, "position_ids": kwargs["position_ids"] + 3}
        return kwargs

    seen = found(ill(under_test(folder), shifted), "padding", "continuation", "log-probabilities", "draws", "priors", "p_yes, p_true")
    assert [f.verdict for f in seen.values()] == ["ok", "warn", "fail", "fail", "fail", "fail"]
    assert seen["log-probabilities"].numbers["worst"] > 0.1


def test_a_picture_that_does_not_arrive(folder):
    blind = under_test(folder)
    with torch.no_grad():
        for p in blind.model.module.model.visual.merger.parameters():
            p.zero_()
    finding = found(blind, "image matters")["image matters"]
    assert finding.verdict == "fail" and finding.found == "another image changes log-probabilities by 0 nats at most"


def test_overflow(folder):
    loud = under_test(folder, dtype="float16")
    with torch.no_grad():
        loud.model.module.get_output_embeddings().weight.fill_(6e4)
    finding = found(loud, "finite")["finite"]
    assert finding.verdict == "fail" and "NaN or infinite at float16" in finding.found and "bfloat16" in finding.advice


def test_a_prompt_read_both_ways(family_folder):
    """PaliGemma's: what is read first depends on what comes after, so no prompt may be read in two parts."""
    seen = found(under_test(family_folder("paligemma")), "text alone", "padding", "continuation")
    assert [f.verdict for f in seen.values()] == ["warn", "ok", "warn"]
    assert "share: false" in seen["continuation"].advice


def test_a_template_without_the_text(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "mute")
    (copy / "chat_template.jinja").write_text("{% for m in messages %}<|vision_start|><|image_pad|><|vision_end|>{% endfor %}")
    finding = found(under_test(copy), "prompt")["prompt"]
    assert finding.verdict == "fail" and "does not hold the question" in finding.found


def test_a_second_beginning_of_sequence(tmp_path):
    """A template that writes <bos> itself, and a tokenizer that adds one: harmless here, a fault in what is asked elsewhere."""
    copy = FAMILIES["gemma3"](tmp_path)
    template = (copy / "chat_template.jinja").read_text()
    (copy / "chat_template.jinja").write_text(template.replace("<bos>", "<bos><bos>"))
    assert "<bos><bos>" in found(under_test(copy), "prompt")["prompt"].found


def test_an_end_that_is_not_the_template_s(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "endless")
    for name in ("tokenizer_config.json", "generation_config.json", "config.json"):
        settings = json.loads((copy / name).read_text())
        if name == "tokenizer_config.json":
            settings["eos_token"] = "<|endoftext|>"
        elif name == "generation_config.json":
            settings["eos_token_id"] = 0
        (copy / name).write_text(json.dumps(settings))
    finding = found(under_test(copy), "stop token")["stop token"]
    assert finding.verdict == "warn" and "<|im_end|>" in finding.found and "eos_token_id" in finding.advice


def test_letters_that_are_no_tokens(tmp_path):
    folder = FAMILIES["llava"](tmp_path)
    text = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(text.replace('"C":', '"CCC":').replace('"yes":', '"yess":'))
    seen = found(under_test(folder), "option letters", "yes, no, True")
    assert [f.verdict for f in seen.values()] == ["fail", "fail"]
    assert "option letter C is not a single known token" in seen["option letters"].found


def test_an_unexpected_error_is_not_blamed_on_the_model(folder, tmp_path, monkeypatch):
    def refuse(kwargs):
        raise AttributeError("no such mask")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    finding = found(ill(under_test(folder), refuse), "padding")["padding"]
    versions = f"transformers {metadata.version('transformers')}, torch {metadata.version('torch')}"
    assert (finding.verdict, finding.found) == ("error", f"failed inside Qualm with {versions}: AttributeError: no such mask")
    (log,) = tmp_path.glob("doctor-padding-*.log")
    assert finding.advice == f"this says nothing about the model; please report it (traceback in {log.name})"
    assert "AttributeError: no such mask" in log.read_text()


def test_an_unexpected_error_of_loading_is_a_result(llava, tmp_path, monkeypatch):
    def refuse(*_):
        raise RuntimeError("no such operator")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "load_onto_device", refuse)
    files, weights = check_model(wish(llava), FEW)
    assert files.verdict == "ok" and (weights.check, weights.verdict) == ("weights", "error") and "no such operator" in weights.found
    monkeypatch.setattr(module, "open_model", refuse)
    (only,) = check_model(wish(llava), FEW)
    assert (only.check, only.verdict) == ("files", "error")


@pytest.mark.parametrize(("worst", "verdict"), [(0.0, "ok"), (1e-4, "ok"), (2e-4, "warn"), (0.02, "fail"), (math.inf, "fail")])
def test_verdicts(worst, verdict):
    finding = judge_difference("x", worst, TOLERANCE["float32"], "apart", "do this")
    assert finding.verdict == verdict and finding.advice == ("" if verdict == "ok" else "do this")


def test_scenes_have_shapes_and_a_shared_picture():
    drawn = scene_cases()
    assert len({c.image.size for c in drawn}) == len(SHAPES)
    assert drawn[-1].pixels == drawn[-2].pixels == drawn[0].pixels and drawn[1].pixels != drawn[0].pixels
    assert len({c.question for c in drawn}) == len({c.stream for c in drawn}) == len(drawn)


@pytest.mark.slow
def test_visit(folder, tmp_path):
    wish = DoctorOptions("m", "hf_vlm", {"dtype": "float32"}, folder, "cpu", drift=True)
    findings = {f.check: f for f in check_model(wish, cases())}
    assert list(findings) == ["files", "weights", *checks(), "speed and memory", "drift"]
    assert {f.verdict for name, f in findings.items() if name != "drift"} == {"ok"}
    weights = findings["weights"].numbers
    assert weights["bytes"] == 4 * weights["parameters"]
    assert findings["speed and memory"].numbers["seconds"] > 0
    assert findings["drift"].numbers["samples"] == 5
    copy = shutil.copytree(folder, tmp_path / "torn")
    (copy / "model.safetensors").unlink()
    (only,) = check_model(replace(wish, folder=copy), cases())
    assert (only.check, only.verdict) == ("files", "fail") and "safetensors" in only.found


@pytest.mark.slow
def test_half_precision_is_within_its_tolerance(folder):
    for dtype in ("bfloat16", "float16"):
        seen = found(under_test(folder, dtype=dtype), "finite", "padding", "continuation", "log-probabilities", "option logits")
        assert {f.verdict for f in seen.values()} <= {"ok", "warn"}, (dtype, seen)


FIRST = picture(0, (40, 30))
FEW = [Case("What color is the cube ?", FIRST, "a", 1), Case("What ?", picture(1), "b", 2), Case("What is it ?", FIRST, "a", 3)]


@pytest.fixture(scope="module")
def llava(family_folder):
    return family_folder("llava")


@pytest.fixture(scope="module")
def examined(llava):
    model = hf_vlm(ModelContext("m", llava))
    load_onto_device(model, "cpu")
    return ModelUnderTest(model, FEW)


def wish(llava, **more):
    return DoctorOptions("m", "hf_vlm", {"dtype": "float32"}, llava, "cpu", **more)


def test_after_a_failure_nothing_is_timed(llava, monkeypatch):
    monkeypatch.setattr(
        module, "examine", lambda examined: iter([CheckResult("x", "ok", ""), CheckResult("y", "fail", ""), CheckResult("z", "ok", "")])
    )
    assert [f.check for f in check_model(wish(llava, drift=True), FEW)] == ["files", "weights", "x", "y", "z"]
    monkeypatch.setattr(module, "examine", lambda examined: iter([CheckResult("x", "warn", "")]))
    assert [f.check for f in check_model(wish(llava), FEW)] == ["files", "weights", "x", "speed and memory"]


def test_files_or_weights_that_cannot_be_read_end_it(llava, tmp_path):
    (only,) = check_model(wish(tmp_path), FEW)
    assert (only.check, only.verdict) == ("files", "fail") and only.found.startswith("model 'm': ") and only.advice
    copy = shutil.copytree(llava, tmp_path / "torn")
    file = copy / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    files, weights = check_model(wish(copy), FEW)
    assert (files.verdict, weights.check, weights.verdict) == ("ok", "weights", "fail") and "cannot be read" in weights.found
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "model_type": "nonsense"}))
    assert [f.verdict for f in check_model(wish(copy), FEW)][-1] == "fail"


def test_a_key_that_is_missing_may_be_a_fault_of_transformers(llava, monkeypatch):
    def refuse(*_):
        raise KeyError("image_token")

    monkeypatch.setattr(module, "open_model", refuse)
    (only,) = check_model(wish(llava), FEW)
    assert (only.check, only.verdict, only.found) == ("files", "fail", "KeyError: 'image_token'")
    assert only.advice.endswith(f"transformers {metadata.version('transformers')} cannot read them")


def test_an_error_is_one_line_with_its_kind_where_it_is_not_ours():
    assert module._line(ModelError("a\n  b")) == "a b" and module._line(KeyError("x\ny")) == "KeyError: 'x\\ny'"


def test_a_model_without_weights_is_none_for_the_doctor():
    served = DoctorOptions("m", "openai", {"model": "x", "base_url": "http://127.0.0.1:9/v1"})
    with pytest.raises(ModelError, match=r"^model 'm': openai has no weights here to examine; the doctor is for models of hf_vlm$"):
        open_model(served)


def test_what_the_files_are(examined, llava, tmp_path):
    found = module._files(examined.model)
    assert found.found == f"{llava}: safetensors, LlavaProcessor, CLIPImageProcessorPil, {type(examined.model.tokenizer).__name__}"
    assert found.numbers == {"digest": examined.model.digest}
    base = SimpleNamespace(folder=None, hub="owner/model", revision="abc", adapters=(tmp_path, tmp_path))
    model = examined.model
    hub = SimpleNamespace(processor=model.processor, tokenizer=model.tokenizer, text_only=False, base=base, digest="d", plain="")
    assert module._files(hub).found.startswith("owner/model@abc: safetensors, ") and module._files(hub).found.endswith(
        ", 2 adapters merged in"
    )


def test_weights_are_counted_and_must_be_numbers(examined):
    count = sum(p.numel() for p in examined.model.module.parameters())
    found = module._weights(examined.model, 1.25)
    assert found.numbers == {"parameters": count, "bytes": 4 * count, "seconds": 1.25}
    assert found.found == (
        f"LlavaForConditionalGeneration, {count / 1e6:,.3f} million parameters, {4 * count / 2**20:,.1f} MiB as float32, read in 1.2 s"
    )
    weight = examined.model.module.get_output_embeddings().weight
    before = weight.detach().clone()
    with torch.no_grad():
        weight[0, 0] = torch.inf
    found = module._weights(examined.model, 1.0)
    with torch.no_grad():
        weight.copy_(before)
    assert (found.verdict, found.found) == ("fail", "not numbers in lm_head.weight")


def test_weights_in_few_bits_are_counted_as_they_are_kept():
    plain = torch.zeros(3, 4)
    assert (module._count_bytes(plain), module._count_elements(plain)) == (48, 12)
    state = SimpleNamespace(absmax=torch.zeros(2), shape=torch.Size([5, 4]))
    packed = SimpleNamespace(nbytes=10, shape=torch.Size([10, 1]), quant_state=state)
    assert (module._count_bytes(packed), module._count_elements(packed)) == (18, 20)
    of_tensors = SimpleNamespace(__tensor_flatten__=lambda: (["a", "b"], None), a=torch.zeros(6, dtype=torch.int8), b=torch.zeros(2))
    assert module._count_bytes(of_tensors) == 14


def test_speed_is_a_sample_of_the_whole_batch(examined, monkeypatch):
    clock = iter((10.0, 16.0))
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    asked = []
    monkeypatch.setattr(examined, "answers", asked.append)
    found = speed(examined)
    assert found.numbers["seconds"] == 2.0 and found.numbers["peak_bytes"] > 2**20 and found.numbers["device"] == "cpu"
    assert found.found.startswith("2 s a sample with all signals and 10 draws, in a batch of 3 on cpu; ")
    (requests,) = asked
    assert requests[0].parts[-10:] == tuple(f"draw {k}" for k in range(1, 11)) and requests[0].parts[:-10] == module.SIGNALS
    assert "options" not in module.SIGNALS and ANSWER in module.SIGNALS


def test_signals_that_cannot_be_had_are_left_out_of_it(examined, monkeypatch):
    plain = examined.model.encode

    def encode(requests):
        if "without_image" in requests[0].parts:
            raise ModelError("it wants a picture")
        return plain(requests)

    monkeypatch.setattr(examined.model, "encode", encode)
    assert module._gives(examined, "p_yes") and not module._gives(examined, "without_image")


def test_drift_counts_answers_that_change_with_the_batch_and_the_dtype(examined, llava, monkeypatch):
    found = check_drift(examined, wish(llava))
    assert found.numbers["samples"] == 3 and found.verdict == ("warn" if found.numbers["by_batch"] else "ok")

    def answers(self, requests):
        """As if the second answer depended on the batch, and the third on the dtype."""
        names = [r.question for r in requests]
        said = {"What ?": [1] if len(names) > 1 else [2], "What is it ?": [3]}
        return [{ANSWER: SimpleNamespace(tokens=said.get(name, [0]))} for name in names]

    other = ModelUnderTest(examined.model, FEW)
    other.__dict__["baseline"] = [{ANSWER: SimpleNamespace(tokens=tokens)} for tokens in ([0], [1], [4])]
    monkeypatch.setattr(ModelUnderTest, "answers", answers)
    found = check_drift(other, wish(llava))
    assert found.numbers == {"samples": 3, "by_batch": 1, "by_dtype": 1} and found.verdict == "warn" and "float32" in found.advice
    assert found.found == "as bfloat16 1 of 3 answers differ between batches of 1 and 3, 1 of 3 from those as float32"
