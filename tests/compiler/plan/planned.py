"""A small spec with one of each stage, and the plan of it or of a variant of it."""

from pathlib import Path

from qualm.compiler.plan.make import make_plan
from qualm.compiler.plan.plan import Plan
from qualm.compiler.spec.resolved import Resolved
from tests.compiler.spec.resolving import resolve

SPEC = """\
qualm: 1
name: t
datasets:
  scenes: {card: synthetic_scenes, test: 10}
  scenes_mc: {card: synthetic_scenes, format: multiple_choice, test: 10}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
perturbations: [blur: {radius: [1, 2]}]
judges: [rules]
estimators: [perplexity]
conformal: {half: {scores: [lac]}}
metrics: [accuracy, set_size]
"""


def resolved(tmp_path: Path, text: str = SPEC) -> Resolved:
    return resolve(tmp_path, text)


def make(tmp_path: Path, text: str = SPEC) -> Plan:
    return make_plan(resolve(tmp_path, text))
