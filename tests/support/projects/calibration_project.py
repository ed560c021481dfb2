"""A project with a spec of perturbations, a small dataset and a random vision-language model, to calibrate for real."""

from __future__ import annotations

from pathlib import Path

from qualm.compiler.project.checkout import Project
from tests.support.projects.tiny_project import write_dataset

ROOT = Path(__file__).resolve().parents[3]
SPEC = """\
# what this is for
qualm: 1
name: s
datasets:
  scenes: {card: synthetic_scenes, test: 24}   # drawn

perturbations:
  # out of focus
  - blur: {radius: [1, 2]}   # a sweep
  - gaussian_noise:
      sigma: 40      # as in the paper
  - typos
  - jpeg: {quality: 30}

models:
  tiny: {hf_vlm: {artifact: tiny}}
inference: {max_new_tokens: 4}
estimators: [perplexity]
"""


def calibration_project(folder: Path, model: Path, spec: str = SPEC, samples: int = 24, side: int = 32) -> Project:
    """The checkout: specs/s.yaml, its dataset `scenes` as the data stage leaves it, and the folder of a model as `tiny`."""
    (folder / "specs").mkdir()
    (folder / "specs" / "s.yaml").write_text(spec, newline="")
    (folder / "params.yaml").write_text("default: s\n")
    (folder / ".dvc").mkdir()
    (folder / ".dvc/config").write_text("[core]\n    no_scm = true\n")
    (folder / "registry" / "data").mkdir(parents=True)
    for part in [ROOT / "runners", *(p for p in (ROOT / "registry").iterdir() if p.name != "data")]:  # whose imports a plan lists
        (folder / part.relative_to(ROOT)).symlink_to(part)
    (folder / "registry" / "data" / "tiny").symlink_to(model)
    write_dataset(folder / "results" / "s" / "data" / "scenes", samples, choices=False, side=side)
    (folder / "qualm.toml").write_text('device = "cpu"\nbatch_size = 8\nworkers = 1\nprogress = false\n')
    return Project(folder)
