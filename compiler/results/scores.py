"""Open a spec's results, and select rows of its score table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError, nearest
from qualm.registry import BLIND, MACRO, REFUSERS, abstaining_name, method_name
from qualm.runners.scoring.measuring.labels import in_brackets, main_setting, metric_of, plugin_of

if TYPE_CHECKING:
    import polars as pl

    from qualm.compiler.plan.plan import Plan, PlannedStage
    from qualm.runners.results.results import Results

Row = dict[str, Any]
Verify = Callable[[Path, Iterable[str | Path]], None]
"""Called with a root and the paths below it that are about to be read."""


def score_stage(project: Project, spec: str | None) -> PlannedStage:
    return score_stage_of(project.plan(spec))


def score_stage_of(plan: Plan) -> PlannedStage:
    for stage in plan.writers("scores"):
        return stage
    raise ProjectError(f"spec '{plan.spec}' has no metrics, so there are no scores; add a `metrics:` section")


def read_spec_results(project: Project, spec: str | None, verify: Verify | None = None) -> Results:
    """Return a spec's results in this checkout; files are read when asked for.

    `verify` is called with the paths that are about to be read.

    Raises:
        ProjectError: the spec has no metrics.
    """
    plan = project.plan(spec)
    return results_in(plan.stages, score_stage_of(plan), plan.spec, project.root, verify)


def results_in(stages: Iterable[PlannedStage], scored: PlannedStage, spec: str, root: Path, verify: Verify | None = None) -> Results:
    """Return the results of a score stage whose files are below `root`."""
    from qualm.runners.results.results import Results
    from qualm.runners.runtime.settings import Settings
    from qualm.runners.runtime.stage import Stage

    stage = Stage(
        scored.name, spec, scored.name, scored.kind, scored.params, dict(scored.inputs), dict(scored.outputs), scored.seed, Settings()
    )
    return Results(stage, [*scored.inputs["generations"], *derived_models(stages)], root, verify)


def derived_models(stages: Iterable[PlannedStage]) -> list[str]:
    """Return the names MODEL+METHOD of a plan's abstaining models and blind baselines."""
    names: dict[str, None] = {}
    for stage in stages:
        if "abstentions" in stage.outputs:
            methods = stage.params["abstentions"]
            names |= dict.fromkeys(abstaining_name(model, method_name(m["label"], m["fit"])) for m in methods for model in m["of"])
            refusers = [BLIND[way] for way in REFUSERS]
            names |= dict.fromkeys(abstaining_name(model, method) for method in refusers for model in stage.params.get(method, ()))
        if "generations" in stage.outputs:
            blinded = [v["variant"] for v in stage.params["variants"] if "picture" in v]
            names |= dict.fromkeys(abstaining_name(stage.params["model"]["label"], variant) for variant in blinded)
    return list(names)


def read_scores(path: Path, *filters: pl.Expr) -> list[Row]:
    """Return the rows of a score table that pass the filters; ProjectError without a table.

    `metric` holds labels.
    """
    from qualm.registry.sample import SCORES
    from qualm.runners.results.tables import labelled, scan

    if not path.is_file():
        raise ProjectError(f"{path}: no scores there; run the benchmark with `qualm run SPEC`, or fetch its results with `dvc pull`")
    return labelled(scan(path, SCORES)).filter(*filters).collect().to_dicts()


def select(
    rows: Sequence[Row],
    models: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    variants: Sequence[str] | None = None,
    slices: Sequence[str] | None = None,
) -> list[Row]:
    """Return rows that pass filters; by default clean, all questions, main conformal setting.

    Name a metric by label, with or without brackets, or by plugin.

    Without filters these are clean inputs, all questions, macro averages and the main conformal setting.

    Raises:
        ProjectError: a filter names something that is not there, with the nearest name.
    """
    filters: dict[str, Sequence[str] | None] = {"model": models, "dataset": datasets, "variant": variants, "slice": slices}
    chosen = list(rows)
    for column, names in filters.items():
        if names is None and column in ("variant", "slice"):
            names = ["clean"] if column == "variant" else ["all", *{r["slice"] for r in rows if r["slice"].startswith(MACRO)}]
        if names:
            if names is filters[column]:
                _check_names(column, names, {r[column] for r in rows})
            chosen = [r for r in chosen if r[column] in names]
    if metrics:
        _check_names("metric", metrics, {name for r in rows for name in _names(r["metric"])})
        return [r for r in chosen if set(_names(r["metric"])) & set(metrics)]
    settings = conformal_settings(r["metric"] for r in rows)
    others = {s for s in settings if s != main_setting(settings)}
    return [r for r in chosen if in_brackets(r["metric"]) not in others and in_brackets(r["metric"]).rpartition("/")[0] not in others]


def _check_names(column: str, names: Sequence[str], there: set[str]) -> None:
    for name in names:
        if name not in there:
            raise ProjectError(f"no {column} '{name}' in these results; {nearest(name, there)}")


def _names(label: str) -> tuple[str, str, str]:
    return label, metric_of(label), plugin_of(label)


def conformal_setting(label: str, settings: Sequence[str]) -> str:
    """Return the conformal setting whose test questions a metric uses; "" if it uses all."""
    where = in_brackets(label)
    setting = where if where in settings else where.rpartition("/")[0]
    return setting if setting in settings and "rows=all" not in metric_of(label) else ""


def conformal_settings(labels: Iterable[str]) -> list[str]:
    """Return the conformal settings in metric labels "...[SETTING/mean]", in order, each once.

    Only labels of the mean over scores (`[SETTING/mean]`) count.
    """
    return list(dict.fromkeys(in_brackets(a).removesuffix("/mean") for a in labels if in_brackets(a).endswith("/mean")))
