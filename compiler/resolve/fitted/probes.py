"""Resolve the `probes:` section, and check it against the rest of the spec."""

from collections.abc import Iterator, Sequence

from qualm.compiler.resolve.fitted.uses import fitted_uses
from qualm.compiler.resolve.reader import SpecReader
from qualm.compiler.resolve.reads import columns_read, lacking, not_within
from qualm.compiler.resolve.resolved import ProbeUse, Resolved
from qualm.compiler.resolve.tuned import way_out
from qualm.compiler.spec.errors import nearest
from qualm.compiler.spec.yaml_positions import Path_
from qualm.registry import VALIDATION


def resolve(reader: SpecReader, models: Sequence[str]) -> tuple[ProbeUse, ...]:
    """Return every probe; `models` are labels of all models of the spec, including fine-tunes."""
    return fitted_uses(reader, "probes", ProbeUse, models)


def faults(reader: SpecReader, resolved: Resolved) -> Iterator[tuple[Path_, str, str]]:
    """Yield problems of probes: missing columns or targets, training on scored rows."""
    estimators = [ref.label for ref in resolved.estimators]
    for use in resolved.probes:
        path: Path_ = ("probes", use.label.split("@")[0])
        if use.label in estimators:
            yield path, f"an estimator of this spec is called '{use.label}' too", "give the probe another name"
        reads, wrong = columns_read("probes", use)
        if wrong:
            yield path, wrong, ""
            continue
        for model in (m for m in resolved.models if m.ref.label in use.of):
            if missing := lacking(reads, model):
                message = f"{use.plugin.name} reads {', '.join(missing)}, which the model '{model.ref.label}' cannot give"
                yield path, message, way_out(model, missing) or "name under `of:` the models that can"
            for what in not_within(reads, model, reader.elsewhere.specs.parent):
                yield path, f"{use.plugin.name} {what}", "another layer, or name under `of:` the models that can"
        if use.target is None:
            if reader.lacks("judges") and any(not d.entry.judges for d in resolved.evaluated):
                yield path, f"{use.plugin.name} learns which answers are wrong, and this spec has no judges", "add `judges:`"
        elif reader.unknown(use.target, estimators, "estimators"):
            message = f"{use.plugin.name} learns from an estimator of this spec, and there is no '{use.target}'"
            yield path, message, nearest(use.target, estimators) if estimators else "add it to `estimators:`"
        if use.beside:
            labels = [p.label for p in resolved.perturbations]
            named = [label for label in labels if use.beside in (label, label.partition("@")[0])]
            if not named:
                yield (
                    path,
                    f"{use.plugin.name} compares with answers under '{use.beside}', which is no perturbation here",
                    (nearest(use.beside, labels) or "add it to `perturbations:`; a black picture is `dark: {factor: 0}`"),
                )
            elif len(named) > 1:
                yield path, f"{use.plugin.name} compares with one variant, and '{use.beside}' names {', '.join(named)}", "name one of them"
        scored = [d.label for d in resolved.evaluated if d.splits is not None and VALIDATION in d.splits]
        if use.entry.fit == VALIDATION and scored:
            message = f"it learns from answers to split '{VALIDATION}', which is scored for {', '.join(scored)}"
            yield path, message, f"leave '{VALIDATION}' out of `splits:` there, or learn from half of what is scored: `fit: half`"
