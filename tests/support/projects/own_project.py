"""A project beside Qualm: a spec, a card and a metric of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from qualm.registry.plugins.registry import ROOT
from tests.support.processes.forks import forks

SPEC = """\
qualm: 1
name: small
datasets:
  scenes: {card: own_scenes, test: 6}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
judges: [rules]
metrics: [accuracy, own_metric]
"""
CARD = """\
name: own_scenes
kind: dataset
title: Scenes of one's own
description: Drawn scenes.
adapter: synthetic_scenes
source: generated
licence: MIT
citation: ""
args: {level: easy, format: open}
"""
METRIC = '''\
"""Mean correctness."""

from qualm.registry.plugins.protocols import MetricMeta

from ._shared import mean

META = MetricMeta(higher_is_better=True)


def own_metric(correct, weights):
    """The mean of `correct`."""
    return mean(correct, weights)
'''
SHARED = """\
import numpy as np


def mean(column, weights):
    return weights @ column / np.asarray(weights).sum(axis=1)
"""


def own_project(root: Path) -> Path:
    """Written into a new folder, which is returned."""
    files = {
        "params.yaml": "default: small\nseed: 7\n",
        "specs/small.yaml": SPEC,
        "registry/cards/own_scenes.yaml": CARD,
        "runners/plugins/metrics/own_metric.py": METRIC,
        "runners/plugins/metrics/_shared.py": SHARED,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root.resolve()


def run(root: Path, *arguments: str) -> str:
    """A module as a process in the project; what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    command = [str(forks().python), "-m", *arguments]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def with_plugin(root: Path, spec: str, file: str, plugin: str) -> Path:
    """A project of the spec `t` and one plugin below `runners/plugins/`, compiled."""
    for name, text in {"params.yaml": "default: t\nseed: 7\n", "specs/t.yaml": spec, f"runners/plugins/{file}": plugin}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    run(root, "qualm", "compile")
    return root
