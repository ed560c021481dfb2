"""Commands from a spec to its results: `validate`, `plan`, `compile`, `run`."""

from dataclasses import replace
from itertools import dropwhile, takewhile
from typing import Annotated

import typer

from qualm.compiler.commands import completion
from qualm.compiler.commands.options import JsonOption, SpecArgument, SpecsOrDefaultArgument
from qualm.compiler.project.checkout import Project
from qualm.compiler.project.extras import advice, missing_extras
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError, SpecError
from qualm.registry.plugins.extras import is_installed
from qualm.registry.plugins.registry import MAX_NUMBER
from qualm.registry.text import print_json

JobsOption = Annotated[
    int | None,
    typer.Option("-j", "--jobs", min=1, max=1000, help="Stages that run at the same time (the setting `jobs`; 1).", show_default=False),
]
OnOption = Annotated[
    str | None,
    typer.Option("--on", metavar="CLUSTER", help="`ray`, `ray://HOST:10001` or `HOST:6379` (the setting `cluster`).", show_default=False),
]


def validate(spec: SpecArgument = None, as_json: JsonOption = False) -> None:
    """Check a spec and report every mistake at once, with its line and what to do."""
    project = Project()
    try:
        resolved = project.resolve(spec)
        plan = project.plan_of(resolved)
    except SpecError as error:
        if as_json:
            print_json({"ok": False, "problems": [p.as_dict() for p in error.problems]})
            raise typer.Exit(2) from None
        raise
    facts = {
        "ok": True,
        "spec": resolved.spec.name,
        "datasets": len(resolved.datasets) + len(resolved.pairs),
        "models": len(resolved.models),
        "variants": 1 + len(resolved.perturbations),
        "estimators": len(resolved.estimators),
        "metrics": len(resolved.metrics),
        "stages": len(plan.stages),
    }
    if as_json:
        print_json(facts)
    else:
        counts = ", ".join(f"{n} {what if n != 1 else what[:-1]}" for what, n in facts.items() if what not in ("ok", "spec"))
        typer.echo(say.SPEC_IS_VALID.format(spec=facts["spec"], counts=counts))
        if lacking := advice(missing_extras(plan.stages)):
            typer.echo(lacking, err=True)


def plan(
    spec: SpecArgument = None,
    as_json: JsonOption = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show every reason, and the unchanged stages too.")] = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 1 if anything would run.")] = False,
    gpu: Annotated[str | None, typer.Option("--gpu", help='Assume this card: h200, a100..., or "TFLOPS GB/S GIB".')] = None,
    jobs: JobsOption = None,
    on: OnOption = None,
) -> None:
    """Show what `qualm run` would do, and why.

    It also shows how many stored answers are used; the memory, time and money that inference needs; and what you
    must provide: data, downloads, keys. `-v` shows the arithmetic. Nothing is run.

    With `--jobs 8` or `--on CLUSTER`, it estimates the time with these options and what each worker gets. With
    `--json`, the output is then one object with `stages` and `together`.
    """
    from qualm.compiler.plan.training_prompts import training_prompt_notes
    from qualm.compiler.project.inference import estimate
    from qualm.compiler.project.kept_answers import kept_answers
    from qualm.compiler.project.needs import needs
    from qualm.compiler.project.prices import costs
    from qualm.compiler.project.rebuilds import ACTIVE, forecast
    from qualm.compiler.project.text_prices import sum_by_stage, text_costs
    from qualm.runners.runtime.spending import read_spent

    project = Project()
    resolved = project.resolve(spec)
    compiled = project.plan_of(resolved)
    forecasts = forecast(compiled, project.root, project.run_wide.default, project.before(compiled))
    missing = needs(compiled, forecasts, project.root, replace(project.settings, cluster=on or project.settings.cluster))
    estimates = list(estimate(compiled, forecasts, project.root, project.settings, gpu))
    paid = list(costs(resolved, compiled, forecasts, project.root, project.settings))
    active = {f.stage for f in forecasts if f.action in ACTIVE}
    paid += text_costs(compiled, [s for s in compiled.stages if s.name in active], project.root, project.settings)
    spent = read_spent(project.root, project.settings.store, compiled.spec)
    stored_answers = list(kept_answers(compiled, forecasts, project.root, project.settings))
    parallel_run = None
    if jobs is not None or on is not None:
        from qualm.compiler.project.parallel import forecast_parallel
        from qualm.compiler.run.cluster import check_address, cluster_resources

        check_address(on)
        cluster = cluster_resources(on, project.settings) if on else None
        parallel_run = forecast_parallel(
            compiled, forecasts, estimates, project.root, project.settings, jobs or project.settings.jobs, cluster
        )
    if as_json:
        answers = {k.stage: k.as_json() for k in stored_answers}
        takes = {e.stage: e.as_json() for e in estimates} | {
            name: c.as_json() | {"spent": spent.all} for name, c in sum_by_stage(paid).items()
        }
        stages = [
            {
                **f.as_json(),
                "needs": [n.as_json() for n in missing if f.stage in n.stages],
                "takes": takes.get(f.stage),
                "answers": answers.get(f.stage),
            }
            for f in forecasts
        ]
        print_json(stages if parallel_run is None else {"stages": stages, "together": parallel_run.as_json()})
    else:
        from qualm.compiler.project.pair_counts import pair_counts
        from qualm.compiler.project.views import (
            print_costs,
            print_estimates,
            print_forecasts,
            print_kept,
            print_needs,
            print_pair_counts,
            print_parallel_run,
        )

        print_forecasts(compiled.spec, forecasts, verbose)
        print_kept(stored_answers)
        print_estimates(estimates, verbose)
        print_pair_counts(list(pair_counts(resolved)))
        print_costs(paid, verbose, spent, project.settings.max_spend)
        print_needs(missing)
        for note in training_prompt_notes(resolved):
            typer.echo(say.NOTE.format(note=note))
        if parallel_run is not None:
            print_parallel_run(parallel_run, on)
    if exit_code and any(f.action != "unchanged" for f in forecasts):
        raise typer.Exit(1)


def compile_(
    specs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SPEC",
            help="Specs; by default the default spec and those compiled before.",
            show_default=False,
            autocompletion=completion.specs,
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if a compiled file is out of date.")] = False,
) -> None:
    """Write dvc.yaml, stages/*.json and .gitignore files of specs.

    A pipeline compiles its own spec when it runs, so you need this only before a commit and in CI: `qualm compile
    --check` also checks that every spec in specs/ has a plan.
    """
    project = Project()
    changes = project.compile(specs, check)
    from qualm.compiler.project.views import print_changes

    print_changes(changes, check, specs or ())
    for plan in changes.plans if specs or not is_installed("train") else ():
        if lacking := advice(missing_extras(plan.stages)):
            typer.echo(f"{plan.spec}: {lacking}", err=True)
    if check and changes:
        raise typer.Exit(1)


def run(
    context: typer.Context,
    specs: SpecsOrDefaultArgument = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show DVC's own output instead of a line per stage.")] = False,
    jobs: JobsOption = None,
    on: OnOption = None,
    pull: Annotated[bool, typer.Option("--pull/--no-pull", help="Fetch results from the default remote instead of making them.")] = True,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", min=2, max=MAX_NUMBER, help="Run a variant with at most this many questions of each dataset.", show_default=False
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Recompute answers: all, or those of the given --sample, --variant, --model.")
    ] = False,
    samples: Annotated[list[str] | None, typer.Option("--sample", metavar="ID", help="With --again: only of these samples.")] = None,
    variants: Annotated[list[str] | None, typer.Option("--variant", help="With --again: only under these variants.")] = None,
    models: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="With --again: only by these models.", autocompletion=completion.models)
    ] = None,
) -> None:
    """Compile specs and run what is out of date (`dvc repro --pull`).

    Several specs run one after another, until one fails.

    Files that stages read are checked against the lock. Damaged files are moved to .qualm/damaged and made again.

    With `--jobs 8`, up to eight independent stages run at the same time, with the same results. Each gets a GPU of
    its own while there are enough. A spending limit applies to all together.

    With `--on CLUSTER`, the workers of a Ray cluster answer the questions to models; everything else runs here.
    `ray` starts a cluster on this machine if there is none.

    With `--limit 20`, a variant specs/SPEC-limit-20.yaml runs instead, with results of its own. The whole spec uses
    its answers.

    With `--again --sample ID`, models answer one question anew, under all its variants, and results follow. All other
    answers stay. `qualm show SPEC --failures 20` prints IDs.

    Further arguments go to `dvc repro`: `qualm run quickstart --force`, `qualm run quickstart --keep-going`.
    """
    from qualm.compiler.project.new_spec import write_limited
    from qualm.compiler.run.recomputation import AnswerSelection
    from qualm.compiler.run.run import run_pipeline

    if (samples or variants or models) and not again:
        raise ProjectError("--sample, --variant and --model choose answers to recompute: add --again")
    words = [*(specs or ()), *context.args]  # click puts unknown options among the specs
    names: list[str | None] = [*dict.fromkeys(takewhile(lambda word: not word.startswith("-"), words))]
    arguments = [*dropwhile(lambda word: not word.startswith("-"), words)]
    selection = AnswerSelection(samples or (), variants or (), models or ()) if again else None
    project = Project()
    if len(names) > 1:  # a mistake in the last spec is found before the first one runs
        for name in names:
            project.resolve(name)
    for name in names or [None]:
        chosen = name if limit is None else write_limited(project, name, limit)
        if code := run_pipeline(project, chosen, arguments, verbose, jobs, on, pull, selection):
            raise typer.Exit(code)
