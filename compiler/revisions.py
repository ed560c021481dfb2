"""Two revisions of a benchmark side by side: the spec's text, the resolved parameters, the results."""

from __future__ import annotations

import difflib
import json
from typing import Any

from compiler.at_revision import commit_of, git
from compiler.explain import differences
from compiler.project import Project


def diff_revision(project: Project, spec: str | None, revision: str) -> dict[str, Any]:
    """What changed between a git revision, or a DVC experiment, and the working tree.

    Returns:
        `spec_diff` (unified diff lines), `parameters` ({stage, change}), `results` ({model, dataset, metric, old, new, change}).
    """
    plan = project.plan(spec)
    commit = commit_of(project, revision)
    file = f"specs/{plan.spec}.yaml"
    old_text, new_text = _at(project, commit, file) or "", (project.root / file).read_text(encoding="utf-8")
    lines = difflib.unified_diff(old_text.splitlines(), new_text.splitlines(), f"{file} at {revision}", file, lineterm="", n=1)
    parameters = []
    stages = {f"specs/{plan.spec}/stages/{s.name}.json": s for s in plan.stages}
    before = set((git(project.root, "ls-tree", "--name-only", commit, f"specs/{plan.spec}/stages/") or "").split())
    for path in sorted(before | stages.keys()):
        name = path.rsplit("/", 1)[1].removesuffix(".json")
        if path not in stages:
            parameters.append({"stage": name, "change": "is gone"})
        elif path not in before:
            parameters.append({"stage": name, "change": "is new"})
        else:
            old = json.loads(_at(project, commit, path) or "{}")
            parameters += [{"stage": name, "change": str(r)} for r in differences(old, stages[path].as_json())]
    return {
        "spec": plan.spec,
        "revision": revision,
        "spec_diff": list(lines),
        "parameters": parameters,
        "results": _results(project, plan.spec, commit),
    }


def _results(project: Project, spec: str, revision: str) -> list[dict[str, Any]]:
    path = f"results/{spec}/metrics.json"
    now = project.root / path
    old = _flat(json.loads(_at(project, revision, path) or "{}"))
    new = _flat(json.loads(now.read_text(encoding="utf-8")) if now.is_file() else {})
    found = []
    for key in sorted(old.keys() | new.keys()):
        a, b = old.get(key), new.get(key)
        if a != b:
            change = b - a if a is not None and b is not None else None
            model, dataset, metric = key
            found.append({"model": model, "dataset": dataset, "metric": metric, "old": a, "new": b, "change": change})
    return found


def _flat(metrics: dict[str, Any]) -> dict[tuple[str, str, str], float]:
    return {(m, d, k): v for m, sets in metrics.items() for d, values in sets.items() for k, v in values.items()}


def _at(project: Project, revision: str, path: str) -> str | None:
    return git(project.root, "show", f"{revision}:{path}")
