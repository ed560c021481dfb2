"""What a parameter's value names: artifacts, data sets, models, other plugins; at any depth.

A stage depends on everything that is found here, so a name that is overlooked is a stage that is not rebuilt.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

from qualm.registry.plugins import rule
from qualm.registry.plugins.rule import Kind, Plugin


def chosen_kind(annotation: Any) -> str | None:
    """The kind of plugin that a parameter names (`Annotated[Chosen, Kind(...)]`, perhaps `| None`), None for any other parameter."""
    try:
        return _chosen_kind(annotation)
    except TypeError:  # an annotation that cannot be a key
        return _chosen_kind.__wrapped__(annotation)


@cache
def _chosen_kind(annotation: Any) -> str | None:
    if get_origin(annotation) is Annotated:
        return next((bound.name for bound in get_args(annotation)[1:] if isinstance(bound, Kind)), None)
    if get_origin(annotation) is Union:
        return next((kind for kind in map(chosen_kind, get_args(annotation)) if kind), None)
    return None


def takes_none(annotation: Any) -> bool:
    """Whether nothing (null) is a value of this parameter."""
    return annotation in (None, type(None)) or (get_origin(annotation) is Union and any(map(takes_none, get_args(annotation))))


def names_of(annotation: Any, value: Any, kind: type) -> Iterator[str]:
    """The names of one of our types (Artifact, DatasetName, ModelName) that stand in a checked value."""
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
    """The same over all parameters of a plugin, each name once, in order."""
    names = (name for p in plugin.parameters for name in names_of(p.annotation, args.get(p.name), kind))
    return list(dict.fromkeys(names))


def replaced(annotation: Any, value: Any, kind: type, change: Callable[[str], str]) -> Any:
    """A checked value with every name of one of our types changed."""
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
        return replaced(next((one for one in inner if list(names_of(one, value, kind))), None), value, kind, change)
    if get_origin(annotation) is list and isinstance(value, list):
        return [replaced(inner[0], item, kind, change) for item in value]
    if get_origin(annotation) is dict and isinstance(value, dict):
        return {key: replaced(inner[1], item, kind, change) for key, item in value.items()}
    return value


def replaced_in(plugin: Plugin, args: Mapping[str, Any], kind: type, change: Callable[[str], str]) -> dict[str, Any]:
    """A plugin's arguments with every name of one of our types changed."""
    annotation_of = {p.name: p.annotation for p in plugin.parameters}
    return {name: replaced(annotation_of[name], value, kind, change) if name in annotation_of else value for name, value in args.items()}


def nested_plugins(plugin: Plugin, args: Mapping[str, Any]) -> Iterator[Plugin]:
    """The plugins that a plugin's arguments name, and those that theirs name."""
    for nested, _ in nested_uses(plugin, args):
        yield nested


def nested_uses(plugin: Plugin, args: Mapping[str, Any]) -> Iterator[tuple[Plugin, Mapping[str, Any]]]:
    """The same, each with its own arguments."""
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
