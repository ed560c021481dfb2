"""`qualm view`: results in the browser, here or published."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from qualm.compiler.commands import completion
from qualm.compiler.project.checkout import Project


def view(
    specs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SPEC]...", help="Specs to show; by default all with results.", autocompletion=completion.specs),
    ] = None,
    revisions: Annotated[
        list[str] | None,
        typer.Option("--rev", metavar="REV", help="Also show the specs as they were at this git revision or DVC experiment; repeatable."),
    ] = None,
    pull: Annotated[bool, typer.Option("--pull", help="Fetch results of --rev from the default remote if the cache lacks them.")] = False,
    publish: Annotated[
        Path | None, typer.Option("--publish", metavar="FOLDER", help="Write the page into a folder, for any web server, instead.")
    ] = None,
    images: Annotated[
        Literal["all", "clean", "none"],
        typer.Option("--images", help="Images to publish: all variants', clean ones, or none. Check their licence first."),
    ] = "clean",
    force: Annotated[
        bool, typer.Option("--force", help="Publish results that differ from dvc.lock; the page then says so.", show_default=False)
    ] = False,
    title: Annotated[str | None, typer.Option("--title", help="The page's heading.", show_default=False)] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="Port on 127.0.0.1; by default 7864, or a free one.", show_default=False)
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address and open no browser.")] = False,
) -> None:
    """Look at results in the browser.

    A page on 127.0.0.1, until Ctrl-C. It changes no results. Filter answers by model, category,
    variant, verdict, confidence, estimator or text; open one to see everything about it. Press ? for the keys.

    --publish writes the page as plain files, with the questions, answers and images of your data. Every view of a
    published page has an address to send to others.

    If result files differ from dvc.lock, the page shows a banner, and --publish refuses (exit code 1) without
    --force.

    [bold]Examples[/]

      qualm view                                  all specs that have results
      qualm view mine yours                       two of them
      qualm view mine --rev longer                beside a branch or experiment
      qualm view mine --publish site              a folder with index.html
      qualm view mine --publish site --images all
    """
    from qualm.compiler.viewing.show import publish_results, serve_results

    if publish is not None:
        if not publish_results(Project(), specs or [], publish, images, title, revisions or [], pull, force):
            raise typer.Exit(1)
    else:
        serve_results(Project(), specs or [], port, title, no_open, revisions or [], pull)
