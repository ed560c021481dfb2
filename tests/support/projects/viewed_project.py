"""A small benchmark with variants, draws, options and two models, its stages run for real but for inference; some texts are hostile."""

from __future__ import annotations

import importlib
from contextlib import chdir
from pathlib import Path

import numpy as np
import pyarrow as pa

from qualm.compiler.project.checkout import Project
from qualm.registry.sample import GENERATIONS, SAMPLES
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.stage import Stage
from tests.runners.reporting.pair_results import luck, project, stage

HOSTILE = "<script>window.hurt=1</script><img src=x onerror='window.hurt=1'>\u202eesrever\x00\x1b[31m " + "long " * 2000
ASKED = "What <b>colour</b> is\u202e it?<script>window.hurt=1</script>"
SPEC = """\
qualm: 1
name: small
title: "Small <i>benchmark</i>"
description: Two models on a few scenes.
seed: 7
datasets:
  scenes: {card: synthetic_scenes, level: easy, format: open, test: 24}
  options: {card: synthetic_scenes, level: easy, format: multiple_choice, test: 24}
perturbations:
  - blur: {radius: 2}
  - typos: {p: 0.5}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
  other: {hf_vlm: {artifact: scene-vlm-base, dtype: float64}}
inference: {draws: 3, temperature: 0.7}
judges: [rules]
estimators: [max_sequence_probability, mean_token_entropy]
conformal:
  half: {scores: [lac], alpha: 0.2}
metrics: [accuracy, auroc, coverage, set_size]
slices: [category]
compare: {interval: {bootstrap: 50}}
report: {examples: 0}
"""
SKILL = {"base": 0.85, "other": 0.5}


def viewed_project(root: Path, spec: str = SPEC) -> Project:
    """A project whose spec `small` has results."""
    made = project(root, spec)
    with chdir(root):
        for planned in made.plan("small").stages:
            of = stage(planned)
            if planned.kind == "infer":
                answer(of)
            elif planned.kind != "report":
                importlib.import_module(f"qualm.runners.stages.{planned.kind}").run(of)
                if planned.kind == "data":
                    ask_badly(Path(of.outputs["dataset"]) / "samples.parquet")
    return made


def ask_badly(file: Path) -> None:
    """Make the first question hostile."""
    table = read_table(file, SAMPLES)
    questions = [ASKED, *table["question"].to_pylist()[1:]]
    write_table(file, table.set_column(table.column_names.index("question"), "question", pa.array(questions)), SAMPLES)


def answer(infer: Stage) -> None:
    model, (dataset, folder) = infer.params["model"]["label"], next(iter(infer.inputs["datasets"].items()))
    rows = []
    for i, s in enumerate(read_table(Path(folder) / "samples.parquet", SAMPLES).to_pylist()):
        for variant in [v["variant"] for v in infer.params["variants"]]:
            chance = np.random.default_rng(int(luck(model, dataset, s["sample_id"], variant) * 2**48)).random(8)
            hit, sure = chance[0] < SKILL[model], float(0.5 + 0.49 * chance[1])
            own = {"sample_id": s["sample_id"], "variant": variant, "input_digest": f"{variant}-{i}"}
            if s["choices"]:
                right = s["answer_index"]
                logits = [
                    4.0 * chance[2] if j == (right if hit else (right + 1) % len(s["choices"])) else -1.0 - j
                    for j in range(len(s["choices"]))
                ]
                text = "ABCDEFGH"[int(np.argmax(logits))]
                rows.append(
                    {
                        **own,
                        "draw": 0,
                        "text": text,
                        "token_logprobs": [float(np.log(sure))],
                        "token_entropies": [0.3],
                        "option_logits": logits,
                    }
                )
                continue
            text = s["references"][0] if hit else HOSTILE if i == 1 else "purple thing"
            tokens = [float(np.log(sure))] * (len(text.split()) if len(text) < 99 else 7) + [-0.001]
            rows.append({**own, "draw": 0, "text": text, "token_logprobs": tokens, "token_entropies": [0.2] * len(tokens)})
            rows += [{**own, "draw": d, "text": text if chance[d + 2] < 0.7 else "red", "token_logprobs": tokens} for d in (1, 2, 3)]
    write_table(Path(infer.outputs["generations"][dataset]), rows, GENERATIONS)
