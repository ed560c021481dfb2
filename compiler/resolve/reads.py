"""Check the columns that estimators, probes and metrics read: that they exist, and that a model gives them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from qualm.compiler.resolve.resolved import ModelUse, ProbeUse
from qualm.compiler.spec.plugin_ref import Ref
from qualm.registry.formats import textfiles
from qualm.registry.plugins.columns import signals
from qualm.registry.plugins.contracts import unknown_columns
from qualm.registry.plugins.internals import given_by
from qualm.registry.plugins.model_configs import not_inside
from qualm.registry.plugins.rule import PluginError
from qualm.registry.published.models import published


def columns_read(kind: str, use: Ref | ProbeUse) -> tuple[list[str], str]:
    """Return the columns that a plugin reads, and an error message or an empty text."""
    try:
        reads = list(use.reads)
    except PluginError as error:
        return [], str(error)
    wrong = next(unknown_columns(kind, use.plugin.name, reads), "")
    return reads, f"{use.plugin.path}: {wrong}" if wrong else ""


def lacking(reads: Iterable[str], model: ModelUse) -> list[str]:
    """Return the signals behind these columns that a model cannot give, as words of its GIVES."""
    return sorted({given_by(word) for word in signals(reads)} - model.gives)


def config_of(model: ModelUse, root: Path) -> Mapping[str, Any]:
    """Return the configuration of a local or published model; empty if it is unknown."""
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


def not_within(reads: Iterable[str], model: ModelUse, root: Path) -> Iterator[str]:
    """Yield the columns that a model does not have, such as layers beyond its last."""
    if model.ref.plugin.name == "hf_vlm":
        for what in not_inside(reads, config_of(model, root)):
            yield f"reads {what} (the model '{model.ref.label}')"
