"""Find names in parameter values, at any depth: artifacts, datasets, models, other plugins.

A stage depends on everything found here: if a name was overlooked, its stage would not be rebuilt.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

from qualm.registry.plugins import rule
from qualm.registry.plugins.rule import Kind, Plugin


def chosen_kind(annotation: Any) -> str | None:
    """Return the kind of plugin that a parameter names; None for other parameters."""
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


def names_of(annotation: Any, value: Any, kind: type) -> Iterator[str]:
    """Yield the names of a type (Artifact, DatasetName, ModelName) in a validated value."""
    nested = chosen_kind(annotation)
    if nested is not None:
        yield from names_in(rule.get(nested, value["plugin"]), value["args"], kind) if value is not None else ()
    elif annotation is kind:
        yield from [value] if isinstance(value, str) else []
    elif get_origin(annotation) in (Union, Annotated):
        for inner in get_args(annotation):
            yield from names_of(inner, value, kind)
    elif get_origin(annotation) is list and isinstance(value, list):
        for item in value:
            yield from names_of(get_args(annotation)[0], item, kind)
    elif get_origin(annotation) is dict and isinstance(value, dict):
        for item in value.values():
            yield from names_of(get_args(annotation)[1], item, kind)


def names_in(plugin: Plugin, args: Mapping[str, Any], kind: type) -> list[str]:
    """Return the names of a type in all parameters of a plugin, without duplicates, in order."""
    names = (name for p in plugin.parameters for name in names_of(p.annotation, args.get(p.name), kind))
    return list(dict.fromkeys(names))


def replaced(annotation: Any, value: Any, kind: type, change: Callable[[str], str]) -> Any:
    """Return a validated value with every name of a type changed."""
    if value is None:
        return None
    nested = chosen_kind(annotation)
    if nested is not None:
        return {**value, "args": replaced_in(rule.get(nested, value["plugin"]), value["args"], kind, change)}
    if annotation is kind:
        return change(value) if isinstance(value, str) else value
    inner = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return replaced(inner[0], value, kind, change)
    if get_origin(annotation) is Union:
        return replaced(next((option for option in inner if list(names_of(option, value, kind))), None), value, kind, change)
    if get_origin(annotation) is list and isinstance(value, list):
        return [replaced(inner[0], item, kind, change) for item in value]
    if get_origin(annotation) is dict and isinstance(value, dict):
        return {key: replaced(inner[1], item, kind, change) for key, item in value.items()}
    return value


def replaced_in(plugin: Plugin, args: Mapping[str, Any], kind: type, change: Callable[[str], str]) -> dict[str, Any]:
    """Return a plugin's arguments with every name of a type changed."""
    annotation_of = {p.name: p.annotation for p in plugin.parameters}
    return {name: replaced(annotation_of[name], value, kind, change) if name in annotation_of else value for name, value in args.items()}


def changed_uses(plugin: Plugin, args: Mapping[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Return a plugin's arguments, and those of all plugins that they name, with each of these sets of arguments changed."""
    annotation_of = {p.name: p.annotation for p in plugin.parameters}
    return change({name: _changed(annotation_of.get(name), value, change) for name, value in args.items()})


def _changed(annotation: Any, value: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    kind = chosen_kind(annotation)
    if kind is not None and value is not None:
        return {**value, "args": changed_uses(rule.get(kind, value["plugin"]), value["args"], change)}
    if get_origin(annotation) is list and isinstance(value, list):
        return [_changed(get_args(annotation)[0], item, change) for item in value]
    return value


def nested_uses(plugin: Plugin, args: Mapping[str, Any]) -> Iterator[tuple[Plugin, Mapping[str, Any]]]:
    """Yield the plugins that a plugin's arguments name, at any depth, with their arguments."""
    for parameter in plugin.parameters:
        yield from _nested(parameter.annotation, args.get(parameter.name))


def _nested(annotation: Any, value: Any) -> Iterator[tuple[Plugin, Mapping[str, Any]]]:
    kind = chosen_kind(annotation)
    if kind is not None and value is not None:
        plugin = rule.get(kind, value["plugin"])
        yield plugin, value["args"]
        yield from nested_uses(plugin, value["args"])
    elif get_origin(annotation) is list and isinstance(value, list):
        for item in value:
            yield from _nested(get_args(annotation)[0], item)
