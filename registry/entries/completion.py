"""Shell completion of plugins, cards, entries and remotes. It reads only file names."""

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import typer

Completed = Callable[[typer.Context, str], list[str]]


def quietly(names: Callable[[typer.Context, str], Iterable[str]]) -> Completed:
    """Wrap a completion function: filter by the typed prefix, return [] on errors."""

    @wraps(names)
    def complete(context: typer.Context, incomplete: str) -> list[str]:
        try:
            return [name for name in names(context, incomplete) if name.startswith(incomplete)]
        except Exception:  # noqa: BLE001 - a message in the middle of a command line helps nobody
            return []

    return complete


def root() -> Path:
    """Return the folder with `.dvc` at or above the working folder; else the latter."""
    here = Path.cwd()
    return next((p for p in (here, *here.parents) if (p / ".dvc").is_dir()), here)


def parameter_value(context: typer.Context, name: str) -> Any:
    """Return the value of parameter `name` typed so far; None if not typed."""
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
    """Return the names of adapters for which `qualm data new` writes cards."""
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
    """Return the plugin names of the kind typed before, or published models' names."""
    from qualm.registry.entries.published_models import published
    from qualm.registry.plugins.registry import names

    return list(published()) if parameter_value(context, "published") else names(parameter_value(context, "kind"))


@quietly
def exports(context: typer.Context, incomplete: str) -> Iterable[str]:
    from qualm.registry.plugins.registry import names

    return [name.replace("_", "-") for name in names("exports")]
