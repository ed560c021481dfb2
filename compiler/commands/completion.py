"""Complete names in the shell: specs, their models, datasets and metrics."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from qualm.registry.entries.completion import parameter_value, quietly

if TYPE_CHECKING:
    from qualm.compiler.spec.resolved import Resolved


@quietly
def specs(context: typer.Context, incomplete: str) -> Iterable[str]:
    from qualm.compiler.project.checkout import Project

    return Project().specs()


@quietly
def shipped(context: typer.Context, incomplete: str) -> Iterable[str]:
    from qualm.compiler.project import shipped as benchmarks

    return benchmarks.shipped()


@quietly
def models(context: typer.Context, incomplete: str) -> Iterable[str]:
    return _resolved(context).scored_models


@quietly
def sides(context: typer.Context, incomplete: str) -> Iterable[str]:
    from qualm.compiler.project.checkout import Project

    spec, colon, _ = incomplete.partition(":")
    if colon:
        return [f"{spec}:{model}" for model in Project().resolve(spec).scored_models]
    return [*Project().specs(), *_resolved(context).scored_models]


@quietly
def datasets(context: typer.Context, incomplete: str) -> Iterable[str]:
    resolved = _resolved(context)
    return [*(d.label for d in resolved.datasets), *(p.label for p in resolved.pairs)]


@quietly
def metrics(context: typer.Context, incomplete: str) -> Iterable[str]:
    return dict.fromkeys(metric.plugin.name for metric in _resolved(context).metrics)


@quietly
def perturbations(context: typer.Context, incomplete: str) -> Iterable[str]:
    uses = _resolved(context).perturbations
    return dict.fromkeys([*(use.plugin.name for use in uses), *(use.label for use in uses)])


@quietly
def leftovers(context: typer.Context, incomplete: str) -> Iterable[str]:
    from qualm.compiler.plan.compiled_files import leftovers as all_leftovers
    from qualm.compiler.project.checkout import Project

    project = Project()
    return [left.spec for left in all_leftovers(project.root, project.specs())]


@quietly
def doctored(context: typer.Context, incomplete: str) -> Iterable[str]:
    from qualm.compiler.project.checkout import Project
    from qualm.registry.entries.completion import entries

    spec, colon, _ = incomplete.partition(":")
    project = Project()
    if colon:
        return [f"{spec}:{model}" for model in project.resolve(spec).scored_models]
    return [*entries(context, incomplete), *(f"{name}:" for name in project.specs())]


def _resolved(context: typer.Context) -> Resolved:
    """Return the resolved spec that the command line so far names, or the default one."""
    from qualm.compiler.project.checkout import Project

    project = Project()
    words = (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()
    return project.resolve(parameter_value(context, "spec") or next((word for word in words if word in project.specs()), None))
