"""A good spec, to be changed in one place; what it resolves to, or the problems that are found."""

from pathlib import Path

import pytest

from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from qualm.compiler.spec.resolved import Resolved

GOOD = """\
qualm: 1
name: t
datasets:
  scenes: {card: synthetic_scenes, test: 10}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
perturbations:
  - blur: {radius: [2, 6]}
judges: [rules]
estimators: [perplexity]
conformal:
  half: {scores: [lac, aps]}
metrics:
  - accuracy
  - ece: {bins: 15}
  - auroc
  - set_size
"""


def resolve(tmp_path: Path, text: str, name: str = "t") -> Resolved:
    path = tmp_path / f"{name}.yaml"
    path.write_text(text)
    return resolve_file(path, tmp_path, RunWide(default="t"))


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        resolve(tmp_path, text)
    return [str(p) for p in caught.value.problems]


def change(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)
