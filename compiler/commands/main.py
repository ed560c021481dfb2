"""`qualm`: check specs, compile them, forecast and run them, look at results.

Exit codes are in docs/reference/command_line.md. Heavy imports stay inside commands, so that `qualm validate` and `qualm plan` answer
in well under a second.
"""

import atexit
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from qualm.compiler.commands import fetching, origins, people, pipeline, prompts, results, sharing, specs, viewing
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError, SpecError
from qualm.registry.entries.card import CardError
from qualm.registry.entries.entries import EntryError
from qualm.registry.places import project_root
from qualm.registry.plugins.registry import PluginError
from qualm.registry.system.disk_errors import explain_error
from qualm.registry.system.dvc_files import DvcStateError
from qualm.registry.system.failures import TRACEBACK, log_error, summarize_error
from qualm.registry.system.git import GitError
from qualm.registry.system.guard import guard
from qualm.registry.system.textfiles import TextFileError
from qualm.runners.runtime.settings import SettingsError


class Interruptible(TyperGroup):
    """Command group that exits with 130 on Ctrl-C, as shells do, instead of Typer's 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo(say.INTERRUPTED, err=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    name="qualm",
    help="Benchmarks of uncertainty in vision-language models: declared in YAML, rebuilt by DVC.",
    epilog=say.EXIT_CODES,
    cls=Interruptible,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS: dict[str, tuple[str, Callable[..., None]]] = {
    "init": (say.PANEL_RUN, specs.init),
    "new": (say.PANEL_RUN, specs.new),
    "validate": (say.PANEL_RUN, pipeline.validate),
    "plan": (say.PANEL_RUN, pipeline.plan),
    "power": (say.PANEL_RUN, results.power),
    "prompt": (say.PANEL_RUN, prompts.prompt),
    "compile": (say.PANEL_RUN, pipeline.compile_),
    "fetch": (say.PANEL_RUN, fetching.fetch),
    "run": (say.PANEL_RUN, pipeline.run),
    "show": (say.PANEL_LOOK, results.show),
    "view": (say.PANEL_LOOK, viewing.view),
    "compare": (say.PANEL_LOOK, results.compare),
    "diff": (say.PANEL_LOOK, results.diff),
    "experiments": (say.PANEL_LOOK, results.experiments),
    "stats": (say.PANEL_LOOK, results.stats),
    "graph": (say.PANEL_LOOK, origins.graph),
    "lineage": (say.PANEL_LOOK, origins.lineage),
    "verify": (say.PANEL_PEOPLE, people.verify),
    "judges": (say.PANEL_PEOPLE, people.judges),
    "strength": (say.PANEL_PEOPLE, people.strength),
    "ls": (say.PANEL_FIND, specs.ls),
    "schema": (say.PANEL_FIND, specs.schema),
    "share": (say.PANEL_SHARE, sharing.share),
    "export": (say.PANEL_SHARE, sharing.export),
    "cite": (say.PANEL_SHARE, origins.cite),
    "clean": (say.PANEL_SHARE, specs.clean),
}
_FURTHER = {"run": {"allow_extra_args": True, "ignore_unknown_options": True}}
"""Settings of commands that pass unknown options on: `qualm run` to DVC."""

for _name, (_panel, _function) in COMMANDS.items():
    app.command(_name, rich_help_panel=_panel, context_settings=_FURTHER.get(_name))(_function)


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version; with -v also those of Python and all libraries.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="With --version: print the versions of all libraries.")] = False,
) -> None:
    if version:
        from qualm import __version__

        if verbose:
            from qualm.registry.system.versions import describe_versions

            typer.echo("\n".join(describe_versions()))
        else:
            typer.echo(f"qualm {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        context.fail("Missing command.")


def _filled(help: str) -> str:
    """Return a help text with each paragraph on one line; indented ones unchanged."""
    paragraphs = inspect.cleandoc(help).split("\n\n")
    return "\n\n".join(part if re.search("^ ", part, re.MULTILINE) else " ".join(part.split()) for part in paragraphs)


@cache
def complete_app() -> typer.Typer:
    """Return the `qualm` command with all command groups, cached."""
    from qualm.compiler.commands.cache import app as cached
    from qualm.compiler.commands.doctor import app as doctor
    from qualm.registry.entries.cli import app as data

    app.add_typer(data, name="data", rich_help_panel=say.PANEL_FIND)
    app.add_typer(doctor, name="doctor", rich_help_panel=say.PANEL_FIND)
    app.add_typer(cached, name="cache", rich_help_panel=say.PANEL_SHARE)
    for command in (c for group in (app, data, doctor, cached) for c in group.registered_commands):
        command.help = _filled((command.callback and command.callback.__doc__) or "")
    return app


@cache
def command_line() -> Callable[..., Any]:
    """Return the callable `qualm` command, cached: Typer takes a tenth of a second to make it."""
    return typer.main.get_command(complete_app())


def main() -> None:
    """Run the `qualm` command with the arguments of this process."""
    run_guarded(lambda: command_line()(standalone_mode=True))


def run_guarded(command: Callable[[], Any]) -> Any:
    """Return the command's result; print an error as one message and exit."""
    guard()
    try:
        return command()
    except SpecError as error:
        typer.echo(error.render(), err=True)
        typer.echo(say.count(len(error.problems), "problem"), err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo(say.INTERRUPTED, err=True)
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - it is logged
        message, code = error_report(error)
        if code == 1:
            if _is_verbose():
                traceback.print_exception(error)
            name = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
            message = f"{message}; {log_error(error, f'qualm-{name}', project_root())}"
        typer.echo(f"qualm: {message}", err=True)
        sys.exit(code)
    finally:
        if (colorama := sys.modules.get("colorama.initialise")) is not None:
            atexit.unregister(colorama.reset_all)  # DVC registers it: a control sequence after our last line


def error_report(error: Exception) -> tuple[str, int]:
    """Return (message, exit code) of an error: 2 for faulty input, 1 for unexpected ones."""
    match error:
        case ProjectError() | PluginError() | CardError() | EntryError() | DvcStateError() | GitError() | SettingsError() | TextFileError():
            return str(error), 2
        case OSError():
            return explain_error(error), 2
        case UnicodeError():
            return say.EXPECTED_UTF8.format(error=error), 2
        case RecursionError():
            return say.NESTED_TOO_DEEP, 2
        case MemoryError():
            return say.OUT_OF_MEMORY, 2
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(error, polars.exceptions.ComputeError) and "parquet" in str(error):
        return say.TABLE_DAMAGED.format(error=error), 2
    return say.UNEXPECTED_ERROR.format(error=summarize_error(error)), 1


def _is_verbose() -> bool:
    return bool(os.environ.get(TRACEBACK)) or bool({"-v", "--verbose"} & set(sys.argv[1:]))


if __name__ == "__main__":
    main()
