"""Shell completion of plugins, cards, entries and remotes. It reads only file names."""

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import typer

Completed = Callable[[typer.Context, str], list[str]]


def quietly(names: Callable[[typer.Context, str], Iterable[str]]) -> Completed:
    """Return a completion function of `names` that completes nothing on an error."""

    @wraps(names)
    def complete(context: typer.Context, incomplete: str) -> list[str]:
        try:
            return [name for name in names(context, incomplete) if name.startswith(incomplete)]
        except Exception:  # noqa: BLE001 - a message in the middle of a command line helps nobody
            return []

    return complete


def root() -> Path:
    """Return the nearest folder at or above the working one with a `.dvc`; else that one."""
    here = Path.cwd()
    return next((p for p in (here, *here.parents) if (p / ".dvc").is_dir()), here)


def parameter_value(context: typer.Context, name: str) -> Any:
    """Return the value of a parameter that was typed on the command line so far, or None."""
    return context.params.get(name)


@quietly
def entries(context: typer.Context, incomplete: str) -> Iterable[str]:
    return sorted(p.stem for p in (root() / "registry" / "data").glob("*.dvc"))


@quietly
def data(context: typer.Context, incomplete: str) -> Iterable[str]:
    from qualm.registry.entries.card import card_names

    return sorted({p.stem for p in (root() / "registry" / "data").glob("*.dvc")} | set(card_names()))


@quietly
def cards(context: typer.Context, incomplete: str) -> Iterable[str]:
    from qualm.registry.entries.card import card_names

    return card_names()


@quietly
def adapters(context: typer.Context, incomplete: str) -> Iterable[str]:
    """Return the adapters that `qualm data new` can write a card for."""
    from qualm.registry.entries.infer_columns import SUFFIXES

    return list(SUFFIXES)


@quietly
def remotes(context: typer.Context, incomplete: str) -> Iterable[str]:
    from qualm.registry.system.dvc_files import read_config

    return list(read_config(root())["remote"])


@quietly
def kinds(context: typer.Context, incomplete: str) -> Iterable[str]:
    from qualm.registry.plugins.registry import KINDS

    return list(KINDS)


@quietly
def plugins(context: typer.Context, incomplete: str) -> Iterable[str]:
    """Return the plugins of the kind typed before, or published models after `--published`."""
    from qualm.registry.entries.published_models import published
    from qualm.registry.plugins.registry import names

    return list(published()) if parameter_value(context, "published") else names(parameter_value(context, "kind"))


@quietly
def exports(context: typer.Context, incomplete: str) -> Iterable[str]:
    from qualm.registry.plugins.registry import names

    return [name.replace("_", "-") for name in names("exports")]
