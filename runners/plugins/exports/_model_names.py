"""Names of models for tables of many benchmarks, `developer/model`, in place of a spec's label."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qualm.registry.entries.card import CardError, load_card
from qualm.runners.plugins.exports._parts import slug

LOCAL = "local"
"""Developer of a model without another name: made, tuned or recorded here."""
_HUB = re.compile(r"https://huggingface\.co/([\w.-]+/[\w.-]+?)/?")


@dataclass(frozen=True)
class PublishedModel:
    """A model under its public name."""

    id: str
    """`developer/model`, as on the hub if it is from there."""
    open_weights: bool | None = None
    """None if unknown."""
    served: bool | None = None
    """Answered by another's server; None for recorded answers."""

    @property
    def developer(self) -> str:
        return self.id.partition("/")[0]


def model_name(label: str, model: Mapping[str, Any], developer: str = LOCAL) -> PublishedModel:
    """Return a PublishedModel: named as on the hub, by its server, or `developer/label`.

    Args:
        label: in the spec.
        model: its `plugin` and `args`; empty for a model that a stage tuned.
        developer: of models without a public name.
    """
    args = model.get("args", {})
    if hub := args.get("hub"):
        return PublishedModel(str(hub), open_weights=True, served=False)
    if model.get("plugin") == "openai":
        served = str(args["model"])
        return PublishedModel(served if "/" in served else f"{developer}/{slug(served)}", served=True)
    if match := _HUB.fullmatch(_source(args.get("artifact"))):
        return PublishedModel(match[1], open_weights=True, served=None if model.get("plugin") == "recorded" else False)
    own = re.sub(r"\s+", "-", label.strip("/"))
    named = own if own.count("/") == 1 else f"{developer}/{slug(own)}"
    return PublishedModel(named, served=None if model.get("plugin") == "recorded" else False)


def _source(artifact: object) -> str:
    """Return `source` in the card named `artifact`; "" for None or without a valid card."""
    try:
        return load_card(str(artifact)).source if artifact else ""
    except CardError:
        return ""
