"""What a model is called elsewhere: a label of a spec is a name for one page, tables of many benchmarks want `developer/model`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qualm.registry.entries.card import CardError, load_card
from qualm.runners.plugins.exports._parts import slug

LOCAL = "local"
"""Developer of a model that has no other name: made, tuned or recorded here."""
_HUB = re.compile(r"https://huggingface\.co/([\w.-]+/[\w.-]+?)/?")


@dataclass(frozen=True)
class PublishedModel:
    """A model as others know it."""

    id: str
    """`developer/model`, on the hub where it is from there."""
    open_weights: bool | None = None
    """None where nothing here says."""
    served: bool | None = None
    """Whether another's server answered; None of recorded answers."""

    @property
    def developer(self) -> str:
        return self.id.partition("/")[0]


def model_name(label: str, model: Mapping[str, Any], developer: str = LOCAL) -> PublishedModel:
    """The name by which a model is known: of the hub, of its server, or `developer/label`.

    Args:
        label: in the spec.
        model: its `plugin` and `args`, as an export is handed them; empty for a model that a stage tuned.
        developer: of models that have no name elsewhere.
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
    """Where an artifact's card says that it is from; a model that was made here has no card."""
    try:
        return load_card(str(artifact)).source if artifact else ""
    except CardError:
        return ""
