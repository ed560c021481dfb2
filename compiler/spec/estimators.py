"""Check before a run that every model gives what estimators, probes and metrics read."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from qualm.compiler.spec.errors import nearest, quoted
from qualm.compiler.spec.plugin_ref import Ref
from qualm.compiler.spec.reader import SpecReader
from qualm.compiler.spec.resolved import ModelUse, ProbeUse, Resolved
from qualm.compiler.spec.yaml_positions import Path_
from qualm.registry import DRAWS
from qualm.registry.entries.published_models import published
from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import drawn_from, signals, variants_of
from qualm.registry.plugins.internals import given_by, is_internal
from qualm.registry.plugins.model_configs import unavailable_columns
from qualm.registry.plugins.protocols import unknown_columns
from qualm.registry.plugins.registry import PluginError
from qualm.registry.system import textfiles
from qualm.runners.runtime.server_presets import unsupported_reason


def columns_read(kind: str, use: Ref | ProbeUse) -> tuple[list[str], str]:
    """Return (columns that a plugin reads, error message or "").

    The columns are [] if the plugin cannot tell them.
    """
    try:
        reads = list(use.reads)
    except PluginError as error:
        return [], str(error)
    wrong = next(unknown_columns(kind, use.plugin.name, reads), "")
    return reads, f"{use.plugin.path}: {wrong}" if wrong else ""


def missing_signals(reads: Iterable[str], model: ModelUse) -> list[str]:
    """Return the sorted signals that these columns need and the model does not give."""
    return sorted({given_by(word) for word in signals(reads)} - model.gives)


def config_of(model: ModelUse, root: Path) -> Mapping[str, Any]:
    """Return config.json of a local or published model as dict; {} if unknown."""
    if model.source is not None:
        try:
            config = json.loads(textfiles.read_text(root / model.source / "config.json"))
        except (textfiles.TextFileError, ValueError, RecursionError):
            return {}
        return config if isinstance(config, Mapping) else {}
    entry = published().get(str(model.ref.args.get("hub")))
    if entry is None:
        return {}
    layers = {"num_hidden_layers": entry.text.layers} if entry.text is not None else {}
    config = dict(entry.config or {})
    text = config.get("text_config")
    return {**config, "text_config": {**layers, **(text if isinstance(text, Mapping) else {})}}


def missing_columns(reads: Iterable[str], model: ModelUse, root: Path) -> Iterator[str]:
    """Yield a phrase per column that a local model cannot give; none for other plugins."""
    if model.ref.plugin.name == "hf_vlm":
        for what in unavailable_columns(reads, config_of(model, root)):
            yield f"reads {what} (the model '{model.ref.label}')"


def remedy(model: ModelUse, missing: Iterable[str]) -> str:
    """Return how to make a model give the `missing` signals, or why it cannot; "" if unknown."""
    parameters = registry.would_give(model.ref.plugin, model.ref.args, missing)
    if why := unsupported_reason(model.preset, parameters or ()):
        return why
    return f"set {' and '.join(f'`{name}`' for name in parameters)} of {model.ref.plugin.name}" if parameters else ""


Fault = tuple[Path_, str, str]
"""Path in the spec, message, hint."""


def faults(reader: SpecReader, resolved: Resolved) -> Iterator[Fault]:
    """Yield (path, message, hint) per fault by which the spec cannot compute an estimator.

    Also for unknown names under `leave_out:`.
    """
    spec = resolved.spec
    names = {name: None for ref in resolved.estimators for name in (ref.plugin.name, ref.label)}
    for name, entry in spec.models.items():
        for i, unknown in enumerate(entry.leave_out or ()):
            if reader.unknown(unknown, names, "estimators"):
                message = f"expected an estimator of this spec, got {quoted(unknown)}"
                yield ("models", name, "leave_out", i), message, nearest(unknown, names)
    places = {name: i for i, item in enumerate(spec.estimators) for name in ([item] if isinstance(item, str) else _keys(item))}
    for ref in resolved.estimators:
        place: Path_ = ("estimators", places[ref.plugin.name])
        reads, wrong = columns_read("estimators", ref)
        if wrong:
            yield place, wrong, ""
            continue
        if wrong_nli := _nli_fault(ref):
            parameter, message, hint = wrong_nli
            written = _keys(spec.estimators[places[ref.plugin.name]])
            yield (*place, ref.plugin.name, parameter) if ref.plugin.name in written else place, message, hint
        for model in (m for m in resolved.models if m.asked_for(ref)):
            if missing := missing_signals(reads, model):
                gives = ", ".join(sorted(model.gives)) or "nothing"
                message = f"{ref.label} needs {', '.join(missing)}, which the model '{model.ref.label}' cannot give"
                yield place, f"{message} (it gives {gives})", _way_out(model, frozenset(missing), ref, spec.models)
            for what in missing_columns(reads, model, reader.elsewhere.specs.parent):
                yield place, f"{ref.label} {what}", f"another layer, or `leave_out: [{ref.plugin.name}]` beside that model's plugin"
        if DRAWS in signals(c for c in reads if drawn_from(c) or is_internal(c)) and spec.inference.draws < 2:
            yield ("inference", "draws"), f"{ref.label} compares sampled answers; expected at least 2, got {spec.inference.draws}", ""
        perturbed = {name: None for p in resolved.perturbations for name in (p.plugin.name, p.label)}
        for variants in sorted({variants_of(c) for c in reads} - {""}):
            if not perturbed:
                yield (
                    place,
                    f"{ref.label} reads answers to perturbed samples; this spec has no perturbations",
                    "name some in `perturbations`",
                )
            elif variants != "all" and variants not in perturbed:
                expected = f"expected `all` or a perturbation of this spec, got {quoted(variants)}"
                yield place, f"{ref.label}: {expected}", nearest(variants, perturbed)


def _nli_fault(ref: Ref) -> tuple[str, str, str] | None:
    """Return (parameter, message, hint) if `nli` does not suit the estimator; else None."""
    chosen, similarity = ref.args.get("nli"), ref.args.get("similarity")
    if not isinstance(chosen, Mapping):
        return None
    name = chosen["plugin"]
    is_encoder = registry.get("nli", name).declares.get("COSINE", False)
    if similarity == "cosine" and not is_encoder:
        message = f"{ref.label}: `similarity: cosine` needs a sentence encoder as `nli`, got the NLI model '{name}'"
        return "similarity", message, "`nli: {embedding: {hub: MODEL}}`"
    if is_encoder and similarity not in ("cosine", "jaccard"):
        message = f"{ref.label}: expected an NLI model, got the sentence encoder '{name}', which tells no entailment"
        return "nli", message, "choose one, such as `hf`" if similarity is None else "set `similarity: cosine`, or choose one, such as `hf`"
    return None


def _keys(item: Any) -> Iterable[str]:
    return item if isinstance(item, dict) else ()


def _way_out(model: ModelUse, missing: frozenset[str], ref: Ref, models: Collection[str]) -> str:
    named = model.ref.label.partition("@")[0] in models  # fine-tunes have no entry under `models:`
    beside = f"leave it out for this model: `leave_out: [{ref.plugin.name}]` beside {model.ref.plugin.name}" if named else ""
    if hint := remedy(model, missing):
        return f"{hint}; or {beside}" if beside else hint
    plugins = registry.every("models")
    others = ", ".join(p.name for p in plugins if p.name != model.ref.plugin.name and missing <= registry.could_give(p))
    way = beside or "leave one of the two out"
    return f"{way}; models of {others} can" if others else way
