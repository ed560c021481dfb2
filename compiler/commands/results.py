"""Looking at results: in the terminal, by category, against each other, against a revision."""

from __future__ import annotations

from typing import Annotated

import typer

from compiler.commands.options import SPEC_HELP, JsonOption, SpecArgument
from compiler.project import Project
from registry.printing import print_json


def diff(
    revision: Annotated[str, typer.Argument(help="A git revision (a commit, branch or tag), or a DVC experiment by its name.")] = "HEAD",
    spec: Annotated[str | None, typer.Option("--spec", help=SPEC_HELP)] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the working tree with a revision: spec, resolved parameters, results."""
    from compiler.revisions import diff_revision
    from compiler.views import print_diff

    found = diff_revision(Project(), spec, revision)
    if as_json:
        print_json(found)
    else:
        print_diff(found)


def show(
    spec: SpecArgument = None,
    models: Annotated[list[str] | None, typer.Option("--model", "-m", help="Only these models.")] = None,
    datasets: Annotated[list[str] | None, typer.Option("--dataset", "-d", help="Only these data sets.")] = None,
    metrics: Annotated[list[str] | None, typer.Option("--metric", help="Only these metrics.")] = None,
    variants: Annotated[list[str] | None, typer.Option("--variant", help="Only these variants; 'clean' by default.")] = None,
    slices: Annotated[list[str] | None, typer.Option("--slice", help="Only these slices; 'all' by default.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a benchmark's results in the terminal, with intervals."""
    from compiler.show import show_results

    show_results(Project(), spec, models, datasets, metrics, variants, slices, as_json)


def stats(spec: SpecArgument = None, as_json: JsonOption = False) -> None:
    """Count pictures and questions by category and split, for every data set of a spec, and what pair recipes made and dropped."""
    from compiler.stats import show_statistics

    show_statistics(Project(), spec, as_json)


def compare(
    a: Annotated[str, typer.Argument(help="A model of the spec, a spec, SPEC:MODEL, REVISION:SPEC[:MODEL], or a scores.parquet.")],
    b: Annotated[str, typer.Argument(help="What to compare it with.")],
    spec: Annotated[str | None, typer.Option("--spec", help=SPEC_HELP)] = None,
    revision: Annotated[str | None, typer.Option("--rev", help="Take A as it was at this git revision or DVC experiment.")] = None,
    pull: Annotated[bool, typer.Option("--pull", help="Fetch from the default remote what the cache lacks of a revision.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare two models or two benchmarks, paired by sample: difference, interval, test.

    Either may be of another git revision, branch or tag, or of a DVC experiment,
    by its name: nothing is checked out, answers and judgements of then are read
    from DVC's cache. The metrics are those of this checkout, on both sides.

    [bold]Examples[/]

      qualm compare base tuned --spec mine          two models of one spec
      qualm compare mine yours                      two specs
      qualm compare mine mine --rev HEAD~1          what did my last commit change?
      qualm compare main:mine:base longer:mine:base two branches
      qualm compare HEAD:mine runic-poem:mine       an experiment of `dvc exp run`
    """
    from compiler.show import compare_results

    compare_results(Project(), spec, a, b, as_json, revision, pull)
