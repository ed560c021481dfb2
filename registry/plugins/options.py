"""Plugin parameters from the command line: `-O NAME=VALUE`, the value in YAML."""

from collections.abc import Iterable
from typing import Any

from qualm.registry.plugins.registry import Plugin, PluginError


def parse_options(plugin: Plugin, assignments: Iterable[str]) -> dict[str, Any]:
    """Return {parameter: checked value} of assignments `NAME=YAML`; else PluginError."""
    import yaml
    from pydantic import TypeAdapter, ValidationError

    parameters = {p.name: p for p in plugin.parameters}
    values: dict[str, Any] = {}
    for item in assignments:
        name, sign, text = item.partition("=")
        if name not in parameters or not sign:
            there = ", ".join(f"{p.name} ({p.text})" for p in parameters.values()) or "none"
            raise PluginError(f"-O {item}: expected NAME=VALUE of {plugin.name}'s parameters, which are: {there}")
        kind = TypeAdapter(parameters[name].annotation)
        try:
            values[name] = kind.validate_python(yaml.safe_load(text), strict=True)
        except (ValidationError, yaml.YAMLError):
            try:
                values[name] = kind.validate_python(text, strict=True)  # YAML takes `no` and `2014` for something else
            except ValidationError as error:
                raise PluginError(f"-O {item}: expected {parameters[name].text}: {error.errors()[0]['msg']}") from None
    return values
