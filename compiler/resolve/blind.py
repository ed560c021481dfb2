"""Resolve the `blind:` section: the baselines that see no image or another one, by model."""

from collections.abc import Mapping, Sequence

from qualm.compiler.resolve.fitted.uses import models_meant
from qualm.compiler.resolve.reader import SpecReader
from qualm.registry import BLIND


def resolve(reader: SpecReader, models: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the kind of baseline -> labels of its models.

    Args:
        models: labels of all models of the spec, including fine-tunes.
    """
    models_by_way = {way: getattr(reader.spec.blind, way) for way in BLIND if way in reader.spec.blind.model_fields_set}
    if "blind" in reader.spec.model_fields_set and not models_by_way and not reader.failures.of("blind"):
        message = f"expected models under at least one of {', '.join(BLIND)}, got nothing"
        reader.problem(
            ("blind",), message, "name models, or leave `blind:` out (`blind: null` over a spec that this one extends)", key=True
        )
    for way in models_by_way:
        if reader.lacks("judges"):
            hint = "add `judges:`"
            reader.problem(("blind", way), "blind baselines are compared by judged answers, and this spec has no judges", hint, key=True)
        if BLIND[way] in reader.spec.abstentions:
            message = f"an abstention is called '{BLIND[way]}', the name that `blind: {way}` adds to its models"
            reader.problem(("abstentions", BLIND[way]), message, "give it another name", key=True)
    return {way: models_meant(reader, names, models, ("blind", way)) for way, names in models_by_way.items()}
