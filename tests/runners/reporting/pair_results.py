"""A small spec of contrastive pairs, its stages run for real but for training and inference: what models say is made up here."""

from __future__ import annotations

import hashlib
import importlib
from contextlib import chdir
from pathlib import Path

import numpy as np

from qualm.compiler.plan.plan import PlannedStage
from qualm.compiler.project.checkout import Project
from qualm.registry.sample import GENERATIONS, SAMPLES
from qualm.runners.data.curation import Decision, write_decisions
from qualm.runners.review.pool import read_pool
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage

ROOT = Path(__file__).resolve().parents[3]
SPEC = """\
qualm: 1
name: small
title: Knowing when not to answer, small
seed: 7
taxonomy:
  epistemic:
    knowledge: {definition: The answer needs knowledge that no image holds., answer: "That it cannot be known from the image.",
                examples: [Who made the red cube?, How heavy is the sphere?]}
    extraneous: {definition: The thing that is asked about is not there., answer: That it is not in the image.}
  aleatoric:
    temporal: {definition: It depends on what happens before or after the image., answer: That nobody can tell.}
    ambiguity: {definition: Several things fit the question., answer: To say so or to ask back.}
datasets:
  scenes: {card: synthetic_scenes, level: easy, train: 20, test: 60, val: 30}
  plain: {card: synthetic_scenes, level: easy, test: 24, val: 8}
pairs:
  ours:
    recipes:
      - inpainted: {dataset: scenes, category: epistemic/extraneous, saliency: scene_graph, mask: scene_graph, dilate: 5}
      - from_caption: {dataset: scenes, category: [epistemic/knowledge, aleatoric/temporal, aleatoric/ambiguity], generator: rules}
    curated: our-reviews
    unreviewed: keep
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
finetunes:
  sft-ours: {sft: {base: base, train: [ours]}}
  sft-other: {sft: {base: base, train: [scenes]}}
inference: {confidence: verify}
judges: [rules]
judging: {labels: our-labels}
abstentions:
  thresholded: {thresholding: {}}
  guarded: {risk_control: {}}
metrics: [f1_idk, lave_idk_accuracy, confidence_weighted_accuracy, ece_idk, answerable_accuracy, ece]
slices: [category]
macro_averages: [category]
compare: {baseline: base, pairs: [[base+thresholded, sft-ours]], interval: {bootstrap: 200}}
report: {examples: 24}
"""
LABELS = """\
question,reference,prediction,is_refusal,rating
What color is the cube?,red,Red.,0,1
What color is the cube?,red,blue,0,0
What color is the cube?,,I cannot tell.,1,1
Who made the cube?,,Nobody can know that from an image.,1,1
How many cubes are there?,2,two,0,1
"""
SKILL = {"base": (0.85, 0.0, 0.02), "sft-ours": (0.84, 0.85, 0.04), "sft-other": (0.87, 0.05, 0.0)}
"""Model -> how often it is right where there is an answer, how often it declines where there is none, and where there is one."""


def project(root: Path, spec: str = SPEC) -> Project:
    """A checkout in `root` that has our code and that one spec."""
    (root / "specs").mkdir()
    (root / "specs" / "small.yaml").write_text(spec)
    (root / "params.yaml").write_text("default: small\n")
    (root / "registry" / "data").mkdir(parents=True)
    for part in [ROOT / "runners", ROOT / "specs" / "prompts", *(p for p in (ROOT / "registry").iterdir() if p.name != "data")]:
        (root / part.relative_to(ROOT)).symlink_to(part)
    return Project(root)


def stage(planned: PlannedStage) -> Stage:
    given = {**planned.as_json(), "params": planned.params}
    settings = Settings(device="cpu", progress=False, workers=1)
    return Stage(
        f"small/{planned.name}", "small", planned.name, planned.kind, given["params"], given["inputs"], given["outputs"], 7, settings
    )


def build(root: Path, spec: str = SPEC, reviewers: tuple[str, ...] = ("ann", "bob")) -> Stage:
    """Everything up to the report; gives its stage. The working directory must be `root`."""
    plan = project(root, spec).plan("small")
    (root / "registry" / "data" / "our-labels").mkdir()
    (root / "registry" / "data" / "our-labels" / "labels.csv").write_text(LABELS)
    with chdir(root):
        for planned in plan.stages:
            made = stage(planned)
            if planned.kind == "assemble" and "reviews" in made.inputs:
                review(Path(made.inputs["reviews"]), made, reviewers)
            if planned.kind == "infer":
                answer(made)
            elif planned.kind == "report":
                return made
            elif planned.kind != "finetune":
                importlib.import_module(f"qualm.runners.stages.{planned.kind}").run(made)
    raise AssertionError("the plan has no report")


def review(entry: Path, assemble: Stage, reviewers: tuple[str, ...]) -> None:
    """Every reviewer decides most questions; some are found invalid, and not always by all."""
    pool = read_pool([Path(p) for p in assemble.inputs["recipes"].values()], [Path(p) for p in assemble.inputs["datasets"].values()])
    found = []
    for reviewer in reviewers:
        for q in pool.questions.values():
            draw = luck(reviewer, q.sample_id)
            bad = luck(q.sample_id) < (0.15 if "extraneous" in q.category else 0.04)
            if draw < 0.9:
                found.append(Decision(q.sample_id, q.content, reviewer, "invalid" if bad != (draw < 0.03) else "valid"))
    write_decisions(entry / "decisions.csv", found)


def luck(*names: str) -> float:
    return int.from_bytes(hashlib.sha256("\x00".join(names).encode()).digest()[:6], "big") / 2**48


def answer(infer: Stage) -> None:
    """Made-up answers of one model to one dataset, to every row but training ones."""
    model, (dataset, folder) = infer.params["model"]["label"], next(iter(infer.inputs["datasets"].items()))
    right, declines, shy = SKILL[model]
    rows = []
    for s in read_table(Path(folder) / "samples.parquet", SAMPLES).to_pylist():
        if s["split"] == "train":
            continue
        chance = np.random.default_rng(int(luck(model, dataset, s["sample_id"]) * 2**48)).random(3)
        refuses = chance[0] < (shy if s["answerable"] else declines)
        hit = s["answerable"] and chance[1] < right
        right_answer = s["references"][0] if s["references"] else ""
        wrong_answer = {"yes": "no", "no": "yes"}.get(right_answer, "purple")
        text = "I cannot tell from the image." if refuses else right_answer if hit else wrong_answer
        good = refuses != s["answerable"] if refuses else hit
        sure = float(np.clip((0.72 if good else 0.5) + 0.25 * chance[2], 0, 1)) if model == "sft-ours" else float(0.6 + 0.39 * chance[2])
        rows.append(
            {
                "sample_id": s["sample_id"],
                "variant": "clean",
                "draw": 0,
                "text": text,
                "p_yes": sure,
                "token_logprobs": [-0.1],
                "input_digest": "0",
            }
        )
    write_table(Path(infer.outputs["generations"][dataset]), rows, GENERATIONS)
