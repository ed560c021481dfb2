"""What a worker takes of a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qualm.runners.inference.resources import MEMORY, count_workers, worker_resources
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import make_stage


@pytest.mark.parametrize(
    ("device", "remote", "total", "needs"),
    [
        ("auto", True, {"CPU": 8, "GPU": 4}, {"CPU": 0.1}),
        ("auto", False, {"CPU": 8, "GPU": 4}, {"CPU": 1, "GPU": 1}),
        ("auto", False, {"CPU": 8}, {"CPU": 1, "memory": 5e9}),
        ("cpu", False, {"CPU": 8, "GPU": 4}, {"CPU": 1, "memory": 5e9}),
        ("cuda", False, {}, {"CPU": 1, "GPU": 1}),
    ],
)
def test_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, remote: bool, total: dict[str, float], needs: dict[str, float]
) -> None:
    monkeypatch.chdir(tmp_path)
    MEMORY.mkdir(parents=True)
    (MEMORY / "t.json").write_text(json.dumps({"infer-m": 5_000_000_000}))
    raw: dict[str, Any] = {"kind": "infer", "params": {}, "inputs": {}, "outputs": {}, "seed": 7}
    assert worker_resources(make_stage("t/infer-m", raw, Settings(device=device)), remote, total) == needs
    if device == "cpu":
        assert worker_resources(make_stage("t/infer-other", raw, Settings(device=device)), remote, total) == {"CPU": 1}


def test_room() -> None:
    assert count_workers({"CPU": 1, "GPU": 1}, {"CPU": 16, "GPU": 3.0}) == 3
    assert count_workers({"CPU": 1, "memory": 5.0}, {"CPU": 16, "memory": 24.0}) == 4
    assert count_workers({"CPU": 1, "GPU": 1}, {"CPU": 16}) == 0
