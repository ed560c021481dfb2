"""Options of `qualm strength`, and checks of the effect and the range."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qualm.compiler.commands.strength_entry import PerturbationEntry
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.plugins.registry import MAX_NUMBER

if TYPE_CHECKING:
    from qualm.runners.review.effects import Goal
    from qualm.runners.review.knobs import Knob


OUTPUT = ".qualm/calibrations"


@dataclass(frozen=True)
class StrengthRequest:
    perturbation: str | None = None
    parameter: str | None = None
    model: str | None = None
    dataset: str | None = None
    samples: int = 200
    auto: bool = False
    share: float | None = None
    distance: str | None = None
    range: str | None = None
    scale: str = "auto"
    write: bool = False
    add: bool = False
    output: Path | None = None
    reviewer: str | None = None
    port: int | None = None
    browse: bool = True


def goal_of(request: StrengthRequest, entry: PerturbationEntry) -> Goal:
    """Return the target effect from `--share` or `--distance`, 20% of answers by default.

    Raises:
        ProjectError: two effects are given, or one that is unknown or impossible for this perturbation.
    """
    from qualm.runners.review.effects import DISTANCES, distance_goal, share_goal

    if request.share is not None and request.distance is not None:
        raise ProjectError("--share and --distance both name a target effect; give one of them")
    if request.distance is None:
        return share_goal(0.2 if request.share is None else request.share)
    metric, _, value = request.distance.partition("=")
    if entry.plugin.declares.get("MODALITY") == "text":
        raise ProjectError(f"{entry.plugin.name} edits questions, and --distance is of images; use --share")
    try:
        return distance_goal(metric.strip().lower(), float(value))
    except ValueError as error:
        raise ProjectError(f"--distance: {error}; write METRIC=VALUE, METRIC one of {', '.join(DISTANCES)}") from error


def range_of(request: StrengthRequest, knob: Knob) -> tuple[float, float] | None:
    """Return (low, high) of `--range`, None if not given; ProjectError if out of bounds.

    Raises:
        ProjectError: the range is malformed, or outside the strength's bounds.
    """
    bounds = _pair(request.range)
    if bounds is not None and (bounds[0] < knob.low or (bounds[1] > knob.high and not knob.open_above)):
        most = "any number" if knob.open_above else f"{knob.high:g}"
        raise ProjectError(f"--range: expected {knob.name} from {knob.low:g} to {most}, got {bounds[0]:g}:{bounds[1]:g}")
    return bounds


def _pair(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        raise ProjectError(f"--range: expected LOW:HIGH, two numbers, got '{text}'") from None
    if not low < high:
        raise ProjectError(f"--range: expected LOW below HIGH, got '{text}'")
    if max(-low, high) > MAX_NUMBER:
        raise ProjectError(f"--range: expected numbers of at most {MAX_NUMBER:,}, got '{text}'")
    return low, high
