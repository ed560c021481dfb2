"""A throw-away clone of this repository with a small benchmark as its default, and what one `dvc repro` does in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from qualm.registry import SPEC_STAGE
from tests.support.processes.forks import forks

ROOT = Path(__file__).parents[2]

MINI = """\
qualm: 1
name: mini
title: A small benchmark
datasets:
  scenes: {card: synthetic_scenes, level: easy, format: open, test: 24}
  scenes_mc: {card: synthetic_scenes, level: easy, format: multiple_choice, test: 24}
perturbations:
  - blur: {radius: 1}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
inference: {max_new_tokens: 4}
judges: [rules]
estimators: [perplexity]
conformal:
  half: {scores: [lac, aps], alpha: 0.2}
metrics:
  - accuracy
  - ece: {bins: 15}
  - auroc
  - set_size
slices: [category]
compare: {interval: {bootstrap: 20}}
report: {examples: 4}
"""


@dataclass
class Clone:
    """One checkout. Commands run in it with this very Python first on the PATH."""

    root: Path
    forked: bool = False
    """Whether Python processes are forks of one that has imported the large libraries, as `tests.support.processes.forks` has it."""

    @property
    def python(self) -> str:
        return str(forks().python) if self.forked else sys.executable

    @property
    def spec(self) -> Path:
        return self.root / "specs/mini.yaml"

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, cwd=self.root, env=self.environment(), capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)} exited {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def qualm(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run(self.python, "-m", "qualm", *arguments, check=check)

    def repro(self, *arguments: str) -> set[str]:
        """`dvc repro`; the stages of the benchmark that it executed (not those restored from a cache)."""
        return executed(self.dvc("repro", *arguments).stdout)

    def forecast(self, *arguments: str) -> dict[str, str]:
        """`qualm plan`: stage -> action."""
        return {f["stage"]: f["action"] for f in json.loads(self.qualm("plan", "--json", *arguments).stdout)}

    def counters(self, stage: str, spec: str = "mini") -> dict[str, int]:
        counters: dict[str, int] = json.loads((self.root / ".qualm/runs" / spec / f"{stage}.json").read_text())["counters"]
        return counters

    def dvc(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run(self.python, "-m", "dvc", *arguments, check=check)

    def commit(self, message: str) -> None:
        self.run("git", "add", "-A")
        self.run("git", "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "-q", "-m", message)

    def clone(self, to: Path) -> Clone:
        """What a colleague gets by `git clone`: the commit, and nothing that DVC keeps."""
        self.run("git", "clone", "-q", str(self.root), str(to))
        return Clone(to, self.forked)

    def copy(self, to: Path) -> Clone:
        shutil.copytree(self.root, to, symlinks=True)
        return Clone(to, self.forked)

    def environment(self) -> dict[str, str]:
        quiet = {"DVC_NO_ANALYTICS": "true", "QUALM_PROGRESS": "false", "OMP_NUM_THREADS": "1"}
        scripts = [forks().folder] if self.forked else []
        return {**os.environ, **quiet, "PATH": os.pathsep.join([*scripts, str(Path(sys.executable).parent), os.environ["PATH"]])}


def executed(said: str) -> set[str]:
    """The stages that DVC says it runs, without that which compiles the spec."""
    return set(re.findall(r"^Running stage '(?:[^':]+:)?([^']+)':", said, re.MULTILINE)) - {SPEC_STAGE}


def make_clone(to: Path, default: str = "mini", text: str = MINI, forked: bool = False) -> Clone:
    """A clone of the working tree's tracked and new files, committed, with `default` as its only spec and the base model in place.

    `mini` is what `text` says."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        ours = name.startswith(("specs/", "results/", "tests/")) and not name.startswith("specs/prompts/")
        if ours or name in ("dvc.yaml", "dvc.lock") or not ((ROOT / name).is_file() or (ROOT / name).is_symlink()):
            continue
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name, follow_symlinks=False)
    (to / "specs").mkdir(exist_ok=True)
    clone = Clone(to, forked=True)
    if default == "mini":
        clone.spec.write_text(text)
    else:
        shutil.copy2(ROOT / f"specs/{default}.yaml", to / "specs")
    (to / "params.yaml").write_text(f"default: {default}\nseed: 7\n")
    clone.run("git", "init", "-q")
    clone.commit("clone")
    if default == "mini":
        clone.dvc("pull", "-q", "registry/data/scene-vlm-base.dvc")
    clone.qualm("compile")
    return Clone(to, forked)
