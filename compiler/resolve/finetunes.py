"""Resolve the `finetunes:` section: the models that are trained, on which datasets, from which models."""

from collections.abc import Collection, Mapping
from typing import Any

from qualm.compiler.resolve.reader import SpecReader
from qualm.compiler.resolve.resolved import FinetuneUse
from qualm.compiler.spec import validate
from qualm.compiler.spec.errors import nearest
from qualm.compiler.spec.plugin_ref import Ref, located
from qualm.compiler.spec.references_in import names_of
from qualm.compiler.spec.yaml_positions import Path_
from qualm.registry.plugins.rule import DatasetName, ModelName, Plugin


def resolve(reader: SpecReader) -> tuple[FinetuneUse, ...]:
    spec = reader.spec
    data, bases = {**spec.datasets, **spec.pairs}, {**spec.models, **spec.finetunes}
    uses: list[FinetuneUse] = []
    for name, entry in spec.finetunes.items():
        for plugin, at, swept, args in reader.points(entry, "finetunes", ("finetunes", name)):
            datasets = _named(reader, plugin, args, at, DatasetName, data)
            models = _named(reader, plugin, args, at, ModelName, bases)
            uses.append(FinetuneUse(Ref(validate.label(name, swept), plugin, located(plugin, args)), datasets, models))
    return tuple(sorted(uses, key=lambda f: f.ref.label))


def _named(
    reader: SpecReader, plugin: Plugin, args: Mapping[str, Any], at: Path_, kind: type[DatasetName | ModelName], candidates: Collection[str]
) -> tuple[str, ...]:
    names = set()
    sections = ("datasets", "pairs") if kind is DatasetName else ("models", "finetunes")
    for parameter in plugin.parameters:
        for used in names_of(parameter.annotation, args.get(parameter.name), kind):
            names.add(used)
            if reader.unknown(used, candidates, *sections):
                what = "dataset" if kind is DatasetName else "model"
                reader.problem((*at, parameter.name), f"expected a {what} of this spec, got '{used}'", nearest(used, candidates))
    return tuple(sorted(names))
