"""Who answers what, by the settings: refused where they do not fit how a stage was started."""

import os
from contextlib import chdir
from dataclasses import replace

import pytest
import torch
from torch.distributed.fsdp import FSDPModule

from qualm.runners.inference.distributed import (
    ALONE,
    DEVICE_MAP,
    FSDP,
    REPLICAS,
    TENSOR_PARALLEL,
    _shard_weights,
    load_spread,
    parallelism,
)
from qualm.runners.runtime.settings import Settings, is_first
from qualm.runners.runtime.stage import StageError, read_stage
from qualm.runners.stages import infer
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.tiny_project import CLEAN, Project

RANKS = ("RANK", "SLURM_PROCID", "LOCAL_RANK", "NODE_RANK")


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in RANKS:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("settings", "how"),
    [
        ({}, ALONE), ({"strategy": "fsdp"}, ALONE), ({"devices": 2}, REPLICAS), ({"nodes": 2, "strategy": "ddp"}, REPLICAS),
        ({"devices": 2, "strategy": "deepspeed_stage_3"}, REPLICAS), ({"devices": 2, "strategy": "fsdp"}, FSDP),
        ({"devices": 8, "nodes": 2, "strategy": "tensor_parallel"}, TENSOR_PARALLEL), ({"strategy": "device_map"}, DEVICE_MAP),
    ],
)  # fmt: skip
def test_what_the_settings_mean(settings, how):
    assert parallelism(Settings(**settings), share_with_processes=True) == how
    assert parallelism(Settings(**settings), share_with_processes=False) == ALONE


def test_processes_that_the_settings_do_not_know_of_are_refused(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(StageError, match=r"several processes were started for this stage .* QUALM_DEVICES and QUALM_NODES"):
        parallelism(Settings(), share_with_processes=True)
    with pytest.raises(StageError, match="device_map has one process on one machine"):
        parallelism(Settings(devices=2, strategy="device_map"), share_with_processes=True)
    assert parallelism(Settings(devices=2), share_with_processes=True) == REPLICAS


@pytest.mark.parametrize(
    ("variables", "first"),
    [
        ({}, True), ({"RANK": "0", "LOCAL_RANK": "0"}, True), ({"RANK": "8", "LOCAL_RANK": "0"}, False), ({"SLURM_PROCID": "3"}, False),
        ({"SLURM_PROCID": "0"}, True), ({"LOCAL_RANK": "0", "NODE_RANK": "1"}, False),
        ({"LOCAL_RANK": "1"}, False), ({"NODE_RANK": "0"}, True),
    ],
)  # fmt: skip
def test_which_process_is_the_first(monkeypatch, variables, first):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_first() is first


def test_a_model_that_cannot_be_spread_is_refused():
    class Plain:
        def load(self):
            raise AssertionError("not to be read")

    with pytest.raises(StageError, match="Plain cannot be spread over devices; set strategy = 'ddp'"):
        load_spread(Plain(), TENSOR_PARALLEL, None, 0)


def test_device_map_gives_the_same_bytes_on_one_device(tmp_path, tmp_path_factory):
    project = Project(tmp_path, tiny_llava(tmp_path_factory.mktemp("model")))
    project.dataset("open", 6)
    project.stage(["open"], [CLEAN])
    project.run()
    before = project.output("open").read_bytes()
    for path in project.segments():
        path.unlink()
    with chdir(tmp_path):
        stage = read_stage("t/infer", Settings(device="cpu", batch_size=4, workers=2, progress=False))
        stage.settings = replace(stage.settings, strategy="device_map")
        infer.run(stage)
    assert stage.counters["answers computed"] == 6 and project.output("open").read_bytes() == before


@pytest.mark.parametrize(("how", "argument"), [(DEVICE_MAP, {"device_map": "auto"}), (TENSOR_PARALLEL, {"tp_plan": "auto"})])
def test_what_transformers_is_told(monkeypatch, how, argument):
    """Layers on one device after another by one process, or every layer on all of them by a process each, which says its number."""
    monkeypatch.setenv("LOCAL_RANK", "")
    monkeypatch.delenv("LOCAL_RANK")

    class Spread:
        def load(self, spread):
            return spread

    assert load_spread(Spread(), how, None, 3) == argument
    assert os.environ.get("LOCAL_RANK") == ("3" if how == TENSOR_PARALLEL else None)


class Network(torch.nn.Module):
    """Two layers, one with experts, and what lies outside of them."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Linear(3, 3)
        self.layers = torch.nn.ModuleList([Layer(), Layer()])
        self.bends = torch.nn.ModuleList([torch.nn.ReLU()])
        self.head = torch.nn.Sequential(torch.nn.Linear(3, 2))

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = self.bends[0](layer(x))
        return self.head(x)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)])

    def forward(self, x):
        return sum(expert(x) for expert in self.experts)


def test_a_layer_is_gathered_at_once_and_what_lies_outside_by_itself():
    network, x = Network(), torch.randn(4, 3)
    before = network(x).detach()
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        divided = _shard_weights(network, torch.device("cpu"))
        assert {name for name, part in divided.named_modules() if isinstance(part, FSDPModule)} == {
            "embed",
            "layers.0",
            "layers.1",
            "head.0",
        }
        assert torch.equal(divided(x).detach(), before)
    finally:
        torch.distributed.destroy_process_group()
