"""A spec to start from."""

import re

from qualm.compiler.project.checkout import Project
from qualm.compiler.schema.editors import FIRST_LINE, write_schema
from qualm.compiler.spec.errors import ProjectError, nearest
from qualm.compiler.spec.language import NAME_PATTERN

TEMPLATE = """\
qualm: 1
name: {name}
title: {name}

# What is asked. A card of registry/cards/ (`qualm data ls`); its adapter's parameters stand beside it.
datasets:
  scenes: {{card: synthetic_scenes, test: 200}}

# Who answers. `qualm ls models` lists the adapters, `qualm ls models hf_vlm` explains one.
models:
  base: {{hf_vlm: {{artifact: scene-vlm-base}}}}

# Variants of every sample. A list of values is a sweep: one variant per value.
perturbations:
  - blur: {{radius: [1, 2]}}

judges: [rules]
estimators: [max_sequence_probability, perplexity]
metrics: [accuracy, ece, auroc, auarc]
slices: [category]
"""

VARIANT = """\
# A variant: mappings merge with those of {parent}.yaml, anything else replaces, null removes.
extends: {parent}.yaml
name: {name}
title: {name}
"""


def write_new(project: Project, name: str, extends: str | None) -> str:
    """Write specs/NAME.yaml; returns what to do next."""
    if not re.match(NAME_PATTERN, name):
        raise ProjectError(f"'{name}' is not a valid name for a spec; use letters, digits, '_', '-' and '.', at most 64")
    path = project.root / "specs" / f"{name}.yaml"
    if path.exists():
        raise ProjectError(f"{path.relative_to(project.root)} exists; choose another name")
    if extends is not None and extends not in project.specs():
        raise ProjectError(f"no spec '{extends}'; {nearest(extends, project.specs())}")
    text = VARIANT.format(name=name, parent=extends) if extends else TEMPLATE.format(name=name)
    path.write_text(FIRST_LINE + text, encoding="utf-8")
    write_schema(project.root)
    return f"wrote specs/{name}.yaml; edit it, then:\n  qualm validate {name}\n  qualm plan {name}\n  qualm run {name}"
