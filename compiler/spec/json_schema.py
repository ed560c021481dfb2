"""JSON Schema of the spec language, by which editors complete sections, plugin names and parameters."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from qualm.compiler.spec.language import LIMIT_KEY, NAME_KEY, PAIR_UNITS, Spec
from qualm.compiler.spec.plugin_ref import ANSWERABLE_BY, OWN, PREPARE
from qualm.compiler.spec.references_in import chosen_kind, takes_none
from qualm.compiler.spec.validate import takes_list
from qualm.registry.entries import card as cards
from qualm.registry.plugins import registry
from qualm.registry.plugins.registry import COMMANDS, KINDS, MAX_NUMBER, NAME_PATTERN, REQUIRED, Parameter, Plugin
from qualm.registry.plugins.validation import validator
from qualm.registry.system import atomic

SCHEMA = "spec.schema.json"
FIRST_LINE = f"# yaml-language-server: $schema=./{SCHEMA}\n"
"""First line of a spec, by which editors find the schema."""
_IGNORE = f"# Written by qualm: the schema has the plugins of this machine.\n/{SCHEMA}\n/.gitignore\n"
LIST_SECTIONS = ("perturbations", "judges", "estimators", "metrics")


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of specs, with all installed plugins and cards."""
    result = Spec.model_json_schema()
    result["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    result["title"] = "Qualm benchmark spec"
    properties = result["properties"]
    properties["extends"] = {"type": "string", "description": "Another spec that this one is a variant of: mappings merge, null removes."}
    definitions = result["$defs"]
    for kind in (k for k in KINDS if k not in COMMANDS):
        definitions[f"{kind}_plugins"] = {"oneOf": [_named(plugin) for plugin in registry.every(kind)]} if registry.every(kind) else {}
    for section in LIST_SECTIONS:
        names = [{"const": p.name, "description": p.summary} for p in registry.every(section)]
        properties[section]["items"] = {"oneOf": [*names, {"$ref": f"#/$defs/{section}_plugins"}]} if names else {}
    names = [{"const": p.name, "description": p.summary} for p in registry.every("conformal")]
    definitions["Conformal"]["properties"]["scores"]["items"] = {"oneOf": [*names, {"$ref": "#/$defs/conformal_plugins"}]}
    names = [{"const": p.name, "description": p.summary} for p in registry.every("calibrators")]
    definitions["Calibrators"]["properties"]["methods"]["items"] = {"oneOf": [*names, {"$ref": "#/$defs/calibrators_plugins"}]}
    for section, entry in (("models", "Model"), ("abstentions", "Abstention"), ("probes", "Probe")):
        properties[section]["patternProperties"] = {NAME_PATTERN: _with_options(section, definitions.pop(entry))}
        properties[section].pop("additionalProperties", None)
    definitions["PairSet"]["properties"]["recipes"]["items"] = _recipe()
    properties["finetunes"]["patternProperties"] = {NAME_PATTERN: _with_options("finetunes", {"properties": {}})}
    properties["datasets"]["patternProperties"] = {NAME_PATTERN: _datasets(definitions["Dataset"])}
    definitions.pop("datasets_plugins", None)
    _require_nothing_inherited(result)
    _allow_removal(properties)
    return result


def schema_text() -> str:
    """Return the schema as JSON on one line; indented, it takes five times as long to write."""
    return json.dumps(schema(), sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def write_schema(root: Path) -> None:
    """Write the schema to specs/spec.schema.json if it changed, and git-ignore it.

    Git ignores it, as it includes installed plugins.
    """
    path, text = root / "specs" / SCHEMA, schema_text()
    ignore = path.with_name(".gitignore")
    if not ignore.exists():  # keep one that the user wrote
        atomic.write_text(ignore, _IGNORE)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        atomic.write_text(path, text)


def _require_nothing_inherited(result: dict[str, Any]) -> None:
    """Change the schema in place: specs with `extends` need only `name`."""
    required = result.pop("required")
    result["if"] = {"not": {"required": ["extends"]}}
    result["then"] = {"required": required}
    result["required"] = [r for r in required if r in ("name",)]


def _allow_removal(properties: dict[str, Any]) -> None:
    """Change sections and named entries in place to also allow null."""
    for section in properties.keys() - {"qualm", "name", "extends"}:
        schema_of = properties[section]
        for pattern, entry in schema_of.get("patternProperties", {}).items():
            schema_of["patternProperties"][pattern] = _or_null(entry)
        properties[section] = _or_null(schema_of)


def _or_null(value: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [value, {"type": "null"}]}


def _named(plugin: Plugin) -> dict[str, Any]:
    parameters = _object((*plugin.parameters, *OWN.get(plugin.kind, ())), plugin.doc)
    value = parameters if parameters.get("required") else {"anyOf": [parameters, {"type": "null"}]}
    return {"type": "object", "properties": {plugin.name: value}, "required": [plugin.name], "additionalProperties": False}


def _recipe() -> dict[str, Any]:
    """Return the schema of one item of `recipes:`: a plugin's name, or it with parameters."""
    name = {"type": "string", "pattern": NAME_PATTERN, "description": "A name of its own, where one plugin stands twice in a set."}
    number = {"type": "integer", "minimum": 1, "maximum": MAX_NUMBER}
    most = {
        "type": "object",
        "propertyNames": {"enum": list(PAIR_UNITS)},
        "additionalProperties": {"anyOf": [number, {"type": "object", "additionalProperties": number, "minProperties": 1}]},
        "minProperties": 1,
        "maxProperties": 1,
        "description": "The largest number of pairs, or of questions (two for each pair), in all or by split.",
    }
    forms: list[dict[str, Any]] = []
    for plugin in registry.every("pairs"):
        form = _named(plugin)
        form["properties"] |= {NAME_KEY: name, LIMIT_KEY: most}
        forms += [{"const": plugin.name, "description": plugin.summary}, form]
    return {"oneOf": forms} if forms else {}


def _with_options(section: str, base: dict[str, Any]) -> dict[str, Any]:
    forms = []
    for plugin in registry.every(section):
        form = _named(plugin)
        forms.append({**form, "properties": {**base["properties"], **form["properties"]}})
    return {"oneOf": forms} if forms else {}


def _datasets(base: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one dataset, by card; complete the fields of `base` in place."""
    fields = base["properties"]
    preparation = _value(PREPARE.annotation)
    sweep = {"type": "array", "items": preparation, "minItems": 1}
    fields[PREPARE.name] |= {"anyOf": [*preparation["anyOf"], sweep]}
    fields[ANSWERABLE_BY.name] |= _value(ANSWERABLE_BY.annotation)
    shared = {name: {"$ref": f"#/$defs/Dataset/properties/{name}"} for name in fields}
    forms = []
    adapters = {plugin.name: plugin.parameters for plugin in registry.every("datasets")}
    for card in cards.load_all_cards():
        if card.kind != "dataset" or (card.adapter and card.adapter not in adapters):
            continue
        parameters = _object(adapters[card.adapter] if card.adapter else (), card.description)
        properties = {**shared, "card": {"const": card.name, "description": card.title}, **parameters["properties"]}
        required = [r for r in parameters.get("required", []) if r not in card.args]
        forms.append({**parameters, "properties": properties, "required": ["card", *required]})
    return {"oneOf": forms} if forms else {}


def _object(parameters: tuple[Parameter, ...], description: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for parameter in parameters:
        schema_of = _value(parameter.annotation)
        if not takes_list(parameter.annotation):
            sweep = {"type": "array", "items": schema_of, "minItems": 1, "description": "A sweep: one variant per value."}
            schema_of = {"anyOf": [schema_of, sweep]}
        if parameter.default is not REQUIRED:
            schema_of["default"] = parameter.default
        properties[parameter.name] = schema_of
    required = [p.name for p in parameters if p.default is REQUIRED]
    result: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False, "description": description}
    return {**result, "required": required} if required else result


def _value(annotation: Any) -> dict[str, Any]:
    """Return the schema of one parameter's value; a nested plugin as name or mapping."""
    kind = chosen_kind(annotation)
    if kind is None:
        return {**_plain_value(annotation)}
    names = [{"const": p.name, "description": p.summary} for p in registry.every(kind)]
    forms: list[dict[str, Any]] = [*names, {"$ref": f"#/$defs/{kind}_plugins"}] if names else [{}]
    return {"anyOf": [*forms, {"type": "null"}] if takes_none(annotation) else forms}


@cache
def _plain_value(annotation: Any) -> dict[str, Any]:
    """Return the schema of a type that names no plugin, cached."""
    return validator(annotation).json_schema()
