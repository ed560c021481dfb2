"""A small spec with one of each stage, and the plan of it or of a variant of it."""

from pathlib import Path

from compiler.plan import Plan
from compiler.planning.make import make_plan
from compiler.resolve import resolve_file
from compiler.resolved import Resolved
from compiler.spec import RunWide

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
    path = tmp_path / "t.yaml"
    path.write_text(text)
    return resolve_file(path, tmp_path, RunWide(default="t"))


def make(tmp_path: Path, text: str = SPEC) -> Plan:
    return make_plan(resolved(tmp_path, text))
