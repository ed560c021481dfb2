"""`qualm experiments`: what each experiment of `dvc exp run` set, and what came out of it, against the commit that it starts from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qualm.compiler.project.checkout import Project
from qualm.compiler.results.at_revision import EXPERIMENTS, commit_of
from qualm.compiler.results.revisions import diff_commits
from qualm.registry.system.git import output


def experiments(project: Project, spec: str | None, metrics: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return per DVC experiment of HEAD, oldest first, its parameter and result changes.

    Returns:
        `name`, `parameters` ({stage, change}), `results` ({model, dataset, metric, old, new, change}) of each.
    """
    plan, head = project.plan(spec), commit_of(project, "HEAD")
    folder = f"{EXPERIMENTS}/{head[:2]}/{head[2:]}/"
    refs = (output(project.root, "for-each-ref", "--sort=creatordate", "--format=%(refname)", folder) or "").split()
    entries = []
    for ref in refs:
        # By the full name: a branch, or an experiment of another commit, may have the same short one.
        parameters, results = diff_commits(project, plan.spec, head, commit_of(project, ref))
        rows = [r for r in results if not metrics or {r["metric"], r["metric"].partition("@")[0]} & set(metrics)]
        entries.append({"name": ref.removeprefix(folder), "parameters": parameters, "results": rows})
    return entries
