"""A project beside Qualm: a spec, a card and a metric of its own."""

from __future__ import annotations

from pathlib import Path

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

from ._shared import mean

HIGHER_IS_BETTER = True


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
