"""A checkout whose benchmark has run, as far as DVC and git can tell: made in a moment, without running anything."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import yaml

from qualm.compiler.plan.emit import MARKER_MD5, pipeline
from qualm.compiler.project.checkout import Project
from tests.support.projects.locked import locked_dep

ROOT = Path(__file__).resolve().parents[3]
SPEC = """\
qualm: 1
name: mini
datasets:
  scenes: {card: synthetic_scenes, level: easy, format: open, test: 6}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
judges: [rules]
metrics: [accuracy]
"""


def git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    return subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def commit(root: Path, message: str = "work") -> None:
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", message)


def stored(root: Path, content: bytes) -> str:
    """Put bytes into the cache; their hash."""
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    file = root / ".dvc" / "cache" / "files" / "md5" / md5[:2] / md5[2:]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return md5


def finished_project(root: Path) -> Project:
    """All in git, every lock entry in step, every output in the cache; a default remote beside the checkout."""
    (root / "specs/prompts").mkdir(parents=True)
    (root / "specs/mini.yaml").write_text(SPEC)
    (root / "params.yaml").write_text("default: mini\nseed: 7\n")
    (root / ".gitignore").write_text("__pycache__/\n.qualm/\n")
    (root / ".dvcignore").write_text("__pycache__/\n.qualm/\n")
    (root / ".dvc").mkdir()
    (root / ".dvc/.gitignore").write_text("/config.local\n/tmp\n/cache\n")
    (root / ".dvc/config").write_text("[core]\n    remote = lab\n    analytics = false\n['remote \"lab\"']\n    url = ../../lab\n")
    entry = root / "registry/data"
    entry.mkdir(parents=True)
    model = stored(root, b"weights")
    (entry / "scene-vlm-base.dvc").write_text(yaml.safe_dump({"outs": [{"md5": model, "hash": "md5", "path": "scene-vlm-base"}]}))
    (entry / ".gitignore").write_text("/scene-vlm-base\n")
    git(root, "init", "-q")
    project = Project(root)
    project.compile(["mini"])
    run(project)
    commit(root)
    return project


def run(project: Project, what: str = "") -> None:
    """Make every output of `mini` anew, content and all, and lock it."""
    plan, root = project.plan("mini"), project.root
    compiled, lock, made = pipeline(plan)["stages"], {}, {plan.marker: MARKER_MD5}
    for stage in plan.stages:
        outs = [{"path": path, "hash": "md5", "md5": stored(root, f"{path} {what}".encode())} for path in stage.outs]
        made |= {o["path"]: o["md5"] for o in outs}
        for path in (stage.outputs[key] for key in stage.kept_in_git):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(f"{path} {what}")
        deps = [locked_dep(root, p, made.get(p)) for p in compiled[stage.name]["deps"]]
        params = {f"specs/mini/stages/{stage.name}.json": stage.tracked}
        lock[stage.name] = {"cmd": compiled[stage.name]["cmd"], "deps": deps, "params": params, "outs": outs}
        record = root / ".dvc/cache/runs/ab" / f"{stage.name}{what}" / "record"
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(yaml.safe_dump({"cmd": compiled[stage.name]["cmd"], "outs": outs}))
    (root / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": lock}, sort_keys=False))
