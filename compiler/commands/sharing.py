"""Commands that pass results on: `export`, `share`."""

from pathlib import Path
from typing import Annotated

import typer

from qualm.compiler.commands import completion
from qualm.compiler.commands.options import DatasetsOption, JsonOption, ModelsOption, SpecArgument
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.entries import completion as registered


def export(
    spec: SpecArgument = None,
    out: Annotated[
        Path | None, typer.Argument(metavar="OUT", help="Folder to write into; created if it does not exist.", show_default=False)
    ] = None,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="The format; `qualm ls exports` lists all.",
            autocompletion=registered.exports,
        ),
    ] = "",
    models: ModelsOption = None,
    datasets: DatasetsOption = None,
    variants: Annotated[list[str] | None, typer.Option("--variant", help="These variants; 'clean' by default.")] = None,
    options: Annotated[list[str] | None, typer.Option("--option", "-O", help="NAME=VALUE of the format's own options.")] = None,
    only: Annotated[list[str] | None, typer.Option("--only", help="Figures: these charts; all without.")] = None,
    width: Annotated[str | None, typer.Option("--width", help="Figures: column (85 mm), page (175 mm) or millimetres.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files; also write results that differ from dvc.lock.")] = False,
) -> None:
    r"""Write results as tables or figures, or answers in another tool's format.

      latex       tables for a paper, significant differences marked (-O digits=2)
      markdown    the same tables on one page
      pdf, svg    figures for a paper (--only reliability --width page)
      csv         every table that scoring wrote
      lm-eval     samples and results, as of lm_eval --log_samples
      lmms-eval   samples and results, as of lmms_eval --log_samples
      vlmevalkit  tables with images, predictions (-O table=xlsx|tsv|json)
      inspect     a log per model and dataset (-O form=eval|json)
      every-eval-ever  scores with intervals, answers (-O organization=NAME)
      hf          Parquet and a card, for datasets.load_dataset and the hub
      eval-results  .eval_results, eval.yaml and model cards, for the hub's
                  leaderboards (-O repository=ORGANISATION/NAME)
      tensorboard, mlflow, wandb  a run for each model: scores with intervals,
                  parameters, training curves
      croissant   datasets with digests, licence and responsible-AI fields
      questionnaire  questions for people, to be filled in (-O per_category=20)
      labels      a random sample of answers for people to rate (-O n=100)
      certainly-uncertain  pair sets, without answers (-O form=jsonl|parquet)

    Nothing is computed: missing results are named, with the command that makes them. Judgements and scores are exported with
    the answers if they exist. Values that a format cannot hold are counted on standard error. Values that a format ignores
    are kept under the key `qualm`, so that the model `recorded` reads exactly the same numbers back. `qualm ls exports NAME`
    explains one; more in docs/how-to/exchange.md.

    If result files differ from dvc.lock, nothing is written and the exit code is 1. With --force they are written, and
    CHANGED_RESULTS.txt says which differ.

    [bold]Examples[/]

      qualm export quickstart tables --to latex  then: \input{tables/tables.tex}
      qualm export quickstart figures --to pdf   then: \input{figures/figures.tex}
      qualm export quickstart out --to inspect   then: inspect view --log-dir out
      qualm export quickstart out --to vlmevalkit -m base -O table=tsv
      qualm export quickstart out --to hf -d scenes --variant clean
    """
    from qualm.compiler.run.export import ExportRequest, export_results

    project = Project()
    if out is None and spec is not None and not project.has_spec(spec):
        out, spec = Path(spec), None
    if out is None or not to:
        raise ProjectError("expected [SPEC] OUT --to FORMAT, such as `qualm export out --to inspect`; `qualm ls exports` lists the formats")
    options = [*(options or ()), *([f"only={','.join(only)}"] if only else ()), *([f"width={width}"] if width else ())]
    request = ExportRequest(spec or project.run_wide.default, out, to, models, datasets, variants, options, force)
    if not export_results(project, request):
        raise typer.Exit(1)


def share(
    spec: Annotated[
        str | None,
        typer.Argument(
            metavar="SPEC",
            help="Only this spec has to be in order; by default all that have run.",
            show_default=False,
            autocompletion=completion.specs,
        ),
    ] = None,
    remote: Annotated[
        str | None,
        typer.Argument(
            metavar="REMOTE", help="A DVC remote; the default one if left out.", show_default=False, autocompletion=registered.remotes
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Afterwards, clone, pull, hash every object, and list what would run.")] = False,
    repair: Annotated[bool, typer.Option("--repair", help="--check, and replace damaged objects by intact ones.")] = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="Send despite the problems found.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list problems. Sends nothing, asks no server.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Send data and results to a DVC remote, and check that a clone gets them without a run.

    Before sending, it looks for uncommitted files, stages that are out of date, untracked inputs, and passwords in
    .dvc/config. If it finds any, it sends nothing. A remote inside this repository is refused.

    It sends the objects of this commit, of earlier ones, and of every run of this checkout. Then it checks that the
    remote has every object that a clone needs. --check also clones the commit and pulls everything.

    Exit code 0: a clone runs nothing. 1: it would, or something is missing. 2: there is no such remote, or it
    cannot be reached. More in docs/how-to/sharing.md.

    [bold]Examples[/]

      dvc remote add -d lab ssh://host/srv/qualm    once
      dvc remote modify lab verify true             once
      qualm share                           after every commit of results
      qualm share mine                      although another spec is out of date
      qualm share --check                   before a release
      qualm share backup --anyway           whatever is here, elsewhere
    """
    from qualm.compiler.run.share import ShareRequest
    from qualm.compiler.run.share import share as share_results

    project = Project()
    if remote is None and not project.has_spec(spec):
        spec, remote = None, spec
    if not share_results(project, ShareRequest(remote, check, repair, anyway, dry_run, spec), as_json):
        raise typer.Exit(1)
