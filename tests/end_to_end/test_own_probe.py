"""A probe of one's own, in one file: listed, compiled, trained and told of, with no edit elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qualm.registry.sample import GENERATIONS, JUDGEMENTS, SAMPLES
from qualm.runners.data.internals import schema, write_internals
from qualm.runners.runtime.records import write_table
from tests.support.projects.own_project import run, with_plugin

LONGER = '''
"""A probe that sees how long an answer is beside two layers."""

import numpy as np

from qualm.runners.contracts.probes import ProbeDesign, stack_rows

NEEDS = {"early": "hidden_states/{early}/prompt_last", "late": "hidden_states/last/answer_mean"}
TARGET = "wrong"


def longer(early, late, token_logprobs, *, early_layer: str = "0.25", units: int = 4) -> ProbeDesign:
    """Two layers and the number of tokens."""
    lengths = np.array([[len(row)] for row in token_logprobs], dtype=float)
    return ProbeDesign(np.concatenate([stack_rows(early), stack_rows(late), lengths], axis=1), hidden=(units,), epochs=60, rate=1e-2)
'''.replace("{early}", "{early_layer}")
SPEC = """\
qualm: 1
name: t
datasets:
  scenes: {card: synthetic_scenes, test: 6}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
judges: [rules]
probes:
  mine: {longer: {units: 8}, fit: half}
metrics: [accuracy, auroc]
"""
N = 120
EARLY, LATE = "hidden_states/0.25/prompt_last", "hidden_states/-1/answer_mean"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return with_plugin(tmp_path, SPEC, "probes/longer.py", LONGER)


def answer(inputs: dict[str, dict[str, str]], root: Path) -> dict[str, bool]:
    """Answers that are wrong where they are long, and which are; hidden states that say nothing."""
    rng = np.random.default_rng(0)
    wrong = {f"s{i}": bool(i % 2) for i in range(N)}
    same = {"sample_id": "", "variant": "clean", "draw": 0}
    samples = [{"sample_id": s, "question": "?", "references": ["red"], "answerable": True, "split": "test"} for s in wrong]
    answers = [same | {"sample_id": s, "text": "red", "token_logprobs": [-0.1] * (2 + 3 * is_wrong)} for s, is_wrong in wrong.items()]
    of = {"model": "base", "dataset": "scenes", "judge": "rules", "gt_is_idk": False, "pred_is_idk": False, "parse_ok": True}
    judged = [same | of | {"sample_id": s, "rating": float(not is_wrong)} for s, is_wrong in wrong.items()]
    states = [same | {"sample_id": s, **{c: rng.normal(size=3).astype(np.float16) for c in (EARLY, LATE)}} for s in wrong]
    write_table(root / inputs["datasets"]["scenes"] / "samples.parquet", samples, SAMPLES)
    write_table(root / inputs["generations"]["base"]["scenes"], answers, GENERATIONS)
    write_table(root / inputs["judgements"], judged, JUDGEMENTS)
    file = root / inputs["internals"]["base"]["scenes"]
    write_internals(file, [pa.Table.from_pylist(states, schema([EARLY, LATE]))], [EARLY, LATE], {})
    return wrong


@pytest.mark.slow
def test_it_is_listed_compiled_and_trained(project: Path) -> None:
    assert "Two layers and the number of tokens." in run(project, "qualm", "ls", "probes")
    stage = json.loads((project / "specs/t/stages/probe.json").read_text())
    infer = json.loads((project / "specs/t/stages/infer-base-scenes.json").read_text())
    assert {EARLY, LATE, "token_logprobs"} <= set(infer["params"]["needs"])
    wrong = answer(stage["inputs"], project)
    assert run(project, "qualm.runners", "t/probe").startswith("t/probe: ")
    values = pq.read_table(project / stage["outputs"]["probe_values"]).to_pylist()
    assert len(values) == N / 2 and {row["estimator"] for row in values} == {"mine"}
    high = {row["sample_id"] for row in values if row["value"] > 0.5}
    assert high == {row["sample_id"] for row in values if wrong[row["sample_id"]]}
