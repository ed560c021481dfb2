"""A whole examination: its order, where it ends early, and what it says of files, weights, speed and drift."""

import json
import shutil
from types import SimpleNamespace

import pytest
import torch

from qualm.runners.contracts.models import ANSWER, ModelContext, ModelError
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.tools.doctor import visit as module
from qualm.runners.tools.doctor.cases import Case
from qualm.runners.tools.doctor.examine import checks
from qualm.runners.tools.doctor.patient import CheckResult, Patient
from qualm.runners.tools.doctor.visit import DoctorOptions, drift, loaded, opened, speed, visit
from tests.support.models.plain_vlm import picture
from tests.support.models.tiny_models import FAMILIES

FIRST = picture(0, (40, 30))
CASES = [Case("What color is the cube ?", FIRST, "a", 1), Case("What ?", picture(1), "b", 2), Case("What is it ?", FIRST, "a", 3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return FAMILIES["llava"](tmp_path_factory.mktemp("llava"))


@pytest.fixture(scope="module")
def patient(folder):
    model = hf_vlm(ModelContext("m", folder))
    loaded(model, "cpu")
    return Patient(model, CASES)


def wish(folder, **more):
    return DoctorOptions("m", "hf_vlm", {"dtype": "float32"}, folder, "cpu", **more)


def test_findings_come_in_order_and_drift_only_where_it_is_asked_for(folder):
    names = [f.check for f in visit(wish(folder), CASES)]
    assert names == ["files", "weights", *checks(), "speed and memory"]


def test_after_a_failure_nothing_is_timed(folder, monkeypatch):
    monkeypatch.setattr(
        module, "examine", lambda patient: iter([CheckResult("x", "ok", ""), CheckResult("y", "fail", ""), CheckResult("z", "ok", "")])
    )
    assert [f.check for f in visit(wish(folder, drift=True), CASES)] == ["files", "weights", "x", "y", "z"]
    monkeypatch.setattr(module, "examine", lambda patient: iter([CheckResult("x", "warn", "")]))
    assert [f.check for f in visit(wish(folder), CASES)] == ["files", "weights", "x", "speed and memory"]


def test_files_or_weights_that_cannot_be_read_end_it(folder, tmp_path):
    (only,) = visit(wish(tmp_path), CASES)
    assert (only.check, only.verdict) == ("files", "fail") and only.found.startswith("model 'm': ") and only.advice
    copy = shutil.copytree(folder, tmp_path / "torn")
    file = copy / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    files, weights = visit(wish(copy), CASES)
    assert (files.verdict, weights.check, weights.verdict) == ("ok", "weights", "fail") and "cannot be read" in weights.found
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "model_type": "nonsense"}))
    assert [f.verdict for f in visit(wish(copy), CASES)][-1] == "fail"


def test_an_error_is_one_line_with_its_kind_where_it_is_not_ours():
    assert module._line(ModelError("a\n  b")) == "a b" and module._line(KeyError("x\ny")) == "KeyError: 'x\\ny'"


def test_a_model_without_weights_is_none_for_the_doctor():
    wish = DoctorOptions("m", "openai", {"model": "x", "base_url": "http://127.0.0.1:9/v1"})
    with pytest.raises(ModelError, match=r"^model 'm': openai has no weights here to examine; the doctor is for models of hf_vlm$"):
        opened(wish)


def test_what_the_files_are(patient, folder, tmp_path):
    found = module._files(patient.model)
    assert found.found == f"{folder}: safetensors, LlavaProcessor, CLIPImageProcessorPil, {type(patient.model.tokenizer).__name__}"
    assert found.numbers == {"digest": patient.model.digest}
    base = SimpleNamespace(folder=None, hub="owner/model", revision="abc", adapters=(tmp_path, tmp_path))
    hub = SimpleNamespace(processor=patient.model.processor, tokenizer=patient.model.tokenizer, base=base, digest="d")
    assert module._files(hub).found.startswith("owner/model@abc: safetensors, ") and module._files(hub).found.endswith(
        ", 2 adapters merged in"
    )


def test_weights_are_counted_and_must_be_numbers(patient):
    count = sum(p.numel() for p in patient.model.module.parameters())
    found = module._weights(patient.model, 1.25)
    assert found.numbers == {"parameters": count, "bytes": 4 * count, "seconds": 1.25}
    assert found.found == (
        f"LlavaForConditionalGeneration, {count / 1e6:,.3f} million parameters, {4 * count / 2**20:,.1f} MiB as float32, read in 1.2 s"
    )
    weight = patient.model.module.get_output_embeddings().weight
    before = weight.detach().clone()
    with torch.no_grad():
        weight[0, 0] = torch.inf
    found = module._weights(patient.model, 1.0)
    with torch.no_grad():
        weight.copy_(before)
    assert (found.verdict, found.found) == ("fail", "not numbers in lm_head.weight")


def test_weights_in_few_bits_are_counted_as_they_are_kept():
    plain = torch.zeros(3, 4)
    assert (module._stored(plain), module._whole(plain)) == (48, 12)
    state = SimpleNamespace(absmax=torch.zeros(2), shape=torch.Size([5, 4]))
    packed = SimpleNamespace(nbytes=10, shape=torch.Size([10, 1]), quant_state=state)
    assert (module._stored(packed), module._whole(packed)) == (18, 20)
    of_tensors = SimpleNamespace(__tensor_flatten__=lambda: (["a", "b"], None), a=torch.zeros(6, dtype=torch.int8), b=torch.zeros(2))
    assert module._stored(of_tensors) == 14


def test_speed_is_a_sample_of_the_whole_batch(patient, monkeypatch):
    clock = iter((10.0, 16.0))
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    asked = []
    monkeypatch.setattr(patient, "answers", asked.append)
    found = speed(patient)
    assert found.numbers["seconds"] == 2.0 and found.numbers["peak_bytes"] > 2**20 and found.numbers["device"] == "cpu"
    assert found.found.startswith("2 s a sample with all signals and 10 draws, in a batch of 3 on cpu; ")
    (requests,) = asked
    assert requests[0].parts[-10:] == tuple(f"draw {k}" for k in range(1, 11)) and requests[0].parts[:-10] == module.SIGNALS
    assert "options" not in module.SIGNALS and ANSWER in module.SIGNALS


def test_signals_that_cannot_be_had_are_left_out_of_it(patient, monkeypatch):
    plain = patient.model.encode

    def encode(requests):
        if "without_image" in requests[0].parts:
            raise ModelError("it wants a picture")
        return plain(requests)

    monkeypatch.setattr(patient.model, "encode", encode)
    assert module._gives(patient, "p_yes") and not module._gives(patient, "without_image")


def test_drift_counts_answers_that_change_with_the_batch_and_the_dtype(patient, folder, monkeypatch):
    found = drift(patient, wish(folder))
    assert found.numbers["samples"] == 3 and found.verdict == ("warn" if found.numbers["by_batch"] else "ok")

    def answers(self, requests):
        """As if the second answer depended on the batch, and the third on the dtype."""
        names = [r.question for r in requests]
        said = {"What ?": [1] if len(names) > 1 else [2], "What is it ?": [3]}
        return [{ANSWER: SimpleNamespace(tokens=said.get(name, [0]))} for name in names]

    other = Patient(patient.model, CASES)
    other.__dict__["baseline"] = [{ANSWER: SimpleNamespace(tokens=tokens)} for tokens in ([0], [1], [4])]
    monkeypatch.setattr(Patient, "answers", answers)
    found = drift(other, wish(folder))
    assert found.numbers == {"samples": 3, "by_batch": 1, "by_dtype": 1} and found.verdict == "warn" and "float32" in found.advice
    assert found.found == "as bfloat16 1 of 3 answers differ between batches of 1 and 3, 1 of 3 from those as float32"
