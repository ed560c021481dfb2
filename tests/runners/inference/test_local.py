"""Batches through a model: memory that is too small is met by smaller batches, and an error names the sample."""

import json
from contextlib import chdir

import pytest
import torch

from qualm.runners.contracts.models import ANSWER
from qualm.runners.inference.batch_plan import Batch, Work
from qualm.runners.inference.hf.model import HfVlm
from qualm.runners.inference.local import answer_all, out_of_memory
from qualm.runners.inference.open_inference import open_inference
from qualm.runners.inference.requests import Asker
from qualm.runners.inference.run import open_store
from qualm.runners.runtime.code_digest import find_engine
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import StageError, read_stage
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.tiny_project import CLEAN, NEEDS, NOISE, Project


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("model"))


@pytest.fixture
def project(tmp_path, model):
    made = Project(tmp_path, model)
    made.dataset("open", 20)
    made.stage(["open"], [CLEAN, NOISE], needs=[*NEEDS, "p_true"])
    return made


def too_much():
    """What PyTorch says when a CPU has no memory left."""
    return torch.empty(10**15, dtype=torch.uint8)


def cuda_says():
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def holding(monkeypatch, most, fail=cuda_says):
    """A device that holds at most so many prompts; returns the sizes that were tried."""
    tried, plain = [], HfVlm.answer

    def answer(self, encoded, decoding):
        tried.append(len(encoded.requests))
        if len(encoded.requests) > most:
            fail()
        return plain(self, encoded, decoding)

    monkeypatch.setattr(HfVlm, "answer", answer)
    return tried


@pytest.mark.slow
@pytest.mark.parametrize("fail", [cuda_says, too_much])
def test_a_batch_that_is_too_big_is_halved_and_so_are_those_after_it(project, monkeypatch, fail):
    project.run(batch_size=16)
    before = project.rows("open")
    for path in project.segments():
        path.unlink()
    tried = holding(monkeypatch, 3, fail)
    stage = project.run(batch_size=16)
    assert stage.counters["answers computed"] == 40
    assert tried[:3] == [16, 8, 4] and [n for n in tried if n > 3] == [16, 8, 4]
    assert set(tried[3:]) == {2} and sum(tried[3:]) == 40
    after = project.rows("open")
    assert [(r["sample_id"], r["variant"], r["text"]) for r in after] == [(r["sample_id"], r["variant"], r["text"]) for r in before]
    for a, b in zip(after, before, strict=True):
        assert a["p_true"] == pytest.approx(b["p_true"], abs=1e-5) and a["token_logprobs"] == pytest.approx(b["token_logprobs"], abs=1e-4)


@pytest.mark.slow
def test_what_was_too_big_is_remembered_by_who_goes_on(project, monkeypatch):
    tried = holding(monkeypatch, 5)
    plain, calls = HfVlm.answer, iter(range(100))

    def interrupted(self, encoded, decoding):
        if next(calls) == 4:
            raise ValueError("something else")
        return plain(self, encoded, decoding)

    with monkeypatch.context() as patch, pytest.raises(ValueError, match="something else") as raised:
        patch.setattr(HfVlm, "answer", interrupted)
        project.run(batch_size=16)
    assert any("in the batch of samples s00" in note for note in raised.value.__notes__)
    assert tried == [16, 8, 4, 4]
    (limits,) = project.folder.glob(".qualm/plans/t.infer/*.limits")
    assert json.loads(limits.read_text()) == {"answer, p_true": 4}
    assert len(project.stored()) == 2
    assert project.run(batch_size=16).counters["answers stored"] == 8
    assert tried[4:] == [4] * 8  # the rest, pieces of the batch that was cut too
    assert sorted(k for b in project.stored() for k in b) == sorted({k for b in project.stored() for k in b})
    assert not (project.folder / ".qualm/plans/t.infer").exists()


@pytest.mark.slow
def test_one_kind_of_batch_says_nothing_of_another(project, monkeypatch):
    project.dataset("mc", 12, choices=True)
    project.stage(["open", "mc"], needs=[*NEEDS, "draws"], draws=2)
    tried, plain = [], HfVlm.answer

    def answer(self, encoded, decoding):
        tried.append((encoded.requests[0].options > 0, len(encoded.requests)))
        if not tried[-1][0] and tried[-1][1] > 5:
            cuda_says()
        return plain(self, encoded, decoding)

    monkeypatch.setattr(HfVlm, "answer", answer)
    project.run(batch_size=12)
    assert [n for options, n in tried if options] == [12]
    assert [n for options, n in tried if not options] == [12, 6, *[3] * 6, 2]


def test_a_prompt_that_does_not_fit_alone_is_named(project, monkeypatch):
    tried = holding(monkeypatch, 0)
    with pytest.raises(
        StageError, match=r"open: sample 's0\d+', variant (clean|gaussian_noise@sigma=25.0): needs more memory than there is"
    ):
        project.run(batch_size=8)
    assert tried == [8, 4, 2, 1]


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True])
def test_pieces_that_are_stored_are_computed_where_all_is_asked_for_again(project, monkeypatch, again):
    project.stage(["open"], [CLEAN])
    project.run(batch_size=8)
    project.stage(["open"], [CLEAN, NOISE])
    tried = holding(monkeypatch, 2)
    with chdir(project.folder):
        stage = read_stage("t/infer", Settings(device="cpu", workers=1, progress=False))
        question = open_inference(stage)
        asker = Asker(question.model, find_engine(question.module), question.datasets, question.variants, question.needs, stage)
        places = [cell.place for cell in asker.survey()[0]]
        clean, noisy = ([place for place in places if place.variant == number] for number in (0, 1))
        cut, whole = Batch((ANSWER,), (*clean[:3], noisy[0])), Batch((ANSWER,), (clean[3],))
        answer_all(asker, open_store(asker, {}), Work([cut, whole], {cut.kind: 2}, again=again))
    assert tried == ([2, 2, 1] if again else [2, 1])  # of the second piece one is not stored; a batch that is whole is asked as planned


def test_which_errors_are_of_memory():
    with pytest.raises(RuntimeError) as raised:
        too_much()
    assert out_of_memory(raised.value) and out_of_memory(torch.OutOfMemoryError("x")) and out_of_memory(MemoryError())
    assert not out_of_memory(RuntimeError("shapes do not match")) and not out_of_memory(ValueError("out of memory"))
