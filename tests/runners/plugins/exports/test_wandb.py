"""Weights & Biases: offline runs, read by its own protocol's messages."""

import getpass
import json
import socket
import struct
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from qualm.runners.plugins.exports.wandb import wandb
from tests.support.projects.tracked import CURVES, TUNED, tracked

BLOCK, HEAD = 32768, 7
"""Of LevelDB's log format, in which W&B keeps a run: blocks, and before each piece checksum, length and kind."""


def records(path: Path) -> Iterator[Any]:
    from wandb.proto import wandb_internal_pb2

    data, place, held = path.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while place + HEAD <= len(data):
        if BLOCK - place % BLOCK < HEAD:
            place += BLOCK - place % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + HEAD])
        held += data[place + HEAD : place + HEAD + length]
        place += HEAD + length
        if kind in (1, 4):  # whole, or the last piece
            yield wandb_internal_pb2.Record.FromString(held)
            held = b""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("wandb") is None, reason="needs wandb")
def test_an_offline_run_holds_scores_curves_and_parameters(tmp_path, monkeypatch):
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / "own"))
    context = tracked(tmp_path, models_asked=("tuned",))
    wandb(context)
    files = [path for path in context.folder.rglob("*") if not path.is_dir()]
    assert all(not path.is_symlink() for path in files)
    (path,) = context.folder.glob("wandb/offline-run-*/run-*.wandb")
    all_records = list(records(path))
    run = next(record.run for record in all_records if record.WhichOneof("record_type") == "run")
    assert (run.project, run.display_name, run.run_group) == ("bench", "tuned", "abc123")
    assert {"spec": "bench"}.items() <= {item.key: json.loads(item.value_json) for item in run.config.update}.items()
    history = [{"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
               for record in all_records if record.WhichOneof("record_type") == "history"]  # fmt: skip
    for name, points in CURVES.items():
        assert [(row["training/step"], row[name]) for row in history if name in row] == points
    summary = {"/".join(item.nested_key) or item.key: json.loads(item.value_json)
               for record in all_records if record.WhichOneof("record_type") == "summary" for item in record.summary.update}  # fmt: skip
    assert TUNED.items() <= summary.items()
    for secret in (socket.gethostname(), str(tmp_path), getpass.getuser()):
        assert not [file for file in files if secret.encode() in file.read_bytes()], secret
