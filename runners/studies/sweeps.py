"""Strength sweeps: variants of one perturbation that differ in one numeric parameter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sweep:
    """One parameter of one perturbation at two or more values."""

    perturbation: str
    """Plugin, and in brackets its other parameters that vary in the spec."""
    modality: str
    parameter: str
    points: tuple[tuple[float, str], ...]
    """(strength, label of the variant), strengths ascending."""


def sweeps(variants: Sequence[Mapping[str, Any]]) -> list[Sweep]:
    """Find every numeric parameter with two or more values under equal other parameters.

    Args:
        variants: as the compiler writes them: `variant` (label), `plugin`, `modality`, `args`.

    >>> blur = lambda r: {"variant": f"blur@radius={r}", "plugin": "blur", "modality": "image", "args": {"radius": r, "relative": False}}
    >>> sweeps([blur(4), blur(2)])[0].points
    ((2.0, 'blur@radius=2'), (4.0, 'blur@radius=4'))
    """
    strengths: dict[tuple[str, str, str], dict[float, str]] = {}
    for one in variants:
        args = one["args"]
        for name, value in args.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                others = json.dumps({k: v for k, v in args.items() if k != name}, sort_keys=True)
                strengths.setdefault((one["plugin"], name, others), {})[float(value)] = one["variant"]
    several = {key: points for key, points in strengths.items() if len(points) > 1}
    modality = {one["plugin"]: str(one["modality"]) for one in variants}
    return [Sweep(_title(key, list(several)), modality[key[0]], key[1], tuple(sorted(several[key].items()))) for key in sorted(several)]


def _title(key: tuple[str, str, str], keys: Sequence[tuple[str, str, str]]) -> str:
    """Name a sweep by its plugin and the other parameters in which its sweeps differ."""
    plugin, name, others = key
    same = [json.loads(k[2]) for k in keys if k[:2] == (plugin, name)]
    own = json.loads(others)
    apart = [k for k in own if any(other.get(k) != own[k] for other in same)]
    return plugin + (f" ({', '.join(f'{k}={own[k]}' for k in apart)})" if apart else "")
