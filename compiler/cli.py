"""`qualm`: check specs, compile them, see what would run and why, run it, look at what came out.

Exit codes: 0 well, 1 the answer is no (a check failed, a stage failed), 2 the question was wrong (a bad spec, a bad
argument). Heavy imports stay inside commands: `qualm validate` and `qualm plan` answer in well under a second.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from compiler.errors import SpecError
from compiler.planning.make import make_plan
from compiler.project import Project, ProjectError
from registry.cards import CardError
from registry.dvcconfig import DvcStateError
from registry.plugins import PluginError
from registry.printing import print_json
from runners.settings import SettingsError

app = typer.Typer(
    name="qualm",
    help="Benchmarks of what vision-language models know that they do not know: declared in YAML, rebuilt by DVC.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_SPEC_HELP = "Name of a spec in specs/, or a path; the default spec of params.yaml if left out."
SpecArgument = Annotated[str | None, typer.Argument(help=_SPEC_HELP, show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@app.command()
def validate(spec: SpecArgument = None, as_json: JsonOption = False) -> None:
    """Check a spec: every mistake at once, each with file, line, what was expected and what to do."""
    project = Project()
    try:
        resolved = project.resolve(spec)
        plan = make_plan(resolved, project.root)
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
        counts = ", ".join(f"{n} {what}" for what, n in facts.items() if what not in ("ok", "spec"))
        typer.echo(f"{facts['spec']}: valid ({counts})")


@app.command()
def plan(
    spec: SpecArgument = None,
    as_json: JsonOption = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Name every reason, and the stages that are left alone.")] = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 1 if anything would run.")] = False,
    gpu: Annotated[str | None, typer.Option("--gpu", help='Reckon with this card: h200, a100..., or "TFLOPS GB/S GIB".')] = None,
) -> None:
    """Say what `qualm run` would do and why: run, restore from the cache, perhaps run, or leave alone. Runs nothing.

    Ends with what inference will take, memory, time and money, and with what it needs from you: data to add, downloads, keys, readers that
    are not written yet. `-v` shows the arithmetic.
    """
    from compiler.costs import costs
    from compiler.explain import foretell
    from compiler.foresight import foresee
    from compiler.needs import needs

    project = Project()
    resolved = project.resolve(spec)
    compiled = make_plan(resolved, project.root)
    forecasts = foretell(compiled, project.root, project.run_wide.default, project.before(compiled))
    wanted = needs(resolved, compiled, forecasts, project.root, project.settings)
    foreseen = list(foresee(compiled, forecasts, project.root, project.settings, gpu))
    paid = list(costs(resolved, compiled, forecasts, project.root, project.settings))
    if as_json:
        takes = {e.stage: e.as_json() for e in foreseen} | {c.stage: c.as_json() for c in paid}
        print_json(
            [{**f.as_json(), "needs": [n.as_json() for n in wanted if f.stage in n.stages], "takes": takes.get(f.stage)} for f in forecasts]
        )
    else:
        from compiler.views import print_costs, print_estimates, print_forecasts, print_needs

        print_forecasts(compiled.spec, forecasts, verbose)
        print_estimates(foreseen, verbose)
        print_costs(paid, verbose)
        print_needs(wanted)
    if exit_code and any(f.action != "unchanged" for f in forecasts):
        raise typer.Exit(1)


@app.command("compile")
def compile_(
    specs: Annotated[list[str] | None, typer.Argument(help="Names of specs; all of them if left out.", show_default=False)] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if a compiled file is out of step.")] = False,
) -> None:
    """Write dvc.yaml, stages/*.json and ignore blocks of all specs; only what changed is touched."""
    changes = Project().compile(specs, check)
    from compiler.views import print_changes

    print_changes(changes, check)
    if check and changes:
        raise typer.Exit(1)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(context: typer.Context, spec: SpecArgument = None) -> None:
    """Compile a spec and rebuild what is out of date: `dvc repro --pull` with live progress.

    Further arguments go to `dvc repro`: `qualm run quickstart --force`, `qualm run quickstart --keep-going`.
    """
    from compiler.run import run_pipeline

    if spec is not None and spec.startswith("-"):
        context.args.insert(0, spec)
        spec = None
    raise typer.Exit(run_pipeline(Project(), spec, context.args))


@app.command()
def diff(
    revision: Annotated[str, typer.Argument(help="A git revision (a commit, branch or tag), or a DVC experiment by its name.")] = "HEAD",
    spec: Annotated[str | None, typer.Option("--spec", help=_SPEC_HELP)] = None,
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


@app.command()
def ls(
    kind: Annotated[str | None, typer.Argument(help="metrics, estimators, models...; all kinds if left out.", show_default=False)] = None,
    name: Annotated[str | None, typer.Argument(help="One plugin, whose help and parameters are shown.", show_default=False)] = None,
    published: Annotated[bool, typer.Option("--published", help="The table of published models: which load, how large they are.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the plugins a spec can name, or explain one; `qualm ls models --published` lists the models that load by name."""
    from compiler.views import plugin_table, print_plugin, published_table

    if published:
        published_table(kind, name, as_json)
    elif name is not None and kind is not None:
        print_plugin(kind, name, as_json)
    else:
        plugin_table(kind, as_json)


@app.command()
def graph(
    spec: SpecArgument = None,
    form: Annotated[str, typer.Option("--format", "-f", help="dot, mermaid or svg.")] = "mermaid",
    full: Annotated[bool, typer.Option("--full", help="Every stage, not collapsed by kind.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file instead of the terminal.")] = None,
) -> None:
    """Draw the pipeline, collapsed by kind of stage."""
    from compiler.graph import draw

    text = draw(Project().plan(spec), form, full)
    if output is None:
        typer.echo(text)
    else:
        output.write_text(text, encoding="utf-8")
        typer.echo(f"wrote {output}")


@app.command()
def cite(spec: SpecArgument = None, as_json: JsonOption = False) -> None:
    """Print the BibTeX of everything that a benchmark used: data sets, models, methods, and this software.

    Each entry stands below what it is cited for: `qualm cite mine > mine.bib`. What has nothing on record to cite is named at the end.
    """
    from compiler.cite import bibliography

    made = bibliography(Project(), spec)
    if as_json:
        print_json(made.as_json())
    else:
        typer.echo(made.text(), nl=False)


@app.command()
def lineage(
    file: Annotated[str, typer.Argument(help="An output, such as results/quickstart/report.html.")],
    as_json: JsonOption = False,
) -> None:
    """Show everything an output came from: stages, parameters, data, code, each with its hash."""
    from compiler.lineage import print_lineage, trace

    found = trace(Project(), file)
    if as_json:
        print_json(found)
    else:
        print_lineage(found)


@app.command()
def schema() -> None:
    """Print the JSON Schema of specs, for editors; `qualm compile` keeps it in specs/spec.schema.json."""
    from compiler.schema import schema_text

    typer.echo(schema_text(), nl=False)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the new spec.")],
    extends: Annotated[str | None, typer.Option("--extends", help="Begin as a variant of this spec.")] = None,
) -> None:
    """Write a spec to start from, commented, and say what to do next."""
    from compiler.new import write_new

    typer.echo(write_new(Project(), name, extends))


@app.command()
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


@app.command()
def stats(spec: SpecArgument = None, as_json: JsonOption = False) -> None:
    """Count pictures and questions by category and split, for every data set of a spec, and what pair recipes made and dropped."""
    from compiler.stats import show_statistics

    show_statistics(Project(), spec, as_json)


@app.command()
def compare(
    a: Annotated[str, typer.Argument(help="A model of the spec, a spec, SPEC:MODEL, REVISION:SPEC[:MODEL], or a scores.parquet.")],
    b: Annotated[str, typer.Argument(help="What to compare it with.")],
    spec: Annotated[str | None, typer.Option("--spec", help=_SPEC_HELP)] = None,
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


@app.command()
def verify(
    spec: SpecArgument = None,
    name: Annotated[
        str | None, typer.Argument(metavar="[SET]", help="The pair set or data set to review; by default the only one.", show_default=False)
    ] = None,
    reviewer: Annotated[str | None, typer.Option("--reviewer", "-r", help="Whose decisions these are; your login by default.")] = None,
    page: Annotated[bool, typer.Option("--page", help="Review on a browser page of this machine (needs the extra `pages`).")] = False,
    sample: Annotated[
        int | None, typer.Option("--sample", min=1, help="Only so many pairs or questions, the same for every reviewer.")
    ] = None,
    category: Annotated[
        str | None, typer.Option("--category", help="Only this category or subset, or all of a main kind (epistemic).")
    ] = None,
    skipped: Annotated[bool, typer.Option("--skipped", help="Ask those questions again that you skipped.")] = False,
    merge: Annotated[list[Path] | None, typer.Option("--merge", help="Ask nothing: take in another reviewer's decisions.csv.")] = None,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535, help="Port of the page; any free one by default.")] = None,
    browse: Annotated[bool, typer.Option("--browse/--no-browse", help="Open your browser at the page.")] = True,
) -> None:
    """Show a person the scored questions of a data set or pair set and keep what they say.

    A question is valid if its picture answers it and the answer is right; one
    that should have no answer is valid if the picture gives none. Of pairs, look
    at the other member and at the recipe's proof. Where a data set has subsets
    (an uncertain picture, uncertain words...), say too of a question that is
    in the wrong one. Skip what you cannot tell.

    Keys in the terminal: v valid, i invalid, w wrong subset, s skip, u undo,
    n note, p proof, o other member, q quit. Stop whenever you like: the next
    `qualm verify` goes on from there, and a kill loses nothing that you decided.

    Decisions go to registry/data/NAME/decisions.csv, where NAME is what the set
    names as `curated`; DVC tracks it. What models are scored on then keeps the
    questions that are valid by majority, of pairs those both of whose members
    are. A decision holds as long as question, answer, picture and subset are
    what you saw. More in docs/verify.md.

    [bold]Examples[/]

      qualm verify                          the default spec, in the terminal
      qualm verify SPEC --page -r ann       on a browser page, as ann
      qualm verify SPEC image               the data set `image` of the spec
      qualm verify SPEC --sample 100        100 pairs, the same ones for everyone
      qualm verify SPEC --category epistemic
      qualm verify SPEC --merge bob.csv     bob reviewed on another machine
    """
    from compiler import verify as reviewing

    project = Project()
    if merge:
        typer.echo(reviewing.merge(project, spec, name, merge))
        return
    reviewing.verify(project, spec, reviewing.Wanted(name, reviewer, category, sample, skipped, page, port, browse))


@app.command()
def export(
    spec: Annotated[str, typer.Argument(help="Name of a spec in specs/, or a path.")],
    out: Annotated[Path, typer.Argument(help="Folder to write into; made if it is not there.")],
    to: Annotated[str, typer.Option("--to", help="lm-eval, lmms-eval, vlmevalkit, inspect, hf or certainly-uncertain.")],
    models: Annotated[list[str] | None, typer.Option("--model", "-m", help="Only these models.")] = None,
    datasets: Annotated[list[str] | None, typer.Option("--dataset", "-d", help="Only these data sets.")] = None,
    variants: Annotated[list[str] | None, typer.Option("--variant", help="These variants; 'clean' by default.")] = None,
    options: Annotated[list[str] | None, typer.Option("--option", "-O", help="NAME=VALUE of the format's own options.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there already.")] = False,
) -> None:
    """Write a benchmark's answers in the format of another tool, with judgements and scores where they have been made.

      lm-eval     samples and results, as of lm_eval --log_samples
      lmms-eval   samples and results, as of lmms_eval --log_samples
      vlmevalkit  tables with pictures, predictions (-O table=xlsx|tsv|json)
      inspect     a log per model and data set (-O form=eval|json)
      hf          Parquet and a card, for datasets.load_dataset and the hub
      certainly-uncertain  pair sets themselves, without answers (-O form=jsonl|parquet)

    Nothing runs: what is missing is named, with the command that makes it. What
    a format has no place for is counted and told on standard error; what it
    ignores is kept under the key `qualm`, so that the model `recorded` reads
    the very same numbers back. `qualm ls exports NAME` explains one; more in
    docs/exchange.md.

    [bold]Examples[/]

      qualm export quickstart out --to inspect      then: inspect view --log-dir out
      qualm export quickstart out --to vlmevalkit -m base -O table=tsv
      qualm export quickstart out --to hf -d scenes --variant clean
    """
    from compiler.export import Wanted, export_results

    export_results(Project(), Wanted(spec, out, to, models, datasets, variants, options or [], force))


@app.command()
def share(
    remote: Annotated[str | None, typer.Argument(help="A DVC remote; the default one if left out.", show_default=False)] = None,
    check: Annotated[bool, typer.Option("--check", help="Then clone, pull, hash every object, and ask what would run.")] = False,
    repair: Annotated[bool, typer.Option("--repair", help="--check, and put whole objects in the place of damaged ones.")] = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="Send what is here in spite of what speaks against it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what speaks against it. Sends nothing, asks no server.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Send to a DVC remote what others need so that their clones run nothing, and check that they would not.

    First it looks at what would be missing there: files not committed, stages
    out of date, inputs that neither git nor DVC keeps, passwords in .dvc/config.
    If there is any, nothing is sent and the exit code is 1. A remote inside this
    repository is refused: what goes there goes into git.

    Then it sends the objects of this commit, of all earlier ones, and of every
    run that this checkout remembers, with the records of those runs. A colleague
    who goes back to a parameter that you have tried runs nothing either.

    Last it asks the remote for every object that a clone of this commit needs,
    by name. --check does what a colleague will do, in a folder that it removes;
    on a remote that is not a folder that means downloading everything.

    Exit code 0: a clone runs nothing. 1: it would, or something is missing.
    2: no such remote, or it cannot be reached. Recipes: docs/sharing.md.

    [bold]Examples[/]

      dvc remote add -d lab ssh://host/srv/qualm    once
      dvc remote modify lab verify true             once
      qualm share                           after every commit of results
      qualm share --check                   before you tell the world
      qualm share backup --anyway           whatever is here, elsewhere
    """
    from compiler.share import Wanted
    from compiler.share import share as share_results

    if not share_results(Project(), Wanted(remote, check, repair, anyway, dry_run), as_json):
        raise typer.Exit(1)


@app.command()
def calibrate(
    spec: SpecArgument = None,
    perturbation: Annotated[str | None, typer.Option("--perturbation", "-p", help="Plugin or variant, where the spec has several.")] = None,
    parameter: Annotated[
        str | None, typer.Option("--parameter", help="Which of its numbers is the strength; the first by default.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="A model of the spec, to see what it answers.")] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", "-d", help="A data set of the spec; the first by default.")] = None,
    samples: Annotated[int, typer.Option("--samples", "-n", min=1, help="How many samples, a seeded share of every category.")] = 200,
    auto: Annotated[bool, typer.Option("--auto", help="No page: search the strength that has a stated effect.")] = False,
    share: Annotated[float | None, typer.Option("--share", help="The effect: this share of greedy answers changes. [default: 0.2]")] = None,
    distance: Annotated[str | None, typer.Option("--distance", help="Or: pictures differ by 1-ssim=VALUE or psnr=DECIBELS.")] = None,
    within: Annotated[str | None, typer.Option("--range", help="LOW:HIGH, where to search; from nothing up by default.")] = None,
    scale: Annotated[str, typer.Option("--scale", help="linear, log, or auto: by the range.")] = "auto",
    write: Annotated[bool, typer.Option("--write", help="Write what was found into the spec, with a comment that says how.")] = False,
    add: Annotated[bool, typer.Option("--add", help="With --write: add it to the sweep, not in the place of what is there.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder of the curve; .qualm/calibrations/SPEC by default.")] = None,
    reviewer: Annotated[str | None, typer.Option("--reviewer", "-r", help="Whose votes these are; your login by default.")] = None,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535, help="Port of the page; any free one by default.")] = None,
    browse: Annotated[bool, typer.Option("--browse/--no-browse", help="Open your browser at the page.")] = True,
) -> None:
    """Choose the strength of a perturbation: by eye on a page of this machine, or by a search for a stated effect.

    The page (needs the extra `pages`) shows samples as they are beside what a
    perturbation makes of them; sliders turn its strength (inv, sbj, amb and ive
    have none, and are shown as they are). With --model it also
    shows what the model answers to both, and how uncertain it is. Vote too weak,
    right or too strong (keys W, R, S); votes are kept. A button writes the value
    into the spec; nothing else in the file changes, and nothing is written unless
    you press it.

    --auto measures a grid of strengths, then bisects between those around the
    target. All answers come from the engine's store: the same again asks nothing,
    and `qualm run` need not ask again what was asked here. It prints a table with
    95% intervals and writes the curve as CSV and SVG. Where the effect is not
    monotone, or never reaches the target, it says so and exits 1.

    [bold]Examples[/]

      qualm calibrate SPEC -p blur -m base           a page, with base's answers
      qualm calibrate SPEC -p blur -m base --auto    that changes 20% of them
      qualm calibrate SPEC -p typos --auto --share 0.1 --write
      qualm calibrate SPEC -p jpeg --auto --distance 1-ssim=0.3
      qualm calibrate SPEC -p blur@radius=2 --auto   only this point of a sweep
    """
    from compiler import calibrate as calibrating

    wanted = calibrating.Wanted(
        perturbation, parameter, model, dataset, samples, auto, share, distance, within, scale, write, add, output, reviewer, port, browse
    )
    if not calibrating.calibrate(Project(), spec, wanted):
        raise typer.Exit(1)


@app.command()
def judges(
    spec: SpecArgument = None,
    labels: Annotated[Path | None, typer.Option("--labels", help="CSV of answers that people judged; the spec's own if left out.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Hold the judges of a spec to answers that people judged: accuracy on refusals, rank correlation of ratings.

    Columns of the file: question, reference (several separated by |, empty where
    declining is right), prediction, is_refusal (0 or 1), rating (0, 0.5, 1, or
    empty). More in docs/judging.md.

    [bold]Example[/]

      qualm judges quickstart --labels tests/data/refusals.csv
    """
    from compiler import judges as reliability

    found = reliability.measure(Project(), spec, labels)
    if as_json:
        print_json(found)
    else:
        reliability.show(found)


def _mount() -> None:
    from compiler.cache import app as cache
    from compiler.doctor import app as doctor
    from registry.cli import app as data

    app.add_typer(data, name="data")
    app.add_typer(doctor, name="doctor")
    app.add_typer(cache, name="cache")


def main() -> None:
    """Entry point: turns the errors we foresee into one clear message and exit 2."""
    _mount()
    try:
        app(standalone_mode=True)
    except SpecError as error:
        typer.echo(error.render(), err=True)
        n = len(error.problems)
        typer.echo(f"{n} problem{'s' if n > 1 else ''}", err=True)
        sys.exit(2)
    except (ProjectError, PluginError, CardError, DvcStateError, SettingsError) as error:
        typer.echo(f"qualm: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
