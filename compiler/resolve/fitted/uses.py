"""Resolve methods that are fitted on a model's answers: points of their sweeps, and their models."""

from collections.abc import Sequence
from typing import TypeVar

from qualm.compiler.resolve.reader import SpecReader
from qualm.compiler.resolve.resolved import AbstentionUse, ProbeUse
from qualm.compiler.spec import validate
from qualm.compiler.spec.errors import nearest
from qualm.compiler.spec.yaml_positions import Path_

Use = TypeVar("Use", AbstentionUse, ProbeUse)


def fitted_uses(reader: SpecReader, section: str, kind: type[Use], models: Sequence[str]) -> tuple[Use, ...]:
    """Return every method of a section, sorted by label.

    Args:
        models: labels of all models of the spec, including fine-tunes.
    """
    uses: list[Use] = []
    for name, entry in getattr(reader.spec, section).items():
        path: Path_ = (section, name)
        of = models_meant(reader, list(reader.spec.models) if entry.of is None else entry.of, models, (*path, "of"))
        for plugin, _, swept, args in reader.points(entry.model_extra or {}, section, path):
            uses.append(kind(validate.label(name, swept), plugin, args, of, entry))
    return tuple(sorted(uses, key=lambda use: use.label))


def models_meant(reader: SpecReader, names: Sequence[str], models: Sequence[str], path: Path_) -> tuple[str, ...]:
    """Return the labels of named models; a name means all its sweep, and may occur once."""
    named: set[str] = set()
    for i, name in enumerate(names):
        if reader.unknown(name, {*models, *(m.split("@")[0] for m in models)}, "models", "finetunes"):
            reader.problem((*path, i), f"expected a model of this spec, got '{name}'", nearest(name, models))
        meant = {name, *(m for m in models if m.split("@")[0] == name)}
        if meant & named:
            reader.problem((*path, i), f"'{name}' is named twice", "name each model once")
        named |= meant
    return tuple(m for m in sorted(models) if m in named)
