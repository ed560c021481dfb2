"""`qualm experiments`: what each experiment of `dvc exp run` set, and what came out of it, against the commit that it starts from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qualm.compiler.project.checkout import Project
from qualm.compiler.results.at_revision import commit_of
from qualm.compiler.results.revisions import diff_commits
from qualm.registry.system.git import output


def experiments(project: Project, spec: str | None, metrics: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return per DVC experiment of HEAD, oldest first, its parameter and result changes.

    Returns:
        `name`, `parameters` ({stage, change}), `results` ({model, dataset, metric, old, new, change}) of each.
    """
    plan, head = project.plan(spec), commit_of(project, "HEAD")
    listed = (output(project.root, "for-each-ref", "--sort=creatordate", "--format=%(refname)", "refs/exps/") or "").split()
    names = [ref.rpartition("/")[2] for ref in listed if f"/{head[2:]}/" in ref]
    entries = []
    for name in names:
        parameters, results = diff_commits(project, plan.spec, head, commit_of(project, name))
        rows = [r for r in results if not metrics or {r["metric"], r["metric"].partition("@")[0]} & set(metrics)]
        entries.append({"name": name, "parameters": parameters, "results": rows})
    return entries
