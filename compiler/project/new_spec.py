"""`qualm new`: write a spec to start from."""

from __future__ import annotations

import json
import re
from typing import Any

from qualm.compiler.project.checkout import Project
from qualm.compiler.project.shipped import copy_shipped
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError, nearest
from qualm.compiler.spec.json_schema import FIRST_LINE, write_schema
from qualm.compiler.spec.yaml_positions import load
from qualm.registry.plugins.registry import NAME_PATTERN, NAME_RULE
from qualm.registry.system import atomic

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


def write_new(project: Project, name: str, extends: str | None, benchmark: str | None = None, limit: int | None = None) -> str:
    """Write specs/NAME.yaml (new, variant or copy) or raise ProjectError; return advice.

    Args:
        extends: spec of the project that it varies.
        benchmark: shipped benchmark that it copies.
        limit: questions of each dataset; with a benchmark, the new spec is a variant of its copy.

    Returns:
        Advice on what is next.
    """
    if extends and benchmark:
        raise ProjectError("--extends and --from exclude each other: a variant of a spec, or a copy of a benchmark")
    if not re.fullmatch(NAME_PATTERN, name):
        raise ProjectError(f"'{name}' is not a valid name for a spec; use {NAME_RULE}")
    path = project.root / "specs" / f"{name}.yaml"
    if path.exists():
        raise ProjectError(f"{path.relative_to(project.root)} exists; choose another name")
    if extends is not None and extends not in project.specs():
        raise ProjectError(f"no spec '{extends}'; {nearest(extends, project.specs())}")
    written = [path.relative_to(project.root)]
    if limit is not None and not (extends or benchmark):
        raise ProjectError("--limit is for a variant: say --from BENCHMARK or --extends SPEC too")
    if benchmark and limit is None:
        written = copy_shipped(project.root, benchmark, name)
    elif limit is not None:
        parent = benchmark or str(extends)
        if parent == name:
            raise ProjectError(f"'{name}' is the benchmark's own name; choose another for the variant of it")
        if benchmark and benchmark not in project.specs():
            written += copy_shipped(project.root, benchmark, benchmark)
        parent_data = load(project.root / "specs" / f"{parent}.yaml", project.root).data.get("datasets") or {}
        small = {label: few for label, entry in parent_data.items() if entry and (few := _fewer(entry, limit))}
        lines = [f"  {label}: {json.dumps(few)}".replace('"', "") for label, few in small.items()]
        # No dataset is larger: an empty `datasets:` would take those of the parent away.
        limits = ["", say.AT_MOST_QUESTIONS.format(n=limit), "datasets:", *lines, ""] if lines else []
        text = VARIANT.format(name=name, parent=parent) + "\n".join(limits)
        atomic.write_text(path, FIRST_LINE + text)
    else:
        text = VARIANT.format(name=name, parent=extends) if extends else TEMPLATE.format(name=name)
        atomic.write_text(path, FIRST_LINE + text)
    write_schema(project.root)
    files = ", ".join(file.as_posix() for file in written)
    return say.SPEC_WRITTEN.format(files=files, spec=name)


def write_limited(project: Project, spec: str | None, limit: int) -> str:
    """Write a spec variant limited to `limit` questions a dataset if missing; return its name.

    A variant that exists stays as it is.
    """
    parent = project.resolve(spec).spec.name
    name = f"{parent}-limit-{limit}"
    if name not in project.specs():
        write_new(project, name, parent, limit=limit)
    return name


def largest_take(limit: int) -> int:
    """Return half the limit, at least 1: `balance` takes that many questions of each kind."""
    return max(1, limit // 2)


def _fewer(entry: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return {key: value} that sets a dataset's `limit:` or `balance:`; {} if low enough.

    Args:
        entry: the dataset in the parent spec; its real size is not looked at.
        limit: largest number of questions, images or pairs, by split where the entry counts so; half of it for `balance: take`.
    """
    if balance := entry.get("balance"):
        take = largest_take(limit)
        return {"balance": {"take": take}} if balance["take"] > take else {}
    before = entry.get("limit")
    if not isinstance(before, dict):
        return {} if isinstance(before, int) and before <= limit else {"limit": limit}
    ((unit, numbers),) = before.items()
    small = {split: min(n, limit) for split, n in numbers.items()} if isinstance(numbers, dict) else min(numbers, limit)
    return {} if small == numbers else {"limit": {unit: small}}
