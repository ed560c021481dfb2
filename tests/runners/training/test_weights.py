from types import SimpleNamespace

import pytest
import torch

from qualm.runners.contracts.finetunes import FinetuneError
from qualm.runners.training.weights import copy_processor, matching_modules, vision_tower


class Network(torch.nn.Module):
    def __init__(self, sees=True):
        super().__init__()
        self.tower = torch.nn.ModuleDict({"q_proj": torch.nn.Linear(2, 2), "norm": torch.nn.LayerNorm(2)})
        self.language = torch.nn.ModuleDict(
            {"q_proj": torch.nn.Linear(2, 2), "v_proj": torch.nn.Linear(2, 2), "norm": torch.nn.LayerNorm(2)}
        )
        self.sees = sees

    @property
    def base_model(self):
        return self

    def get_encoder(self, modality):
        return self.tower if self.sees and modality == "image" else self


def test_the_vision_tower_or_none():
    network = Network()
    assert vision_tower(network) is network.tower and vision_tower(Network(sees=False)) is None


@pytest.mark.parametrize(
    "pattern, vision, linear, names",
    [
        ("[qv]_proj", False, True, ["language.q_proj", "language.v_proj"]),
        ("[qv]_proj", True, True, ["tower.q_proj", "language.q_proj", "language.v_proj"]),
        ("norm", False, False, ["language.norm"]),
        ("language.*proj", True, True, ["language.q_proj", "language.v_proj"]),
    ],
)
def test_modules_that_a_pattern_means(pattern, vision, linear, names):
    assert matching_modules(Network(), pattern, vision=vision, linear=linear) == names


@pytest.mark.parametrize(
    "pattern, message",
    [
        ("proj", "no linear layer fits; their names end in q_proj, v_proj"),
        ("norm", "no linear layer fits"),
        ("[", "expected a regular expression"),
    ],
)
def test_patterns_that_mean_nothing(pattern, message):
    with pytest.raises(FinetuneError, match=message):
        matching_modules(Network(), pattern, vision=False, linear=True)


def test_what_lies_beside_the_weights_is_copied_byte_for_byte(tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    for folder in (source, target):
        folder.mkdir()
    for name in ("tokenizer.json", "chat_template.jinja", "config.json", "x.safetensors", "merges.txt", "adapter_config.json"):
        (source / name).write_bytes(name.encode() + b"\r\n")
    copy_processor(SimpleNamespace(base=SimpleNamespace(folder=source)), target)
    assert {p.name: p.read_bytes() for p in target.iterdir()} == {
        name: name.encode() + b"\r\n" for name in ("tokenizer.json", "chat_template.jinja", "merges.txt")
    }
    saved = []
    copy_processor(SimpleNamespace(base=SimpleNamespace(folder=None), processor=SimpleNamespace(save_pretrained=saved.append)), target)
    assert saved == [target]
