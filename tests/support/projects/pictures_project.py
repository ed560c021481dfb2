"""A small benchmark of samples with several pictures, frames of video and text alone, answered by a model that thinks first."""

from __future__ import annotations

import importlib
import json
from contextlib import chdir
from pathlib import Path

import PIL.Image
import PIL.ImageDraw

from qualm.compiler.project.checkout import Project
from qualm.registry.sample import GENERATIONS, SAMPLES
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.stage import Stage
from tests.runners.reporting.pair_results import stage

SPEC = """\
qualm: 1
name: small
title: Several pictures
seed: 7
datasets:
  several: {card: several}
  clips: {card: clips}
perturbations:
  - blur: {radius: 2}
models:
  thinker: {hf_vlm: {artifact: scene-vlm-base, thinking: {tags: ["<think>", "</think>"], budget: 64}}}
  quick: {hf_vlm: {artifact: scene-vlm-base}}
inference: {draws: 3, temperature: 0.7}
judges: [rules]
estimators: [max_sequence_probability, mean_token_entropy]
metrics: [accuracy, auroc]
compare: {interval: {bootstrap: 50}}
report: {examples: 18}
"""
CARD = """\
name: {name}
kind: dataset
title: {name}
description: Made for a test.
adapter: image_table
source: made here
licence: none
citation: none
layout: [{{files: test.jsonl, about: pictures and questions}}]
args: {{files: {{test: test.jsonl}}, image: images, question: question, answer: answer, text_only: true{more}}}
splits: {{test: {{}}}}
verified: true
"""
COLOURS = ("red", "green", "blue", "orange")
CUT = "cut short by the budget"


def pictures_project(root: Path) -> Project:
    """A project whose spec `small` has results and a report."""
    for folder in ("specs", "registry/data", "registry/cards"):
        (root / folder).mkdir(parents=True)
    (root / "specs" / "small.yaml").write_text(SPEC)
    (root / "params.yaml").write_text("default: small\n")
    made, cards = Project(root), root / "registry" / "cards"
    for name, more in (("several", ""), ("clips", ", frames: 4")):
        (cards / f"{name}.yaml").write_text(CARD.format(name=name, more=more))
        (root / "registry" / "data" / name).mkdir()
    draw_several(root / "registry" / "data" / "several")
    draw_clips(root / "registry" / "data" / "clips")
    with chdir(root):
        for planned in made.plan("small").stages:
            of = stage(planned)
            if planned.kind == "infer":
                answer(of)
            else:
                importlib.import_module(f"qualm.runners.stages.{planned.kind}").run(of)
    return made


def draw(colour: str, width: int, height: int, at: int = 0) -> PIL.Image.Image:
    picture = PIL.Image.new("RGB", (width, height), "white")
    PIL.ImageDraw.Draw(picture).ellipse((8 + at, 8, min(width, height) - 8 + at, min(width, height) - 8), fill=colour)
    return picture


def draw_several(folder: Path) -> None:
    """Questions with none to five pictures of different shapes, some with marks of where they stand."""
    rows = []
    for i in range(12):
        names = [f"{i}-{k}.png" for k in range((0, 1, 2, 3, 5, 2)[i % 6])]
        for k, name in enumerate(names):
            draw(COLOURS[(i + k) % 4], *((160, 120), (90, 160), (240, 80))[k % 3]).save(folder / name)
        asked = (
            f"What changes between <image> and <image> ({i})?"
            if i % 6 == 2
            else f"Which colour has the last circle, of {len(names)} ({i})?"
        )
        rows.append({"images": names, "question": asked, "answer": COLOURS[i % 4]})
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def draw_clips(folder: Path) -> None:
    """Six animated pictures of twelve frames."""
    for i in range(6):
        first, *rest = [draw(COLOURS[i % 4], 160, 90, 6 * k) for k in range(12)]
        first.save(folder / f"clip{i}.gif", save_all=True, append_images=rest, duration=80)
    rows = [{"images": f"clip{i}.gif", "question": f"Where does the circle go ({i})?", "answer": "right"} for i in range(6)]
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def answer(infer: Stage) -> None:
    """Every third answer of the model that thinks is cut short by its budget, and so is one of the draws of the others."""
    model, (dataset, folder) = infer.params["model"]["label"], next(iter(infer.inputs["datasets"].items()))
    rows = []
    for i, s in enumerate(read_table(Path(folder) / "samples.parquet", SAMPLES).to_pylist()):
        for variant in [v["variant"] for v in infer.params["variants"]]:
            own = {"sample_id": s["sample_id"], "variant": variant, "input_digest": f"{variant}-{i}"}
            thinks = model == "thinker"
            for d in range(4):
                cut = thinks and (i % 3 == 0 if d == 0 else d == 3 or i % 6 == 0)
                text = None if cut else s["references"][0] if (i + d) % 4 else "purple"
                told = {"text": text, "no_answer": CUT if cut else None, "thinking": "Let me see. " * 60 if thinks else None}
                tokens = None if cut else [-0.1 - 0.05 * (i % 5), -0.001]
                rows.append({**own, "draw": d, **told, "token_logprobs": tokens, "token_entropies": None if cut or d else [0.2, 0.1]})
    write_table(Path(infer.outputs["generations"][dataset]), rows, GENERATIONS)
