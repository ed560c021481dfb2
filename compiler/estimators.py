"""Estimators against models, before anything runs: does every model give what every estimator reads?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from compiler.load import Path_
from compiler.tuned import ModelUse, way_out
from registry import plugins
from registry.columns import DRAWN, signals
from registry.plugins import PluginError

if TYPE_CHECKING:
    from compiler.resolve import Resolved

Fault = tuple[Path_, str, str]
"""Where in the spec, what is wrong, what to do."""


def faults(resolved: Resolved) -> Iterator[Fault]:
    """Every estimator with every model that cannot give what it reads, and estimators of draws where there is one draw."""
    spec = resolved.spec
    places = {str(given) if isinstance(given, str) else next(iter(given)): i for i, given in enumerate(spec.estimators)}
    for ref in resolved.estimators:
        place: Path_ = ("estimators", places[ref.plugin.name])
        try:
            reads = ref.reads
        except PluginError as error:
            yield place, str(error), ""
            continue
        for model in resolved.models:
            missing = signals(reads) - model.gives
            if missing:
                gives = ", ".join(sorted(model.gives)) or "nothing"
                message = f"{ref.label} needs {', '.join(sorted(missing))}, which the model '{model.ref.label}' cannot give"
                yield place, f"{message} (it gives {gives})", _way_out(model, missing)
        if DRAWN.keys() & set(reads) and spec.inference.draws < 2:
            yield ("inference", "draws"), f"{ref.label} compares sampled answers; expected at least 2, got {spec.inference.draws}", ""


def _way_out(model: ModelUse, missing: frozenset[str]) -> str:
    if own := way_out(model, missing):
        return own
    known = [plugins.get("models", name) for name in plugins.names("models")]
    others = ", ".join(p.name for p in known if p.name != model.ref.plugin.name and missing <= plugins.could_give(p))
    return f"leave one of the two out; models of {others} can" if others else "leave one of the two out"
