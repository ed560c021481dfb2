"""Commands that show and compare results."""

from typing import Annotated

import typer

from qualm.compiler.commands import completion
from qualm.compiler.commands.options import DatasetsOption, JsonOption, MetricsOption, ModelsOption, SpecArgument
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.plugins.registry import MAX_NUMBER
from qualm.registry.text import print_json


def diff(
    spec: SpecArgument = None,
    revision: Annotated[
        str | None,
        typer.Argument(metavar="REVISION", help="A commit, branch, tag, or DVC experiment; HEAD if left out.", show_default=False),
    ] = None,
    pull: Annotated[
        bool, typer.Option("--pull", help="Fetch the revision's answers from the default remote where the cache lacks them.")
    ] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown: a comment for a pull request.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare the working tree with a revision: spec, parameters, results.

    Results that changed are tested as in `qualm compare`, if the answers of the revision are in DVC's cache.

    [bold]Examples[/]

      qualm diff                     the default spec, against the last commit
      qualm diff mine HEAD~1         the spec `mine`, against the one before it
      qualm diff mine fewer-bins     against an experiment of `dvc exp run`
      qualm diff main                the default spec, against a branch
      qualm diff mine main --markdown   as a comment for a pull request
    """
    from qualm.compiler.project.views import print_diff
    from qualm.compiler.results.diff_page import markdown
    from qualm.compiler.results.revisions import diff_revision

    project = Project()
    if revision is None and not project.has_spec(spec):
        spec, revision = None, spec
    changes = diff_revision(project, spec, revision or "HEAD", pull)
    if as_json:
        print_json(changes)
    elif as_markdown:
        typer.echo(markdown(changes))
    else:
        print_diff(changes)


def experiments(spec: SpecArgument = None, metrics: MetricsOption = None, as_json: JsonOption = False) -> None:
    """List the experiments of `dvc exp run` from this commit: parameters and results.

    There is a line for each parameter and metric that differs from the commit. `dvc exp show` has a column for
    every one.
    """
    from qualm.compiler.project.views import print_experiments
    from qualm.compiler.results.experiments import experiments as listed

    entries = listed(Project(), spec, metrics)
    if as_json:
        print_json(entries)
    else:
        print_experiments(entries)


def show(
    spec: SpecArgument = None,
    models: ModelsOption = None,
    datasets: DatasetsOption = None,
    metrics: MetricsOption = None,
    variants: Annotated[list[str] | None, typer.Option("--variant", help="Only these variants; 'clean' by default.")] = None,
    slices: Annotated[list[str] | None, typer.Option("--slice", help="Only these slices; by default 'all' and macro averages.")] = None,
    how: Annotated[
        bool, typer.Option("--how", help="Show how the results were made instead: judges, data, models, commit, time, cost.")
    ] = False,
    failures: Annotated[
        int | None,
        typer.Option("--failures", min=1, max=MAX_NUMBER, help="Show this many wrong answers instead, the most confident first."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a benchmark's results in the terminal, with intervals.

    [bold]Examples[/]

      qualm show mine                              scores of clean inputs
      qualm show mine --variant blur@radius=2      under one perturbation
      qualm show mine --failures 20 --model base   errors, confident ones first
    """
    if how:
        from qualm.compiler.results.run_facts import show_how

        show_how(Project(), spec, as_json)
        return
    if failures is not None:
        from qualm.compiler.viewing.failures import show_failures

        if metrics or slices:
            raise ProjectError("--failures shows answers, which --metric and --slice do not select; use --model, --dataset or --variant")
        show_failures(Project(), spec, failures, models, datasets, variants, as_json)
        return
    from qualm.compiler.results.show import show_results

    show_results(Project(), spec, models, datasets, metrics, variants, slices, as_json)


def stats(spec: SpecArgument = None, as_json: JsonOption = False) -> None:
    """Count images and questions by category and split, and pairs made and dropped.

    For datasets with answerable and unanswerable questions, it also shows how well a classifier separates them by
    the question alone and by the image alone, with intervals. A model that scores no better need not have used
    both.
    """
    from qualm.compiler.results.stats import show_statistics

    show_statistics(Project(), spec, as_json)


def compare(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[SPEC] A B",
            help="Two sides: models of the spec, specs, SPEC:MODEL, REVISION:SPEC[:MODEL], or files scores.parquet.",
            autocompletion=completion.sides,
        ),
    ],
    metrics: MetricsOption = None,
    revision: Annotated[str | None, typer.Option("--rev", help="Take A as it was at this git revision or DVC experiment.")] = None,
    pull: Annotated[bool, typer.Option("--pull", help="Fetch what the cache lacks from the default remote.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare two models or benchmarks, paired by sample: difference, interval, p-value.

    P-values come from a paired t test over whole groups, corrected over all comparisons as the spec's `compare:`
    says (max-T by default). With --metric, only the named metrics are compared and corrected for. Dim rows are
    statistically tied (corrected p of .05 or more).

    Either side may be at another git revision or in a DVC experiment. Nothing is checked out: answers are read from
    DVC's cache. Both sides use the metrics of this checkout.

    [bold]Examples[/]

      qualm compare mine base tuned                  two models of one spec
      qualm compare mine base tuned --metric ece     by this metric alone
      qualm compare mine yours                       two specs
      qualm compare mine mine --rev HEAD~1           what did a commit change?
      qualm compare main:mine:base longer:mine:base  two branches
      qualm compare HEAD:mine fewer-bins:mine        a DVC experiment
    """
    from qualm.compiler.results.compare import compare_results

    if len(words) not in (2, 3):
        raise ProjectError(f"expected [SPEC] A B, two sides to compare, got {len(words)}: {' '.join(words)}")
    *spec, a, b = words
    compare_results(Project(), spec[0] if spec else None, a, b, as_json, revision, pull, metrics)


def power(
    spec: SpecArgument = None,
    metrics: MetricsOption = None,
    power: Annotated[float, typer.Option("--power", min=0.5, max=0.999, help="Chance to find the difference.")] = 0.8,
    difference: Annotated[
        float | None, typer.Option("--difference", min=1e-6, max=1, help="Say how many questions would show this difference.")
    ] = None,
    tests: Annotated[
        int,
        typer.Option("--tests", min=1, max=MAX_NUMBER, help="Number of tests in the family: each is tested at level .05 divided by it."),
    ] = 1,
    questions: Annotated[
        int | None, typer.Option("--questions", min=2, max=MAX_NUMBER, help="Questions; used where two models have no stored answers.")
    ] = None,
    group_size: Annotated[
        float, typer.Option("--group-size", min=1, max=MAX_NUMBER, help="Questions per group, beside --questions.")
    ] = 1.0,
    disagreement: Annotated[
        float, typer.Option("--disagreement", min=0.001, max=1, help="Share that one model has right and the other wrong, where assumed.")
    ] = 0.25,
    within: Annotated[float, typer.Option("--within", min=0, max=1, help="Correlation within groups, where assumed.")] = 0.1,
    as_json: JsonOption = False,
) -> None:
    """Show the smallest difference that a spec's questions can detect.

    The variance of differences comes from stored answers of two models, for any metric of the spec. Without them it
    is assumed, for accuracy only. Questions of one group (an image, a rotated question) count for less than their
    number.

    [bold]Examples[/]

      qualm power mine                          accuracy, at a power of .8
      qualm power mine --difference .02         how many questions show 2 points?
      qualm power mine --metric auroc           from stored answers
      qualm power mine --tests 60               corrected for a family of 60 tests
      qualm power mine --questions 500          before any data is built
    """
    from qualm.compiler.results.power import Assumptions, show_power

    assumptions = Assumptions(power, tests, difference, disagreement, within, questions, group_size)
    show_power(Project(), spec, metrics, assumptions, as_json)
