"""Constants by which a plugin's module describes itself; all its other constants are private."""

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from qualm.registry.plugins.protocols import declarations
from qualm.registry.plugins.registry import REQUIRED, Plugin


def declarations_of(plugin: Plugin) -> dict[str, Any]:
    """Return {constant: value} of the constants that the plugin itself declares.

    Their order is that of the kind's contract.
    """
    return {name: plugin.declares[name] for name in declarations(plugin.kind) if name in plugin.declares}


BY_ARGUMENT = ("higher_is_better", "interval", "why_no_interval", "contrasts")
"""Declarations that may be {parameter: {value or pattern of values: declaration}}."""


def by_argument(by_pattern: Mapping[str, Any], value: Any, default: Any = None) -> Any:
    """Return the entry of `by_pattern` whose pattern first matches `value`, else `default`.

    >>> by_argument({"Binary*": 1, "*": 2}, "BinaryAUROC"), by_argument({"Binary*": 1}, "MulticlassAUROC", 0)
    (1, 0)
    """
    return next((found for key, found in by_pattern.items() if key == value or fnmatchcase(str(value), key)), default)


def for_arguments(plugin: Plugin, args: Mapping[str, Any]) -> Plugin:
    """Return a copy of the plugin: declarations by argument resolved, or dropped if none fits."""
    arguments = {p.name: p.default for p in plugin.parameters if p.default is not REQUIRED} | dict(args)
    declares = dict(plugin.declares)
    for name in BY_ARGUMENT:
        if isinstance(of := declares.get(name), Mapping):
            ((parameter, by_value),) = of.items()
            declares[name] = by_argument(by_value, arguments.get(parameter), REQUIRED)
            if declares[name] is REQUIRED:
                del declares[name]
    return replace(plugin, declares=declares)


def declares_by_argument(plugin: Plugin) -> bool:
    """Return whether a plugin's declaration in BY_ARGUMENT depends on an argument."""
    return any(isinstance(plugin.declares.get(name), Mapping) for name in BY_ARGUMENT)


def misplaced_arguments(plugin: Plugin, args: Mapping[str, Any]) -> list[str]:
    """Return a message per argument that other arguments make meaningless (`only_with`)."""
    messages = []
    for key, conditions in plugin.declares.get("only_with", {}).items():
        name, _, value = key.partition("=")
        default = next(p.default for p in plugin.parameters if p.name == name)
        given = args.get(name, default)
        if given == default or (value and str(given) != value):
            continue
        for parameter, patterns in conditions.items():
            if not by_argument(dict.fromkeys(patterns, True), args.get(parameter), False):
                of = f"{name}: {given}" if value else name
                messages.append(f"`{of}` has no meaning with `{parameter}: {args.get(parameter)}`; it has with {', '.join(patterns)}")
    return messages
