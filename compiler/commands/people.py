"""Commands about people's decisions: `verify`, `strength`, `judges`."""

from pathlib import Path
from typing import Annotated

import typer

from qualm.compiler.commands import completion
from qualm.compiler.commands.options import JsonOption, SpecArgument
from qualm.compiler.project.checkout import Project
from qualm.registry.plugins.registry import MAX_NUMBER
from qualm.registry.text import print_json


def verify(
    spec: SpecArgument = None,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="SET",
            help="The pair set or dataset to review; by default the only one.",
            show_default=False,
            autocompletion=completion.datasets,
        ),
    ] = None,
    reviewer: Annotated[str | None, typer.Option("--reviewer", "-r", help="Whose decisions these are; your login by default.")] = None,
    page: Annotated[bool, typer.Option("--page", help="Review on a browser page of this machine (needs the extra `pages`).")] = False,
    sample: Annotated[
        int | None,
        typer.Option("--sample", min=1, max=MAX_NUMBER, help="Number of pairs or questions to review, the same ones for every reviewer."),
    ] = None,
    category: Annotated[
        str | None, typer.Option("--category", help="Only this category or subset, or all of a main kind (epistemic).")
    ] = None,
    skipped: Annotated[bool, typer.Option("--skipped", help="Show the questions that you skipped.")] = False,
    merge: Annotated[list[Path] | None, typer.Option("--merge", help="Only import another reviewer's decisions.csv.")] = None,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535, help="Port of the page; any free one by default.")] = None,
    browse: Annotated[bool, typer.Option("--browse/--no-browse", help="Open your browser at the page.")] = True,
) -> None:
    """Review the scored questions of a dataset or pair set.

    A question is valid if its image answers it and the reference answer is right; an unanswerable question is valid
    if the image gives no answer. For pairs, look at both members. If a dataset has subsets, also mark questions in
    the wrong one. Skip questions that you cannot decide.

    Keys in the terminal: v valid, i invalid, w wrong subset, s skip, u undo, n note, p proof, o other member, q
    quit. The next `qualm verify` continues where you stopped.

    Decisions go to registry/data/NAME/decisions.csv, where NAME is the set's `curated`. Models are then scored only
    on questions that are valid by majority. A decision applies until its question changes. More in
    docs/how-to/verify.md.

    [bold]Examples[/]

      qualm verify                          the default spec, in the terminal
      qualm verify SPEC --page -r ann       on a browser page, as ann
      qualm verify SPEC image               the dataset `image` of the spec
      qualm verify SPEC --sample 100        100 pairs, the same ones for everyone
      qualm verify SPEC --category epistemic
      qualm verify SPEC --merge bob.csv     bob reviewed on another machine
    """
    from qualm.compiler.commands import verify as reviewing

    project = Project()
    if merge:
        typer.echo(reviewing.merge(project, spec, name, merge))
        return
    reviewing.verify(project, spec, reviewing.ReviewRequest(name, reviewer, category, sample, skipped, page, port, browse))


def strength(
    spec: SpecArgument = None,
    perturbation: Annotated[
        str | None,
        typer.Option(
            "--perturbation", "-p", help="Plugin or variant, where the spec has several.", autocompletion=completion.perturbations
        ),
    ] = None,
    parameter: Annotated[
        str | None, typer.Option("--parameter", help="The numeric parameter that is the strength; the first by default.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="A model of the spec whose answers to show.", autocompletion=completion.models)
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset", "-d", help="A dataset of the spec; by default the first that is perturbed.", autocompletion=completion.datasets
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", "-n", min=1, max=MAX_NUMBER, help="How many samples, a seeded share of every category.")
    ] = 200,
    auto: Annotated[bool, typer.Option("--auto", help="Show no page; search for the strength with the target effect.")] = False,
    share: Annotated[
        float | None,
        typer.Option("--share", min=0.001, max=0.999, help="Target effect: the share of greedy answers that change; by default 0.2."),
    ] = None,
    distance: Annotated[
        str | None, typer.Option("--distance", help="Alternative target effect: images differ by 1-ssim=VALUE or psnr=DECIBELS.")
    ] = None,
    within: Annotated[str | None, typer.Option("--range", help="LOW:HIGH, the range to search; by default it starts at no effect.")] = None,
    scale: Annotated[str, typer.Option("--scale", help="linear, log, or auto: by the range.")] = "auto",
    write: Annotated[
        bool, typer.Option("--write", help="Write the value into the spec, with a comment that says how it was found.")
    ] = False,
    add: Annotated[bool, typer.Option("--add", help="With --write: add it to the sweep instead of replacing the value.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder of the curve; .qualm/calibrations/SPEC by default.")] = None,
    reviewer: Annotated[str | None, typer.Option("--reviewer", "-r", help="Whose votes these are; your login by default.")] = None,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535, help="Port of the page; any free one by default.")] = None,
    browse: Annotated[bool, typer.Option("--browse/--no-browse", help="Open your browser at the page.")] = True,
) -> None:
    """Choose the strength of a perturbation, by eye or by a search.

    The page (extra `pages`) shows samples before and after the perturbation, with a slider for each strength. With
    --model it also shows the model's answers. Vote too weak, right or too strong (keys W, R, S). Only a button
    writes the value into the spec.

    --auto measures a grid of strengths, then bisects around the target. It prints a table with 95% intervals and
    writes the curve as CSV and SVG. `qualm run` reuses the answers. Exit code 1 if no strength has the effect. More
    in docs/how-to/strength.md.

    [bold]Examples[/]

      qualm strength SPEC -p blur -m base           a page, with base's answers
      qualm strength SPEC -p blur -m base --auto    that changes 20% of them
      qualm strength SPEC -p typos --auto --share 0.1 --write
      qualm strength SPEC -p jpeg --auto --distance 1-ssim=0.3
      qualm strength SPEC -p blur@radius=2 --auto   only this point of a sweep
    """
    from qualm.compiler.commands.strength import choose_strength
    from qualm.compiler.commands.strength_request import StrengthRequest

    output = output and output.absolute()
    request = StrengthRequest(
        perturbation, parameter, model, dataset, samples, auto, share, distance, within, scale, write, add, output, reviewer, port, browse
    )
    if not choose_strength(Project(), spec, request):
        raise typer.Exit(1)


def judges(
    spec: SpecArgument = None,
    labels: Annotated[Path | None, typer.Option("--labels", help="CSV of answers that people judged; the spec's own if left out.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare a spec's judges with people's ratings.

    Columns of the file: question, reference (several separated by |, empty where
    declining is right), prediction, is_refusal (0, 1 or empty), rating (0 to 1,
    or empty). `qualm export SPEC FOLDER --to labels` writes a random sample of
    answers with these columns. More in docs/reference/judging.md.

    [bold]Example[/]

      qualm judges quickstart --labels tests/data/refusals.csv
    """
    from qualm.compiler.results import judges as reliability

    agreement = reliability.measure_judges(Project(), spec, labels)
    if as_json:
        print_json(agreement)
    else:
        reliability.show(agreement)
