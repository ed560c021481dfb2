"""A calibrator of one's own, in one file: listed, compiled and run by the score stage, with no edit elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from qualm.registry.sample import GENERATIONS, JUDGEMENTS, SAMPLES
from qualm.runners.runtime.records import write_table
from tests.support.projects.own_project import run, with_plugin

SHRUNK = '''
"""Half of what calibrates, half of what is always so."""

import numpy as np

from qualm.runners.contracts.grouped_weights import Floats, Weights


def shrunk(score: Floats, right: Floats, weights: Weights, at: Floats, *, towards: float = 0.5) -> Floats:
    """The share of right answers that calibrate, drawn towards a number; every answer gets the same.

    Args:
        towards: The number.
    """
    share = (weights @ right[:, None])[:, 0] / (weights @ np.ones((len(right), 1)))[:, 0]
    return np.repeat((share + towards)[:, None] / 2, len(at), axis=1)
'''
SPEC = """\
qualm: 1
name: t
datasets:
  scenes: {card: synthetic_scenes, test: 6}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
judges: [rules]
calibrators:
  held: {methods: [shrunk: {towards: 0.1}, platt], refits: 50}
metrics: [{brier: {}}]
compare: {interval: {bootstrap: 50}}
"""
N, RIGHT = 120, 3
"""Samples; every so many-th is wrong."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return with_plugin(tmp_path, SPEC, "calibrators/shrunk.py", SHRUNK)


def answer(inputs: dict[str, dict[str, str]], root: Path) -> dict[str, float]:
    """Answers that are all sure, and which are right."""
    right = {f"s{i}": float(i % RIGHT > 0) for i in range(N)}
    same = {"sample_id": "", "variant": "clean", "draw": 0}
    samples = [{"sample_id": s, "question": "?", "references": ["red"], "answerable": True, "split": "test"} for s in right]
    rng = np.random.default_rng(0)
    answers = [same | {"sample_id": s, "text": "red", "token_logprobs": [-0.2 * rng.random()]} for s in right]
    of = {"model": "base", "dataset": "scenes", "judge": "rules", "gt_is_idk": False, "pred_is_idk": False, "parse_ok": True}
    judged = [same | of | {"sample_id": s, "rating": is_right} for s, is_right in right.items()]
    write_table(root / inputs["datasets"]["scenes"] / "samples.parquet", samples, SAMPLES)
    write_table(root / inputs["generations"]["base"]["scenes"], answers, GENERATIONS)
    write_table(root / inputs["judgements"], judged, JUDGEMENTS)
    return right


@pytest.mark.slow
def test_it_is_listed_compiled_and_run(project: Path) -> None:
    assert "drawn towards a number" in run(project, "qualm", "ls", "calibrators")
    stage = json.loads((project / "specs/t/stages/score.json").read_text())
    (setting,) = stage["params"]["calibrators"]
    assert {"label": "shrunk", "plugin": "shrunk", "args": {"towards": 0.1}} in [
        {name: method[name] for name in ("label", "plugin", "args")} for method in setting["methods"]
    ]
    right = answer(stage["inputs"], project)
    run(project, "qualm.runners", "t/score")
    rows = [r for r in pq.read_table(project / stage["outputs"]["recalibrated"]).to_pylist() if r["method"] == "shrunk"]
    assert len(rows) == N
    share = np.mean([right[r["sample_id"]] for r in rows if r["is_calibration"]])
    scored = [r for r in rows if not r["is_calibration"]]
    assert scored and [r["confidence"] for r in scored] == pytest.approx([(share + 0.1) / 2] * len(scored))
    scores = {r["label"]: r["value"] for r in pq.read_table(project / stage["outputs"]["scores"]).to_pylist() if r["slice"] == "all"}
    expected = np.mean([((share + 0.1) / 2 - right[r["sample_id"]]) ** 2 for r in scored])
    assert scores["brier[held/shrunk]"] == pytest.approx(expected)
    pairs = {(r["a"], r["b"]) for r in pq.read_table(project / stage["outputs"]["calibrator_comparisons"]).to_pylist()}
    assert pairs == {("raw", "shrunk"), ("raw", "platt"), ("platt", "shrunk")}
