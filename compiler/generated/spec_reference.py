"""docs/reference/spec.md: the reference of the spec language, made from its models and plugins."""

from typing import Any, Literal, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from qualm.compiler.spec.language import (
    About,
    Abstention,
    Blind,
    Calibration,
    Calibrators,
    Category,
    Compare,
    Conformal,
    Dataset,
    HeldOut,
    Inference,
    Interval,
    Judging,
    Model,
    NearDuplicates,
    PairSet,
    Probe,
    Report,
    RunWide,
    Spec,
)
from qualm.registry.plugins import registry
from qualm.registry.plugins.registry import COMMANDS, KINDS

_HEAD = """\
# The spec language

*Written by `make docs-reference` from the code.*

A spec is one YAML file, `specs/NAME.yaml`. Unknown keys are errors.

- `name` or `name: {parameters}` is a plugin: a file of that name in the section's folder, whose keyword-only arguments are the parameters.
- **A list of values is a sweep** if a parameter takes a single value: one variant per value, named `blur@radius=2`.
- `extends: other.yaml` starts from another spec. Mappings are merged by key, other values replace the inherited ones, `null` removes.
- `qualm data ls` lists the cards that datasets name ([datasets](datasets.md)), `qualm ls KIND NAME` explains a plugin and
  lists its parameters.
"""

_SECTIONS: list[tuple[str, type[BaseModel], str]] = [
    ("Top level", Spec, ""),
    ("`taxonomy.MAIN.CATEGORY`", Category, ""),
    ("`datasets.NAME`", Dataset, "The parameters of the card's adapter are given beside these keys."),
    (
        "`pairs.NAME`",
        PairSet,
        "A set of pairs is a dataset: models answer it or train on it, and further pairs are made from it.",
    ),
    ("`pairs.NAME.near_duplicates`", NearDuplicates, ""),
    ("`models.NAME`", Model, "Exactly one plugin of `runners/plugins/models/` is given beside these keys."),
    ("`models.NAME.about`", About, ""),
    ("`inference`", Inference, ""),
    ("`judging`", Judging, ""),
    ("`conformal.NAME`", Conformal, ""),
    ("`conformal.NAME.calibration`", Calibration, ""),
    ("`calibrators.NAME`", Calibrators, ""),
    ("`calibrators.NAME.calibration`", HeldOut, ""),
    ("`abstentions.NAME`", Abstention, "Exactly one plugin of `runners/plugins/abstentions/` is given beside these keys."),
    ("`probes.NAME`", Probe, "Exactly one plugin of `runners/plugins/probes/` is given beside these keys."),
    ("`blind`", Blind, ""),
    ("`compare`", Compare, ""),
    ("`compare.interval`", Interval, ""),
    ("`report`", Report, ""),
    ("params.yaml", RunWide, "Defaults for all specs; resolved when a spec is compiled."),
]

DESCRIBED_IN = {
    "datasets": "dataset_notes.md",
    "perturbations": "perturbations.md",
    "judges": "judging.md",
    "estimators": "estimators.md",
    "conformal": "scoring.md",
    "calibrators": "scoring.md",
    "metrics": "scoring.md",
    "abstentions": "abstention.md",
    "probes": "probes.md",
}
"""Kind of plugin -> page of docs/reference/ that says what each does."""


def reference() -> str:
    parts = [_HEAD]
    described: dict[tuple[str, str | None], str] = {}
    for title, model, note in _SECTIONS:
        parts.append(f"## {title}\n")
        if note:
            parts.append(f"{note}\n")
        lines = []
        for name, field in model.model_fields.items():
            earlier = described.setdefault((name, field.description), title)
            meaning = (field.description or "") if earlier == title else f"As in {earlier}."
            lines.append(f"- `{name}` ({', '.join(filter(None, (_type(field), _default(field))))}): {meaning}")
        parts.append("\n".join(lines) + "\n")
    kinds = {kind: folder for kind, folder in KINDS.items() if kind not in COMMANDS and _own(kind)}
    parts.append("## Plugins\n")
    parts.append("\n".join(f"- `{kind}`: `{folder}/`, {_described(kind)}" for kind, folder in kinds.items()) + "\n")
    for kind in (kind for kind in kinds if kind not in DESCRIBED_IN):
        plugins = (registry.get(kind, name) for name in _own(kind))
        parts.append(f"### {kind}\n")
        parts.append("\n".join(f"- `{plugin.name}`: {plugin.summary}" for plugin in plugins) + "\n")
    return "\n".join(parts)


def _described(kind: str) -> str:
    page = DESCRIBED_IN.get(kind)
    return f"[described in {page}]({page})" if page else f"[below](#{kind})"


def _own(kind: str) -> list[str]:
    return [p.name for p in registry.every(kind) if p.path.is_relative_to(registry.ROOT / KINDS[kind])]


def _type(field: FieldInfo) -> str:
    return _name(field.annotation)


def _name(annotation: Any) -> str:
    inner = [a for a in get_args(annotation) if a is not type(None)]
    origin = getattr(annotation, "__origin__", None)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    if origin is dict:
        return "mapping"
    if origin is list:
        return "list"
    if origin is Literal:
        return " or ".join(f"`{a}`" for a in inner)
    if inner and hasattr(annotation, "__metadata__"):
        return _name(inner[0])
    if inner:
        return " or ".join(dict.fromkeys(_name(a) for a in inner))
    return {"int": "whole number", "float": "number", "str": "text", "bool": "true or false", "Any": "plugin"}.get(
        getattr(annotation, "__name__", ""), str(annotation)
    )


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if isinstance(field.default, BaseModel) or field.default in ({}, [], "", None):
        return ""
    return f"default `{field.default}`"
