"""The `abstentions:` section of a spec, spelled out: which method makes which model decline, and on which rows it is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compiler import check
from compiler.errors import nearest
from compiler.load import Path_
from compiler.sections.reader import Reader
from registry import abstaining, method_name
from registry.plugins import Plugin

OPTIONS = ("of", "fit", "per", "confidence", "seed")
"""Keys that stand beside the plugin."""


@dataclass(frozen=True)
class AbstentionUse:
    """One method (one point of its sweep) on the models that it makes decline."""

    label: str
    plugin: Plugin
    args: dict[str, Any]
    of: tuple[str, ...]
    options: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {"label": self.label, "plugin": self.plugin.name, "args": self.args, "of": list(self.of), **self.options}

    @property
    def models(self) -> tuple[str, ...]:
        """What the models that it makes decline are called."""
        return tuple(abstaining(model, method_name(self.label, self.options["fit"])) for model in self.of)


def resolve(reader: Reader, models: Sequence[str]) -> tuple[AbstentionUse, ...]:
    """Every method with all its parameters.

    Args:
        reader: of the spec.
        models: labels of all models of the spec, those made here among them.
    """
    found: list[AbstentionUse] = []
    for name, entry in reader.spec.abstentions.items():
        path: Path_ = ("abstentions", name)
        if not reader.spec.judges:
            reader.problem(path, "an abstention is chosen on judged answers, and this spec has no judges", "add `judges:`", key=True)
        options = entry.model_dump(include=set(OPTIONS) - {"of"})
        of = _models(reader, entry.of, models, (*path, "of"))
        for plugin, _, swept, args in reader.points(entry.model_extra or {}, "abstentions", path):
            found.append(AbstentionUse(check.label(name, swept), plugin, args, of, options))
    return tuple(sorted(found, key=lambda use: use.label))


def _models(reader: Reader, named: list[str] | None, models: Sequence[str], path: Path_) -> tuple[str, ...]:
    """Labels of the models meant; a name without its sweep means all points of it."""
    wanted = list(reader.spec.models) if named is None else named
    for i, name in enumerate(named or ()):
        if name not in models and name not in {m.split("@")[0] for m in models}:
            reader.problem((*path, i), f"expected a model of this spec, got '{name}'", nearest(name, models))
    return tuple(m for m in sorted(models) if m in wanted or m.split("@")[0] in wanted)
