"""Find names in parameter values, at any depth: artifacts, datasets, models, other plugins.

A stage depends on everything found here: if a name was overlooked, its stage would not be rebuilt.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

from qualm.registry.plugins import registry
from qualm.registry.plugins.registry import Kind, Mark, Plugin, plain_type

ChangeName = Callable[[Any, str], str]
"""(type: Artifact, DatasetName..., name) -> new name."""
ChangeArgs = Callable[[Plugin, Mapping[str, Any]], Mapping[str, Any]]


def chosen_kind(annotation: Any) -> str | None:
    """Return the kind of plugin that values of this type choose by name; None if they do not."""
    try:
        return _chosen_kind(annotation)
    except TypeError:  # an unhashable annotation
        return _chosen_kind.__wrapped__(annotation)


@cache
def _chosen_kind(annotation: Any) -> str | None:
    if get_origin(annotation) is Annotated:
        return next((bound.name for bound in get_args(annotation)[1:] if isinstance(bound, Kind)), None)
    if get_origin(annotation) is Union:
        return next((kind for kind in map(chosen_kind, get_args(annotation)) if kind), None)
    return None


def takes_none(annotation: Any) -> bool:
    return annotation in (None, type(None)) or (get_origin(annotation) is Union and any(map(takes_none, get_args(annotation))))


def changed_arguments(plugin: Plugin, args: Mapping[str, Any], change_name: ChangeName, change_args: ChangeArgs) -> dict[str, Any]:
    """Return nested arguments after `change_args`, with artifact names after `change_name`."""
    annotation_of = {p.name: p.annotation for p in plugin.parameters}
    return {key: _changed(annotation_of.get(key), value, change_name, change_args) for key, value in change_args(plugin, args).items()}


def _changed(annotation: Any, value: Any, name: ChangeName, uses: ChangeArgs) -> Any:
    inner = get_args(annotation)
    if value is None:
        return None
    if kind := chosen_kind(annotation):
        return {**value, "args": changed_arguments(registry.get(kind, value["plugin"]), value["args"], name, uses)}
    if get_origin(annotation) is Union:
        option = next((option for option in inner if plain_type(option) is type(value)), None)
        return _changed(option, value, name, uses)
    if isinstance(value, str):
        return name(annotation, value) if any(isinstance(mark, Mark) for mark in inner[1:]) else value
    if get_origin(annotation) is Annotated:
        return _changed(inner[0], value, name, uses)
    if get_origin(annotation) is list and isinstance(value, list):
        return [_changed(inner[0], item, name, uses) for item in value]
    if get_origin(annotation) is dict and isinstance(value, dict):
        return {key: _changed(inner[1], item, name, uses) for key, item in value.items()}
    return value


def names_of(annotation: Any, value: Any, kind: Any) -> list[str]:
    """Return the names of type `kind` in a value, in order, maybe repeated."""
    names: list[str] = []

    def note(annotation: Any, name: str) -> str:
        names.extend([name] if annotation == kind else [])
        return name

    _changed(annotation, value, note, lambda plugin, args: args)
    return names


def names_in(plugin: Plugin, args: Mapping[str, Any], kind: Any) -> list[str]:
    """Return the names of type `kind` in a plugin's arguments, in order, each once."""
    return list(dict.fromkeys(name for p in plugin.parameters for name in names_of(p.annotation, args.get(p.name), kind)))


def nested_uses(plugin: Plugin, args: Mapping[str, Any]) -> list[tuple[Plugin, Mapping[str, Any]]]:
    """Return (plugin, arguments) of all plugins that arguments name, at any depth."""
    uses: list[tuple[Plugin, Mapping[str, Any]]] = []

    def note(plugin: Plugin, args: Mapping[str, Any]) -> Mapping[str, Any]:
        uses.append((plugin, args))
        return args

    changed_arguments(plugin, {p.name: args[p.name] for p in plugin.parameters if p.name in args}, lambda annotation, name: name, note)
    return uses[1:]
