from contextlib import suppress

import pytest
import torch

from qualm.runners.runtime.checkpoints import checkpoint_plugins


def test_a_checkpoint_is_whole_and_nothing_lies_beside_it(tmp_path):
    (plugin,) = checkpoint_plugins("auto")
    path = tmp_path / "new" / "last.ckpt"
    plugin.save_checkpoint({"step": 3, "weights": torch.ones(2)}, path)
    assert torch.load(path, weights_only=True)["step"] == 3 and [p.name for p in path.parent.iterdir()] == ["last.ckpt"]


def test_a_failure_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    (plugin,) = checkpoint_plugins("ddp")
    path = tmp_path / "last.ckpt"
    plugin.save_checkpoint({"step": 1}, path)

    def full(checkpoint, handle):
        handle.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space"):
        plugin.save_checkpoint({"step": 2}, path)
    assert torch.load(path, weights_only=True) == {"step": 1} and list(tmp_path.iterdir()) == [path]


def test_a_kill_while_it_is_written_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    (plugin,) = checkpoint_plugins("ddp")
    path = tmp_path / "last.ckpt"
    plugin.save_checkpoint({"step": 1}, path)
    written = []
    monkeypatch.setattr(torch, "save", lambda checkpoint, handle: written.append(handle.name) or (_ for _ in ()).throw(KeyboardInterrupt))
    with suppress(KeyboardInterrupt):
        plugin.save_checkpoint({"step": 2}, path)
    assert written and written != [str(path)] and torch.load(path, weights_only=True) == {"step": 1}


def test_deepspeed_writes_its_own():
    assert checkpoint_plugins("deepspeed_stage_2") == []
