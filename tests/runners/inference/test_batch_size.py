"""Automatic batch sizes: grown while memory holds twice as much, kept for the next run, never more than there is to ask."""

from types import SimpleNamespace

import pytest
import torch

from qualm.runners.inference import batch_size
from qualm.runners.inference.batch_size import MAX_BATCH, largest_batch
from qualm.runners.inference.hf.model import HfVlm
from qualm.runners.runtime.settings import BATCH, Settings
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.tiny_project import CLEAN, NEEDS, Project


def linear(base, each, calls=None):
    def peak_of(n):
        if calls is not None:
            calls.append(n)
        return base + each * n

    return peak_of


@pytest.mark.parametrize(("room", "expected"), [(1015, 1), (1025, 2), (1250, 16), (1100, 8), (1810, 64), (10**9, 256), (0, 1)])
def test_the_largest_power_of_two_that_fits(room, expected):
    """1,000 bytes of weights and 10 for each prompt: 64 take 1,640 and 128 would take 2,280."""
    calls = []
    assert largest_batch(linear(1000, 10, calls), 1000, room, MAX_BATCH) == expected
    assert max(calls) == expected  # what would not fit was not tried


def test_it_stops_where_memory_ends_against_expectation():
    def uneven(n):
        if n > 8:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return n

    assert largest_batch(uneven, 0, 10**6, MAX_BATCH) == 8
    with pytest.raises(RuntimeError, match="shapes"):
        largest_batch(lambda n: n if n < 4 else (_ for _ in ()).throw(RuntimeError("shapes")), 0, 10**6, MAX_BATCH)


def test_what_does_not_fit_alone_is_left_to_the_run():
    def full(n):
        raise torch.OutOfMemoryError("CUDA out of memory")

    assert largest_batch(full, 0, 100, MAX_BATCH) == 1


def test_no_more_than_there_is():
    assert largest_batch(linear(0, 1), 0, 10**9, 5) == 4 and largest_batch(linear(0, 1), 0, 10**9, 1) == 1


class Room:
    """A device on which every prompt takes ten bytes beside a hundred for the weights."""

    name, room = "a small device", 100 + 10 * 9

    def used(self):
        return 100

    def peak(self, work):
        Room.now = 0
        work()
        return 100 + 10 * Room.now


@pytest.fixture
def project(tmp_path, tmp_path_factory, monkeypatch):
    made = Project(tmp_path, tiny_llava(tmp_path_factory.mktemp("model")))
    made.dataset("open", 30)
    made.stage(["open"], [CLEAN])
    asked, plain = [], HfVlm.answer
    made.longest = []

    def answer(self, encoded, decoding):
        asked.append(len(encoded.requests))
        made.longest.append(max(len(request.prompt) for request in encoded.requests))
        Room.now = len(encoded.requests)
        return plain(self, encoded, decoding)

    monkeypatch.setattr(HfVlm, "answer", answer)
    monkeypatch.setattr(batch_size, "torch_device", lambda name: "cuda")
    monkeypatch.setattr(batch_size, "CudaMemory", lambda device: Room())
    real = batch_size.measure_batch_sizes
    monkeypatch.setattr(batch_size, "measure_batch_sizes", lambda asker, store, memory, device: real(asker, store, memory, "cpu"))
    made.asked = asked
    return made


@pytest.mark.slow
def test_a_run_measures_once_and_keeps_what_it_found(project):
    assert project.run(batch_size=0).counters["answers computed"] == 30
    assert project.asked == [1, 2, 4, 8, 8, 8, 8, 6]
    before = [r["text"] for r in project.rows("open")]
    for path in project.segments():
        path.unlink()
    del project.asked[:]
    project.run(batch_size=0)
    assert project.asked == [8, 8, 8, 6] and [r["text"] for r in project.rows("open")] == before


def test_no_batch_is_larger_than_the_engine_takes(project, monkeypatch):
    monkeypatch.setattr(batch_size, "MAX_BATCH", 4)
    project.run(batch_size=0)
    assert max(project.asked) == 4


def test_the_longest_questions_are_measured(project):
    project.run(batch_size=0)
    assert len(set(project.longest[:4])) == 1 and project.longest[0] == max(project.longest)


@pytest.mark.slow
def test_each_kind_has_its_own_size_and_signals_are_measured_too(project):
    project.run(batch_size=0)
    project.stage(["open"], [CLEAN], needs=[*NEEDS, "p_true"])
    del project.asked[:]
    assert project.run(batch_size=0).counters["signals computed"] == 30
    assert project.asked == [1, 2, 4, 8, 8, 8, 8, 6]


def test_a_size_that_is_set_is_taken(project):
    project.run(batch_size=16)
    assert project.asked == [16, 14]


def test_batches_may_take_most_of_what_is_free_or_set_aside(monkeypatch):
    """85% of the bytes that nobody else has."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(name="A card", total_memory=1000))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (600, 1000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 200)
    memory = batch_size.CudaMemory("cuda:0")
    assert (memory.room, memory.name) == (680, "A card, 1000 bytes")


def test_on_a_cpu_nothing_is_measured(project, monkeypatch):
    monkeypatch.setattr(batch_size, "torch_device", lambda name: "cpu")
    project.run(batch_size=0)
    assert project.asked == [30] and Settings().batch == BATCH == 32
