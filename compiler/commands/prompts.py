"""`qualm prompt`: exactly what a model is sent."""

from typing import Annotated

import typer

from qualm.compiler.commands import completion
from qualm.compiler.commands.options import SpecArgument
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError, nearest
from qualm.registry.entries.errors import JsonOption


def prompt(
    spec: SpecArgument = None,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL", help="Name of a model; the first if left out.", show_default=False, autocompletion=completion.models
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", "-d", help="The dataset; the first if left out.", show_default=False, autocompletion=completion.datasets),
    ] = None,
    sample: Annotated[
        str | None, typer.Option("--sample", metavar="ID", help="The sample; the first if left out.", show_default=False)
    ] = None,
    variant: Annotated[str, typer.Option("--variant", help="A perturbation, as in the results.")] = "clean",
    as_json: JsonOption = False,
) -> None:
    """Print exactly what a model is sent for one question.

    A local model gets text after its chat template, a server the body of the request. Images are shown as <image:
    ID, WxH>. Nothing is sent, and no weights are read. The dataset must be built.

    [bold]Examples[/]

      qualm prompt quickstart
      qualm prompt quickstart base --dataset scenes
      qualm prompt mine qwen --sample 17 --variant blur@radius=2
    """
    from contextlib import chdir

    from qualm.compiler.results.integrity import edited_since
    from qualm.registry.text import complain, escape_hidden, print_json
    from qualm.runners.contracts.models import ModelError
    from qualm.runners.review.sent import format_input, model_input
    from qualm.runners.runtime.stage import StageError, make_stage

    project = Project()
    plan = project.plan(spec)
    stages = list(plan.writers("generations"))
    if not stages:
        raise ProjectError(f"specs/{plan.spec}.yaml: no model answers a dataset")
    models = list(dict.fromkeys(str(stage.params["model"]["label"]) for stage in stages))
    model = _chosen("model", model, models)
    of_model = [stage for stage in stages if stage.params["model"]["label"] == model]
    dataset = _chosen("dataset", dataset, [name for stage in of_model for name in stage.inputs["datasets"]])
    planned = next(stage for stage in of_model if dataset in stage.inputs["datasets"])
    folder = planned.inputs["datasets"][dataset]
    if not (project.root / folder / "samples.parquet").is_file():
        raise ProjectError(f"{folder}: dataset '{dataset}' is not built; `qualm run {plan.spec}` builds it")
    with chdir(project.root):
        try:
            contents = model_input(make_stage(f"{plan.spec}/{planned.name}", planned.as_json(), project.settings), dataset, sample, variant)
        except (StageError, ModelError) as error:
            raise ProjectError(str(error)) from error
    if edited := edited_since(project.root, plan, planned):
        complain(edited)
    if as_json:
        print_json({"model": model, "dataset": dataset, "variant": variant, **contents})
        return
    typer.echo(f"# {model}, {dataset}, sample {contents['sample']}, {variant}", err=True)
    typer.echo(escape_hidden(format_input(contents)))


def _chosen(kind: str, name: str | None, names: list[str]) -> str:
    if name is None:
        return names[0]
    if name not in names:
        raise ProjectError(f"expected a {kind} that is asked, got '{name}'; {nearest(name, names) or 'there are: ' + ', '.join(names)}")
    return name
