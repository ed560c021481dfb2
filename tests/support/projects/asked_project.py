"""A checkout with a small spec whose data and answers were made for real, in this process, and locked as DVC would."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from typing import Any

import yaml

from qualm.compiler.plan.emit import MARKER_MD5, pipeline
from qualm.compiler.project.checkout import Project
from qualm.registry.system.dvc_objects import hash_path
from qualm.runners.contracts.stages import stage_kind
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, read_stage, write_record
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.locked import locked_dep

SPEC = """\
qualm: 1
name: t
datasets:
  scenes: {card: synthetic_scenes, level: easy, format: open, test: 6}
perturbations:
  - blur: {radius: 1}
models:
  base: {hf_vlm: {artifact: tiny, dtype: float64}}
inference: {draws: 2, max_new_tokens: 3}
judges: [rules]
estimators: [perplexity, p_true, semantic_entropy: {nli: lexical}]
metrics: [accuracy, auroc]
"""
INFER = "infer-base-scenes"
PARTS = {"answers": 12, "draws": 24, "signals": 12}


def asked_project(root: Path, spec: str = SPEC) -> Project:
    """Data and answers made and locked; what comes after them has never run."""
    (root / "specs").mkdir(parents=True)
    (root / "specs/t.yaml").write_text(spec)
    (root / "params.yaml").write_text("default: t\nseed: 7\n")
    (root / ".gitignore").write_text("__pycache__/\n.qualm/\n")
    (root / ".dvcignore").write_text("__pycache__/\n.qualm/\n")
    (root / ".dvc").mkdir()
    (root / ".dvc/config").write_text("[core]\n    analytics = false\n    no_scm = true\n")
    (root / "registry").mkdir()
    tiny_llava(root / "registry/data/tiny")
    md5 = hash_path(root, "registry/data/tiny")
    (root / "registry/data/tiny.dvc").write_text(yaml.safe_dump({"outs": [{"md5": md5, "hash": "md5", "path": "tiny"}]}))
    project = Project(root)
    project.compile(["t"])
    make(project, "data-scenes")
    make(project, INFER)
    return project


def make(project: Project, name: str) -> Stage:
    """Run one stage, and write its entry of dvc.lock; returns it with its counters."""
    import torch

    torch.set_num_threads(1)
    with chdir(project.root):
        stage = read_stage(f"t/{name}", Settings(device="cpu", batch_size=8, workers=2, progress=False))
        stage_kind(stage.kind).run()(stage)
        write_record(stage, 1.0)
    lock(project, name)
    return stage


def lock(project: Project, *names: str) -> None:
    """Entries of dvc.lock for what lies there now."""
    plan, file = project.plan(), project.root / "dvc.lock"
    stages: dict[str, Any] = yaml.safe_load(file.read_text())["stages"] if file.exists() else {}
    for name in names:
        stage = plan.stage(name)
        compiled = pipeline(plan)["stages"][name]
        deps = [locked_dep(project.root, path, MARKER_MD5 if path == plan.marker else None) for path in compiled["deps"]]
        outs = [{"path": path, "hash": "md5", "md5": hash_path(project.root, path)} for path in stage.outs]
        params = {f"specs/t/stages/{name}.json": stage.tracked}
        stages[name] = {"cmd": compiled["cmd"], "deps": deps, "params": params, "outs": outs}
    file.write_text(yaml.safe_dump({"schema": "2.0", "stages": stages}, sort_keys=False))
