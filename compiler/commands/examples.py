"""Make an example of each plugin in a spec, as `qualm ls KIND NAME` prints it; a test validates them all."""

from collections.abc import Collection
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml

from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.metrics import PAIRED_COLUMNS, UNCERTAINTY_COLUMNS
from qualm.compiler.spec.references_in import chosen_kind
from qualm.registry.entries import card as cards
from qualm.registry.entries.infer_columns import SUFFIXES
from qualm.registry.plugins import registry
from qualm.registry.plugins.column_names import CODE_OF, GROUP_OF, LABELLED, SET_COLUMNS
from qualm.registry.plugins.columns import columns, field_of, judge_of, mark_of, variants_of
from qualm.registry.plugins.registry import KINDS, NESTED, REQUIRED, Artifact, DatasetName, ModelName, Parameter, Plugin
from qualm.registry.where import FIELDS

_NAMED: dict[str, Any] = {
    "category": "epistemic/extraneous",
    "source": "my-answers",
    "model": "my-model",
    "option": "E",
    "dataset": "mmbench",
}
_CHOSEN: dict[str, Any] = {"generators": {"hf": {"artifact": "my-llm"}}, "saliency": "scene_graph", "masks": "scene_graph"}
_PLACES = {"models": "mine", "finetunes": "tuned", "abstentions": "careful", "probes": "inside"}
"""Section with named entries -> an example of a name."""


def example(plugin: Plugin) -> dict[str, Any]:
    """Return an example of a spec's sections that use the plugin with valid arguments."""
    if plugin.kind == "datasets":
        return {"datasets": {"mine": _example_dataset(plugin)}}
    if plugin.kind == "preparations":
        return {"datasets": {"mine": {"card": "mmbench", "prepare": _value(plugin)}}}
    if plugin.kind in NESTED:
        fixed = {"similarity": "cosine"} if plugin.declares.get("COSINE") else {}
        host, parameter = _host(plugin.kind, fixed.keys())
        return _placed(host, {**_example_arguments(host), **fixed, parameter: _value(plugin)})
    further_sections = {"metrics": _sections_for, "estimators": _perturbed, "probes": _learnt_from}.get(plugin.kind)
    return {**_placed(plugin, _example_arguments(plugin)), **(further_sections(plugin) if further_sections else {})}


def text(part: dict[str, Any]) -> str:
    written: str = yaml.safe_dump(part, sort_keys=False, default_flow_style=None, width=74)
    return written


def placeholders(written: str) -> dict[str, str]:
    """Return {placeholder: its meaning} for the placeholders in an example's YAML text."""
    return {name: meaning for name, meaning in say.PLACEHOLDERS.items() if name in _words(written)}


def _words(written: str) -> set[str]:
    return {str(token.value) for token in yaml.scan(written) if isinstance(token, yaml.ScalarToken)}


def _placed(plugin: Plugin, arguments: dict[str, Any]) -> dict[str, Any]:
    named = {plugin.name: arguments} if arguments else plugin.name
    if plugin.kind == "pairs":
        return {"pairs": {"unanswerable": {"recipes": [named]}}}
    if plugin.kind == "conformal":
        return {"conformal": {"half": {"scores": [named]}}}
    if plugin.kind == "calibrators":
        return {"calibrators": {"half": {"methods": [named]}}, "metrics": ["ece"]}
    return {plugin.kind: {_PLACES[plugin.kind]: {plugin.name: arguments}} if plugin.kind in _PLACES else [named]}


def _sections_for(metric: Plugin) -> dict[str, Any]:
    """Return {section: content} that a spec with this metric needs, such as `judges`."""
    read = {column for column in columns(metric, {}).values() if column is not None}
    marks = {mark for mark in map(mark_of, read) if mark}
    fields = {field_of(c) for c in read if c.startswith((GROUP_OF, CODE_OF))} - set(FIELDS)
    judges = registry.every("judges")
    judge = next((j for j in judges if j.name in map(judge_of, read) or (marks and marks <= set(j.declares.get("MARKS", ())))), None)
    adapters = {p.name for p in registry.every("datasets") if fields <= set(registry.meta_keys(p, {}) or ())}
    parts = {
        "datasets": {"mine": _example_dataset(registry.get("datasets", min(adapters)))} if fields and adapters else None,
        "perturbations": [{"blur": {"radius": 2}}] if read & PAIRED_COLUMNS else None,
        "judges": [_value(judge)] if judge is not None else None,
        "judging": {"labels": "my-labels"} if LABELLED in read else None,
        "estimators": ["perplexity"] if read & UNCERTAINTY_COLUMNS else None,
        "conformal": {"half": {"scores": ["lac"]}} if read & SET_COLUMNS else None,
    }
    return {section: part for section, part in parts.items() if part is not None}


def _perturbed(estimator: Plugin) -> dict[str, Any]:
    read = columns(estimator, {p.name: p.default for p in estimator.parameters}).values()
    return {"perturbations": [{"blur": {"radius": 2}}]} if any(column and variants_of(column) for column in read) else {}


def _learnt_from(probe: Plugin) -> dict[str, Any]:
    target = probe.declares["TARGET"]
    named = {p.name: p.default for p in probe.parameters}
    estimators = {"estimators": [named[target["high"]]]} if isinstance(target, dict) else {}
    return estimators | ({"perturbations": [{"dark": {"factor": 0}}]} if probe.declares.get("BESIDE") else {})


def _example_dataset(plugin: Plugin) -> dict[str, Any]:
    """Return an example `datasets:` entry: a card and arguments it lacks, or only "my-card"."""
    of_adapter = [c for c in cards.load_all_cards() if c.adapter == plugin.name]
    if not of_adapter or plugin.name in SUFFIXES:
        return {"card": "my-card"}
    card = next((c for c in of_adapter if c.name == plugin.name), of_adapter[0])
    return {"card": card.name, **{k: v for k, v in _required(plugin).items() if k not in card.args}}


def _host(kind: str, needed: Collection[str]) -> tuple[Plugin, str]:
    """Return (plugin, its parameter that takes plugins of `kind`); LookupError if none.

    The plugin also has all `needed` parameters.
    """
    for section in (k for k in KINDS if k not in NESTED):
        for plugin in registry.every(section):
            for parameter in plugin.parameters:
                if chosen_kind(parameter.annotation) == kind and set(needed) <= {p.name for p in plugin.parameters}:
                    return plugin, parameter.name
    raise LookupError(kind)


def _value(plugin: Plugin) -> Any:
    arguments = _example_arguments(plugin)
    return {plugin.name: arguments} if arguments else plugin.name


def _example_arguments(plugin: Plugin) -> dict[str, Any]:
    """Return example values of required parameters; if there are none, of one optional."""
    if required := _required(plugin):
        return required
    where = next((p for p in plugin.parameters if _holds(p.annotation, Artifact) and plugin.kind == "models"), None)
    if where is not None:
        return {where.name: "my-model"}
    return next(({p.name: p.default} for p in plugin.parameters if p.default not in (None, [], {}, "")), {})


def _required(plugin: Plugin) -> dict[str, Any]:
    return {p.name: _of_parameter(p) for p in plugin.parameters if p.default is REQUIRED}


def _of_parameter(parameter: Parameter) -> Any:
    kind = chosen_kind(parameter.annotation)
    if kind is not None:
        return _CHOSEN.get(kind) or _value(registry.get(kind, registry.names(kind)[0]))
    return _of_type(parameter.annotation, parameter.name)


def _of_type(annotation: Any, name: str) -> Any:
    names = {Artifact: "my-answers" if name == "source" else "my-model", DatasetName: "scenes", ModelName: "base"}
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in names:
        return names[annotation]
    if origin is list:
        return [_of_type(inner[0], name)]
    if origin is dict:
        return {"key": _of_type(inner[1], name)}
    if origin is Literal:
        return inner[0]
    if origin in (Annotated, Union):
        return _of_type(inner[0], name)
    return {int: 1, float: 0.5, bool: False}.get(annotation, _NAMED.get(name, "text"))


def _holds(annotation: Any, kind: Any) -> bool:
    return annotation == kind or any(_holds(inner, kind) for inner in get_args(annotation))
