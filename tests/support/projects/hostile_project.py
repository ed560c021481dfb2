"""A project that harms whoever runs its code: plugins, modules of well-known names, git hooks, remotes. Each leaves a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.projects.finished_project import git

SPEC = """\
qualm: 1
name: t
datasets:
  scenes: {card: planted_card, level: easy, format: open, test: 9}
perturbations:
  - planted: {radius: 2}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
  other: {hf_vlm: {artifact: scene-vlm-base, dtype: float64}}
inference: {draws: 1, max_new_tokens: 2}
judges: [planted, rules]
estimators: [perplexity, planted]
metrics: [accuracy, auroc, planted]
slices: [category]
compare: {interval: {bootstrap: 20}}
report: {examples: 2}
"""
CARD = """\
name: planted_card
kind: dataset
title: Scenes
description: <script>alert(1)</script>
adapter: planted
source: generated
licence: MIT
citation: ""
"""
PLUGINS = {
    "registry/adapters": """\
from collections.abc import Iterator
from qualm.registry.adapters.synthetic_scenes import synthetic_scenes

def planted(context, *, level: str = "easy", format: str = "open", test: int = 6):
    return synthetic_scenes(context, level=level, format=format, test=test)
""",
    "runners/plugins/perturbations": """\
from qualm.runners.plugins.perturbations.blur import blur
MODALITY = "image"

def planted(batch, rngs, *, radius: float = 2.0):
    return blur(batch, rngs, radius=radius)
""",
    "runners/plugins/judges": """\
from qualm.runners.plugins.judges.rules import rules

def planted(questions, references, predictions):
    return rules(questions, references, predictions)
""",
    "runners/plugins/estimators": """\
from qualm.runners.plugins.estimators.perplexity import perplexity
NEEDS = ["token_logprobs"]

def planted(token_logprobs):
    return perplexity(token_logprobs)
""",
    "runners/plugins/metrics": """\
import numpy as np
from qualm.registry.plugins.protocols import MetricMeta
META = MetricMeta(higher_is_better=True)

def planted(correct, weights):
    return weights @ correct / np.asarray(weights).sum(axis=1)
""",
    "runners/plugins/exports": """\
OF = "results"

def planted(context):
    (context.folder / "planted.txt").write_text("exported")
""",
}
"""Folder -> source of its plugin `planted`."""
MODULES = (
    "queue", "random", "json", "typing", "dataclasses", "string", "calendar", "secrets", "token", "platform", "shlex", "logging", "csv",
    "yaml", "numpy", "pyarrow", "polars", "dvc", "git", "typer", "rich", "PIL", "compiler", "registry", "runners", "qualm",
    "sitecustomize", "usercustomize", "conftest", "setup",
)  # fmt: skip
"""Names of modules and packages that lie at the project's root."""
GIT_SETTINGS = (
    "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass", "core.gitProxy", "core.alternateRefsCommand",
    "diff.external", "diff.planted.command", "diff.planted.textconv", "credential.helper", "gpg.program", "uploadpack.packObjectsHook",
    "pager.log", "pager.show", "interactive.diffFilter",
)  # fmt: skip
"""Settings of a repository that name programs, without filters, which git cannot be kept from running."""
HOOKS = (
    "pre-commit",
    "post-checkout",
    "post-index-change",
    "pre-auto-gc",
    "post-merge",
    "reference-transaction",
    "post-update",
    "pre-push",
)


class HostileProject:
    """A project with results, whose code reports to a folder when it runs."""

    def __init__(self, folder: Path) -> None:
        self.root, self.canaries = folder / "stranger", folder / "canaries"
        self.canaries.mkdir()
        self.home = folder / "home"
        self.home.mkdir()
        self.qualm("init", "stranger", folder=folder)
        for place, source in PLUGINS.items():
            self._write(f"{place}/planted.py", f"{self._alarm(place)}\n{source}")
        self._write("registry/cards/planted_card.yaml", CARD)
        self._write("specs/t.yaml", SPEC)
        self._write("params.yaml", "default: t\nseed: 7\nlimit: null\n")
        self._write("qualm.toml", 'device = "cpu"\nworkers = 1\nprogress = false\n')

    def qualm(self, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Type `qualm ...` in the project, with the script that pip installs."""
        scripts = Path(sys.executable).parent
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("QUALM", "PYTHON", "AWS", "GIT"))}
        path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
        environment = {**inherited, "HOME": str(self.home), "PATH": path, "DVC_NO_ANALYTICS": "1", "QUALM_PROGRESS": "0"}
        command = [str(scripts / "qualm"), *arguments]
        where = folder or self.root
        return subprocess.run(command, cwd=where, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    def alarms(self) -> list[str]:
        """Return what has run since the last call, sorted."""
        names = sorted(file.name for file in self.canaries.iterdir())
        for name in names:
            (self.canaries / name).unlink()
        return names

    def plant(self) -> None:
        """Lay every trap but the plugins, which lie there already."""
        for name in MODULES:
            self._write(f"{name}.py" if not (self.root / name).is_dir() else f"{name}/__init__.py", self._alarm(f"module {name}"))
        for name in ("runners/plugins/__init__.py", "registry/data/queue.py", "results/queue.py"):
            self._write(name, self._alarm(f"module {name}"))
        self._git()
        self._remote()

    def _git(self) -> None:
        hooks = self.root / ".git/hooks"
        for name in HOOKS:
            self._script(hooks / name, f"hook {name}")
        scripts = self.root / ".git/scripts"
        scripts.mkdir()
        for key in GIT_SETTINGS:
            git(self.root, "config", key, str(self._script(scripts / key, f"git {key}")))
        git(self.root, "config", "log.showSignature", "true")
        git(self.root, "config", "remote.origin.url", f"ext::{scripts / 'core.sshCommand'}")
        (self.root / ".git/info/attributes").write_text("* diff=planted\n")

    def _remote(self) -> None:
        program = self._script(self.root / ".dvc/credentials.sh", "credential_process")
        (self.root / ".dvc/aws").write_text(f"[default]\ncredential_process = {program}\n[profile lab]\ncredential_process = {program}\n")
        (self.root / ".dvc/config").write_text(
            "[core]\n    analytics = false\n    remote = lab\n"
            "['remote \"lab\"']\n    url = s3://bucket/data\n    profile = lab\n    configpath = aws\n    endpointurl = http://127.0.0.1:9\n"
        )

    def _alarm(self, name: str) -> str:
        return f"open({str(self.canaries / name.replace('/', '.'))!r}, 'a').close()"

    def _script(self, file: Path, name: str) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n: >>'{self.canaries / name}'\nexit 0\n")
        file.chmod(0o755)
        return file

    def _write(self, name: str, text: str) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
