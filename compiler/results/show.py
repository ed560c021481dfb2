"""Results in the terminal: `qualm show` prints scores with their intervals, `qualm compare` differences with theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rich.text import Text

from qualm.compiler.project.checkout import Project
from qualm.compiler.results.comparisons import matching_tests, show_tests
from qualm.compiler.results.estimators import show_best_estimators
from qualm.compiler.results.integrity import edited_since, report_changed
from qualm.compiler.results.scores import Row, conformal_setting, conformal_settings, read_scores, results_in, score_stage_of, select
from qualm.compiler.results.tables import format_measure, metrics_down, value_text
from qualm.compiler.spec import sentences as say
from qualm.registry.system.console import Console
from qualm.registry.system.grids import Grid, in_parts
from qualm.registry.text import complain, print_json
from qualm.runners.reporting.chance import describe_chance_levels
from qualm.runners.results.confidence_weighted_accuracy import claims
from qualm.runners.scoring.families import STUDY
from qualm.runners.scoring.measuring.labels import plugin_of
from qualm.runners.scoring.scored_share import describe_bounds

SHOWN = ("scores", "rankings", "correlations", "comparisons")
"""Outputs of the score stage that `qualm show` reads."""


def show_results(
    project: Project,
    spec: str | None,
    models: Sequence[str] | None,
    datasets: Sequence[str] | None,
    metrics: Sequence[str] | None,
    variants: Sequence[str] | None,
    slices: Sequence[str] | None,
    as_json: bool,
) -> None:
    """Print a spec's scores that pass the filters, with warnings, or as JSON.

    Without filters the clean variant, all questions and macro averages, and one conformal setting.
    """
    plan = project.plan(spec)
    stage = score_stage_of(plan)
    changed = report_changed(project.root, (stage.outputs[name] for name in SHOWN if name in stage.outputs))
    if not changed and (edited := edited_since(project.root, plan, stage)):
        complain(edited)
    rows = read_scores(project.root / stage.outputs["scores"])
    results = results_in(plan.stages, stage, plan.spec, project.root)
    chosen = select(rows, models, datasets, metrics, variants, slices)
    if as_json:
        print_json(chosen)
        return
    console = Console()
    show_scores(chosen, console, conformal_settings(r["metric"] for r in rows))
    show_abstentions(chosen, stage.params, [ref for judged in plan.writers("judgements") for ref in judged.params["judges"]], console)
    show_coverage(chosen, console)
    show_warnings(chosen, console)
    show_collapses([r for r in rows if (r["model"], r["dataset"]) in {(c["model"], c["dataset"]) for c in chosen}], console)
    show_best_estimators(results.scan("rankings").collect().to_dicts(), chosen, stage.params.get("family", STUDY), console)
    shown = {row["dataset"] for row in chosen}
    for dataset, text in claims(results.scan("correlations").collect().to_dicts()):
        if dataset in shown:
            console.print(Text(f"{dataset} · {text}", style="dim"))
    if compared := stage.params.get("compare"):
        show_tests(
            matching_tests(results.scan("comparisons").collect().to_dicts(), chosen), compared["correction"], compared["family"], console
        )


def show_scores(rows: Sequence[Row], console: Console, settings: Sequence[str] | None = None) -> None:
    """Print a table per dataset, variant and slice: metrics down, models across.

    `settings` are the conformal ones, where these rows may not hold a mean over scores that tells.
    """
    keys = list(dict.fromkeys((r["dataset"], r["variant"], r["slice"]) for r in rows))
    if not keys:
        console.print(say.NO_SCORE_MATCHES)
    for key in keys:
        here = [r for r in rows if (r["dataset"], r["variant"], r["slice"]) == key]
        models = list(dict.fromkeys(r["model"] for r in here))
        for grid in in_parts(models, partial(_score_table, here, key), console.width):
            grid.print(console)
            console.print()
        for text in bounds_of(here, models):
            console.print(Text(f"{text}\n", style="yellow"))
    for text in filter(None, (intervals_in_words(rows), describe_chance_levels(rows))):
        console.print(Text(text, style="dim"))
    of = [conformal_setting(r["metric"], conformal_settings(r["metric"] for r in rows) if settings is None else settings) for r in rows]
    for setting in dict.fromkeys(filter(None, of)):
        console.print(Text(say.CONFORMAL_ROWS.format(setting=setting), style="dim"))


def bounds_of(rows: Sequence[Row], models: Sequence[str]) -> Iterator[str]:
    """Yield a line per metric with many unread answers: its values if all were wrong or right."""
    for metric in dict.fromkeys(r["metric"] for r in rows):
        of = {r["model"]: bounds for r in rows if r["metric"] == metric and (bounds := describe_bounds(r))}
        if of:
            values = ", ".join(f"{of[m]} ({m})" for m in models if m in of)
            yield say.WITH_UNREAD_ANSWERS.format(dataset=rows[0]["dataset"], metric=metric, values=values)


def intervals_in_words(rows: Sequence[Row]) -> str:
    """Return a phrase with level and resamples of the intervals; "" without any."""
    having = [r for r in rows if r.get("low") is not None and r.get("level")]
    if not having:
        return ""
    levels, resamples = (sorted({r[name] for r in having if r[name]}) for name in ("level", "n_resamples"))
    names = say.AND.join(f"{100 * level:g}%" for level in levels)
    if resamples:
        return say.INTERVALS_BY_RESAMPLES.format(levels=names, resamples=say.OR.join(f"{n:,}" for n in resamples))
    return say.INTERVALS.format(levels=names)


def show_abstentions(rows: Sequence[Row], params: Mapping[str, Any], judges: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Print who decides on abstentions, by score stage `params`, if a metric in `rows` asks."""
    from qualm.runners.scoring.apply_judge import depends_on_abstentions, describe_abstention_judges

    if any(depends_on_abstentions(name) for name in dict.fromkeys(plugin_of(r["metric"]) for r in rows)):
        console.print(Text(describe_abstention_judges(params, judges), style="dim"))


def show_coverage(rows: Sequence[Row], console: Console) -> None:
    """Print each conformal coverage outside its band, then how many lie within, if any."""
    from qualm.runners.reporting.text import describe_coverage

    coverages = [(row, text) for row in rows if (text := describe_coverage(row))]
    for row, text in coverages:
        if not text.endswith("within"):
            where = [row["dataset"], *(x for x, usual in ((row["variant"], "clean"), (row["slice"], "all")) if x != usual)]
            console.print(Text(f"{' · '.join(where)}, {row['model']}: {row['metric']} {format_measure(row['value'])} ({text})"))
    if within := sum(text.endswith("within") for _, text in coverages):
        console.print(Text(say.COVERAGES_WITHIN.format(n=within, of=len(coverages)), style="dim"))


def show_warnings(rows: Sequence[Row], console: Console, intervals: bool = True) -> None:
    """Print notes on metrics and missing values, then warnings on how answers are scored."""
    from qualm.runners.scoring.score_warnings import dispute_warnings, few_group_warnings, lexical_warnings, metric_notes, unscored_warnings

    for line in [*metric_notes(rows, intervals, shorten=True), *(few_group_warnings(rows) if intervals else ())]:
        console.print(Text(line, style="dim"))
    for line in [*unscored_warnings(rows, shorten=True), *dispute_warnings(rows), *lexical_warnings(rows)]:
        console.print(Text(say.WARNING, style="bold red") + Text(line, style="red"))


def show_collapses(rows: Sequence[Row], console: Console) -> None:
    """Print a warning per model and dataset that collapses under some variant."""
    from qualm.runners.scoring.score_warnings import collapse_warnings

    for line in collapse_warnings(rows):
        console.print(Text(say.WARNING, style="bold red") + Text(line, style="red"))


def _score_table(rows: Sequence[Row], key: tuple[str, str, str], models: Sequence[str]) -> Grid:
    dataset, variant, part = key
    title = Text(dataset, style="bold") + Text("".join(f" · {x}" for x, plain in ((variant, "clean"), (part, "all")) if x != plain))
    return metrics_down(title, {(r["metric"], r["model"]): r for r in rows}, models, value_text, unscored=True)
