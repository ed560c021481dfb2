"""`qualm`: check specs, compile them, see what would run and why, run it, look at what came out.

Exit codes: 0 well, 1 the answer is no (a check failed, a stage failed), 2 the question was wrong (a bad spec, a bad
argument). Heavy imports stay inside commands: `qualm validate` and `qualm plan` answer in well under a second.
"""

from __future__ import annotations

import sys

import typer

from compiler.commands import origins, people, pipeline, results, sharing, specs
from compiler.errors import SpecError
from compiler.project import ProjectError
from registry.cards import CardError
from registry.dvcconfig import DvcStateError
from registry.plugins import PluginError
from runners.settings import SettingsError

app = typer.Typer(
    name="qualm",
    help="Benchmarks of what vision-language models know that they do not know: declared in YAML, rebuilt by DVC.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

# In the order in which `qualm --help` lists them: from a spec to its results, then what else one does with either.
app.command()(pipeline.validate)
app.command()(pipeline.plan)
app.command("compile")(pipeline.compile_)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(pipeline.run)
app.command()(results.diff)
app.command()(specs.ls)
app.command()(origins.graph)
app.command()(origins.cite)
app.command()(origins.lineage)
app.command()(specs.schema)
app.command()(specs.new)
app.command()(results.show)
app.command()(results.stats)
app.command()(results.compare)
app.command()(people.verify)
app.command()(sharing.export)
app.command()(sharing.share)
app.command()(people.calibrate)
app.command()(people.judges)


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
