"""Two revisions of a benchmark side by side: the spec's text, the resolved parameters, the results."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qualm.compiler.plan.plan import Plan
from qualm.compiler.project.checkout import Project
from qualm.compiler.project.rebuilds import differences
from qualm.compiler.results.at_revision import commit_of, scores_at
from qualm.compiler.results.compare import against_revision
from qualm.compiler.results.integrity import report_changed
from qualm.compiler.results.scores import read_scores
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.registry import ALL, CLEAN, MACRO
from qualm.registry.system import textfiles
from qualm.registry.system.git import output

Key = tuple[str, str, str, str]
"""Model, dataset, variant, metric."""


TESTED = (
    *("n", "low", "high", "p", "p_adjusted", "significant", "better"),
    *("why", "compared_by", "margin", "p_equivalent", "p_not_worse"),
)
"""Columns that a paired test adds to a changed result."""
SAME = 1e-6
"""Values closer than this are equal: results are rounded."""
Files = Mapping[str, Any]
"""Content of a benchmark's compiled stages by name, and its results under `RESULTS`."""
RESULTS = ""


def diff_revision(project: Project, spec: str | None, revision: str, pull: bool = False) -> dict[str, Any]:
    """Return how spec text, parameters and results differ from a revision, tested.

    Args:
        project: the checkout.
        spec: name of a spec; None: the default one.
        revision: commit, branch, tag or experiment.
        pull: fetch the revision's answers from the default remote where the cache lacks them.

    Returns:
        `spec_diff` (unified diff lines), `parameters` ({stage, change}), `results` ({model, dataset, variant, metric, old, new, change,
        and of the paired test the fields in `TESTED`}), `changed_results`, `level`, `test` (None without), `notes`. Of a metric that
        is compared by another one the interval is None. Results under variants other than `clean` are not tested.
    """
    plan = project.plan(spec)
    commit = commit_of(project, revision)
    file = f"specs/{plan.spec}.yaml"
    old_text, new_text = _at(project, commit, file) or "", textfiles.read_text(project.root / file)
    lines = difflib.unified_diff(old_text.splitlines(), new_text.splitlines(), f"{file} at {revision}", file, lineterm="", n=1)
    parameters, results = diff_files(_files_at(project, plan.spec, commit), _files_here(project, plan))
    scores = [stage.outputs["scores"] for stage in plan.writers("scores")]
    changed = report_changed(project.root, [f"results/{plan.spec}/metrics.json", *scores])
    tests = add_paired_tests(project, plan.spec, revision, results, pull)
    changed += tests.pop("changed_results", [])
    if scores and any(variant["variant"] != CLEAN for stage in plan.writers("generations") for variant in stage.params["variants"]):
        perturbed, notes = _perturbed(project, plan.spec, scores[0], revision, pull)
        results = sorted([*results, *(row | dict.fromkeys(TESTED) for row in perturbed)], key=lambda row: (row["model"], row["dataset"]))
        tests["notes"] += notes
    shown = {"spec": plan.spec, "revision": revision, "spec_diff": list(lines), "parameters": parameters, "results": results}
    return shown | {"changed_results": changed} | tests


def add_paired_tests(project: Project, spec: str, revision: str, results: list[dict[str, Any]], pull: bool = False) -> dict[str, Any]:
    """Add each changed row's paired test in place (None if untestable); return level, notes.

    Values are computed again, from the answers of both sides with the metrics of this checkout. Where they do not come out as the
    results say (other questions, metrics that count otherwise), a test would be of another change, and is left out.
    """
    rows = {(r["model"], r["dataset"], r["metric"]): r for r in results if r["change"] is not None}
    for row in results:
        row.update(dict.fromkeys(TESTED))
    if not rows:
        return {"level": None, "test": None, "notes": []}
    try:
        models, labels = sorted({model for model, _, _ in rows}), sorted({label for *_, label in rows})
        comparison = against_revision(project, spec, revision, models, labels, pull)
    except ProjectError as error:
        return {"level": None, "test": None, "notes": [say.NO_TEST.format(why=error)]}
    notes, others, shown = list(dict.fromkeys(comparison["notes"])), 0, list[dict[str, Any]]()
    for d in comparison["differences"]:
        one = rows.get((d["model"], d["dataset"], d["metric"]))
        a, b = (d["plain_a"], d["plain_b"]) if d["compared_by"] else (d["a"], d["b"])
        if one is not None and a is not None and b is not None:
            if max(abs(a - one["old"]), abs(b - one["new"])) > SAME:
                others += 1
            else:
                # An interval of another quantity is none of this change.
                ends = dict.fromkeys(("low", "high")) if d["compared_by"] else {}
                one.update({name: d[name] for name in TESTED} | ends)
                shown.append(d | {"a": revision, "b": say.WORKING_TREE})
    from qualm.compiler.results.comparisons import remarks

    notes += remarks(shown)
    if others:
        notes.append(say.CHANGES_NOT_TESTED.format(n=others))
    return {name: comparison[name] for name in ("level", "test", "changed_results")} | {"notes": notes}


def _perturbed(project: Project, spec: str, scores: str, revision: str, pull: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Return (changed results under perturbations, notes); ([], note) if scores are missing."""
    try:
        rows = _results(_under_variants(scores_at(project, revision, spec, pull)), _under_variants(project.root / scores))
    except ProjectError as error:
        return [], [say.NO_VARIANT_RESULTS.format(why=error)]
    return rows, [say.VARIANTS_NOT_TESTED] if rows else []


def _under_variants(scores: Path) -> dict[Key, float]:
    rows = read_scores(scores)
    places = {ALL: ""} | {row["slice"]: f" {row['slice']}" for row in rows if row["slice"].startswith(MACRO)}
    return {
        (row["model"], f"{row['dataset']}{places[row['slice']]}", row["variant"], row["metric"]): row["value"]
        for row in rows
        if row["variant"] != CLEAN and row["slice"] in places and row["value"] is not None
    }


def diff_commits(project: Project, spec: str, old: str, new: str) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """Return (changed parameters, changed results) of a spec between two commits."""
    return diff_files(_files_at(project, spec, old), _files_at(project, spec, new))


def diff_files(old: Files, new: Files) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """Return (changed parameters, changed results) between two states of files.

    Parameters are {stage, change}; results {model, dataset, variant, metric, old, new, change}.
    """
    parameters: list[dict[str, str]] = []
    for name in sorted((old.keys() | new.keys()) - {RESULTS}):
        if name not in new:
            parameters.append({"stage": name, "change": "is gone"})
        elif name not in old:
            parameters.append({"stage": name, "change": "is new"})
        else:
            # The digest of the spec differs whenever anything else does.
            parameters += [{"stage": name, "change": str(r)} for r in differences(old[name], new[name]) if r.what != "spec_sha256"]
    return parameters, _results(_flat(old[RESULTS]), _flat(new[RESULTS]))


def _files_at(project: Project, spec: str, commit: str) -> Files:
    folder = f"specs/{spec}/stages/"
    names = (output(project.root, "ls-tree", "-z", "--name-only", commit, folder) or "").split("\0")
    stages = {Path(name).stem: json.loads(_at(project, commit, name) or "{}") for name in names if name}
    return {**stages, RESULTS: json.loads(_at(project, commit, f"results/{spec}/metrics.json") or "{}")}


def _files_here(project: Project, plan: Plan) -> Files:
    """Return {stage: params and paths, "": results or {}} of the working tree, as compiled.

    For an unchanged spec the stages are as they lie on disk.
    """
    results = project.root / "results" / plan.spec / "metrics.json"
    stages: dict[str, Any] = {s.name: s.as_json() for s in plan.stages}
    if output(project.root, "status", "--porcelain", "--", "specs/*.yaml", "params.yaml") == "":
        lying = {name: project.root / "specs" / plan.spec / "stages" / f"{name}.json" for name in stages}
        stages |= {name: json.loads(textfiles.read_text(path)) for name, path in lying.items() if textfiles.is_file(path)}
    return {**stages, RESULTS: json.loads(textfiles.read_text(results)) if textfiles.is_file(results) else {}}


def _results(old: Mapping[Key, float], new: Mapping[Key, float]) -> list[dict[str, Any]]:
    changes = []
    for key in sorted(old.keys() | new.keys()):
        a, b = old.get(key), new.get(key)
        if a != b:
            change = b - a if a is not None and b is not None else None
            changes.append({**dict(zip(("model", "dataset", "variant", "metric"), key, strict=True)), "old": a, "new": b, "change": change})
    return changes


def _flat(metrics: Mapping[str, Any]) -> dict[Key, float]:
    return {(m, d, CLEAN, k): v for m, sets in metrics.items() for d, values in sets.items() for k, v in values.items()}


def _at(project: Project, revision: str, path: str) -> str | None:
    return output(project.root, "show", f"{revision}:{path}")
