"""A conformal score of one's own, in one file: listed, compiled, calibrated and scored, with no edit elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from qualm.registry.sample import GENERATIONS, SAMPLES
from qualm.runners.runtime.records import write_table
from tests.support.projects.own_project import run, with_plugin

SHARE = '''
"""How far an option is behind the likeliest one."""

import numpy as np

from qualm.runners.contracts.grouped_weights import Floats


def share_of_best(probs: Floats, *, power: float = 1.0) -> Floats:
    """One minus the option's share of the likeliest one's probability; the likeliest option is always in the set.

    Args:
        power: Of that share.
    """
    return 1 - (probs / np.nanmax(probs, axis=1, keepdims=True)) ** power
'''
SPEC = """\
qualm: 1
name: t
datasets:
  scenes: {card: synthetic_scenes, format: multiple_choice, test: 6}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
conformal:
  mine: {scores: [share_of_best: {power: 2}, lac], alpha: 0.2}
metrics: [accuracy, coverage, set_size]
compare: {interval: {bootstrap: 50}}
"""
N, K = 120, 4


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return with_plugin(tmp_path, SPEC, "conformal/share_of_best.py", SHARE)


def answer(inputs: dict[str, dict[str, str]], root: Path) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the options of every question, and the right ones."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, K, N)
    logits = np.round(rng.normal(size=(N, K)) + 1.5 * np.eye(K)[truth], 3)
    ids = [f"s{i:03}" for i in range(N)]
    asked = [
        {"sample_id": s, "question": "?", "choices": list("abcd"), "answer_index": int(y), "answerable": True, "split": "test"}
        for s, y in zip(ids, truth, strict=True)
    ]
    answers = [
        {"sample_id": s, "variant": "clean", "draw": 0, "text": "", "option_logits": row}
        for s, row in zip(ids, logits.tolist(), strict=True)
    ]
    write_table(root / inputs["datasets"]["scenes"] / "samples.parquet", asked, SAMPLES)
    write_table(root / inputs["generations"]["base"]["scenes"], answers, GENERATIONS)
    powers = np.exp(logits)
    return powers / powers.sum(axis=1, keepdims=True), truth


@pytest.mark.slow
def test_it_is_listed_compiled_and_run(project: Path) -> None:
    assert "share of the likeliest" in run(project, "qualm", "ls", "conformal")
    stages = {name: json.loads((project / f"specs/t/stages/{name}.json").read_text()) for name in ("calibrate", "score")}
    (setting,) = stages["score"]["params"]["conformal"]
    scores = setting["scores"]
    (label,) = (label for label in scores if label.startswith("share_of_best"))
    assert scores[label]["args"] == {"power": 2.0}
    probs, truth = answer(stages["score"]["inputs"], project)
    for name in stages:
        run(project, "qualm.runners", f"t/{name}")
    sets = pq.read_table(project / stages["calibrate"]["outputs"]["sets"]).to_pylist()
    mine = {row["sample_id"]: row for row in sets if row["score"] == label}
    calibrates = np.array([mine[f"s{i:03}"]["is_calibration"] for i in range(N)])
    own = 1 - (probs / probs.max(axis=1, keepdims=True)) ** 2
    limit = np.sort(own[calibrates, truth[calibrates]])[int(np.ceil((calibrates.sum() + 1) * 0.8)) - 1]
    inside = own[~calibrates] <= limit + 1e-12
    values = {
        r["label"]: r["value"] for r in pq.read_table(project / stages["score"]["outputs"]["scores"]).to_pylist() if r["slice"] == "all"
    }
    assert values[f"coverage[mine/{label}]"] == pytest.approx(inside[np.arange(len(inside)), truth[~calibrates]].mean())
    assert values[f"set_size[mine/{label}]"] == pytest.approx(inside.sum(axis=1).mean())
