import json
import shutil

import pytest
import torch

from qualm.runners.contracts.models import ModelError
from qualm.runners.inference.hf.adapters import CONFIG, WEIGHTS, Base, merge_adapter, read_config, resolve_adapters


def adapter(folder, weights=True, **config):
    folder.mkdir(parents=True)
    (folder / CONFIG).write_text(json.dumps(config))
    if weights:
        (folder / WEIGHTS).write_bytes(b"")
    return folder


def test_a_chain_of_adapters_is_followed_down_to_the_whole_model(tmp_path):
    (tmp_path / "whole").mkdir()
    first = adapter(tmp_path / "first", base_model_name_or_path=str(tmp_path / "whole"))
    second = adapter(tmp_path / "second", base_model_name_or_path=str(first))
    assert resolve_adapters("m", Base(second, None, None)) == Base(tmp_path / "whole", None, None, (first, second))
    assert resolve_adapters("m", Base(tmp_path / "whole", None, None)) == Base(tmp_path / "whole", None, None)
    assert resolve_adapters("m", Base(None, "hub/x", "main")) == Base(None, "hub/x", "main")


def test_a_hub_model_needs_a_commit(tmp_path):
    pinned = adapter(tmp_path / "pinned", base_model_name_or_path="hub/x", revision="a" * 40)
    assert resolve_adapters("m", Base(pinned, None, None)) == Base(None, "hub/x", "a" * 40, (pinned,))
    loose = adapter(tmp_path / "loose", base_model_name_or_path="hub/x", revision="main")
    with pytest.raises(ModelError, match="names the base model 'hub/x', which is neither a folder here nor a hub model with a commit"):
        resolve_adapters("m", Base(loose, None, None))


def test_a_chain_that_closes_on_itself(tmp_path):
    folder = adapter(tmp_path / "a", base_model_name_or_path=str(tmp_path / "a"))
    with pytest.raises(ModelError, match="is an adapter of itself"):
        resolve_adapters("m", Base(folder, None, None))


def test_what_is_no_adapter(tmp_path):
    with pytest.raises(ModelError, match="expected the configuration of a peft adapter"):
        read_config("m", tmp_path)
    with pytest.raises(ModelError, match=f"expected {WEIGHTS}; pickled adapters are not read"):
        read_config("m", adapter(tmp_path / "a", weights=False))
    (tmp_path / "a" / WEIGHTS).write_bytes(b"")
    (tmp_path / "a" / CONFIG).write_text("[]")
    with pytest.raises(ModelError, match="expected a JSON object, got list"):
        read_config("m", tmp_path / "a")


class Net(torch.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(4, width, bias=False), torch.nn.Linear(width, 2, bias=False)

    def forward(self, x):
        return self.second(self.first(x))


def tuned(folder, targets, base):
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(base, LoraConfig(r=2, lora_alpha=4, target_modules=targets))
    for name, weight in model.named_parameters():
        if "lora" in name:
            torch.nn.init.normal_(weight)
    model.save_pretrained(folder)
    return model


def test_a_difference_is_added_to_the_weights(tmp_path):
    x = torch.randn(3, 4)
    expected = tuned(tmp_path / "a", ["first"], Net())(x)
    merged = merge_adapter("m", Net(), tmp_path / "a")
    assert isinstance(merged, Net) and torch.allclose(merged(x), expected, atol=1e-5) and not torch.allclose(Net()(x), expected, atol=1e-2)


def test_an_adapter_of_another_model_is_refused(tmp_path):
    tuned(tmp_path / "a", ["first"], Net(width=5))
    with pytest.raises(ModelError, match="cannot be put on Net"):
        merge_adapter("m", Net(), tmp_path / "a")
    tuned(tmp_path / "b", ["first", "second"], Net())
    tuned(tmp_path / "c", ["first"], Net())
    shutil.copy(tmp_path / "c" / WEIGHTS, tmp_path / "b" / WEIGHTS)
    with pytest.raises(ModelError, match=r"weights on one side only, such as .*second"):
        merge_adapter("m", Net(), tmp_path / "b")
