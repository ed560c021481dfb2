"""`qualm judges`: how far the judges of a spec agree with people, on a file of labelled answers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError


def measure_judges(project: Project, spec: str | None, labels: Path | None) -> dict[str, Any]:
    """Return {judge: agreement with people's labels}; ProjectError without judges or labels.

    Args:
        project: whose spec.
        spec: its name; the default one if None.
        labels: a CSV file; the spec's `judging.labels` if None.

    Raises:
        ProjectError: no labels, no judges, a judge that fails.
    """
    from qualm.runners.contracts.judges import JudgeError
    from qualm.runners.results.judge_reliability import LabelError, read_labels, reliability_of_judges
    from qualm.runners.runtime.settings import SettingsError

    resolved = project.resolve(spec)
    name = resolved.spec.judging.labels
    if labels is None and name is None:
        raise ProjectError(f"{resolved.spec.name}: name labelled answers by --labels FILE, or in the spec as `judging: {{labels: ENTRY}}`")
    if not resolved.judges:
        raise ProjectError(f"{resolved.spec.name}: has no judges; add `judges:`")
    path = labels if labels is not None else project.root / "registry" / "data" / str(name)
    counters: Counter[str] = Counter()
    try:
        return reliability_of_judges([j.as_json() for j in resolved.judges], read_labels(path), project.settings, counters)
    except (JudgeError, LabelError, SettingsError) as error:
        raise ProjectError(str(error)) from error


def show(agreement: dict[str, Any]) -> None:
    """Print the judges' agreement with people as a table."""
    from qualm.registry.system.console import Console
    from qualm.registry.system.grids import Grid

    columns = ("n", "unread", "right on refusals", "missed", "imagined", "rated", "tau-b", "p", "sensitivity", "specificity")
    grid = Grid([("judge", "left"), *((column, "right") for column in columns)])
    for label, of in agreement.items():
        refusals, ratings = of["refusals"], of["ratings"]
        share = _percent(refusals["accuracy"])
        if refusals["accuracy"] is not None:
            share += f" ({_percent(refusals['low'])} to {_percent(refusals['high'])})"
        tau = "undefined" if ratings["tau_b"] is None else f"{ratings['tau_b']:.4f}"
        if ratings["low"] is not None:
            tau += f" ({ratings['low']:.2f} to {ratings['high']:.2f})"
        p = "" if ratings["p"] is None else f"{ratings['p']:.3g}"
        counts = [str(refusals["missed"]), str(refusals["imagined"]), str(ratings["n"])]
        shares = [_percent(of[name]["share"]) + f" of {of[name]['n']}" * bool(of[name]["n"]) for name in columns[-2:]]
        grid.add(label, str(of["n"]), str(of["unread"]), share, *counts, tau, p, *shares)
    grid.print(Console())


def _percent(value: float | None) -> str:
    return "undefined" if value is None else f"{100 * value:.1f}%"
