"""Resolve the `calibrators:` section: methods, confidences and the rows that they are fitted on."""

from collections.abc import Iterator

from qualm.compiler.resolve.reader import SpecReader
from qualm.compiler.resolve.resolved import CalibratorUse, Resolved
from qualm.compiler.spec.errors import nearest
from qualm.compiler.spec.plugin_ref import Ref
from qualm.compiler.spec.yaml_positions import Path_
from qualm.registry import VALIDATION
from qualm.registry.plugins.columns import recalibrated

CONFIDENCE = "confidence"
Fault = tuple[Path_, str, str]
"""Path in the spec, message, hint."""


def resolve(reader: SpecReader, estimators: tuple[Ref, ...]) -> tuple[CalibratorUse, ...]:
    """Return every setting; an estimator's name means all points of its sweep."""
    uses: list[CalibratorUse] = []
    names = {CONFIDENCE, *(e.label for e in estimators), *(e.plugin.name for e in estimators)}
    for name, entry in reader.spec.calibrators.items():
        path: Path_ = ("calibrators", name)
        methods = reader.refs("calibrators", entry.methods, at=(*path, "methods"))
        of: list[str] = []
        for i, named in enumerate(entry.of):
            if reader.unknown(named, names, "estimators"):
                message = f"expected `{CONFIDENCE}` or an estimator of this spec, got '{named}'"
                reader.problem((*path, "of", i), message, nearest(named, names))
            of += [""] if named == CONFIDENCE else [e.label for e in estimators if named in (e.label, e.plugin.name)]
        uses.append(CalibratorUse(name, methods, tuple(dict.fromkeys(of)), entry))
    return tuple(sorted(uses, key=lambda c: c.label))


def faults(reader: SpecReader, resolved: Resolved) -> Iterator[Fault]:
    """Yield settings that need something which the spec lacks."""
    for use in resolved.calibrators:
        path: Path_ = ("calibrators", use.label)
        if not use.methods or reader.failures.of("metrics"):
            continue
        if not any(recalibrated(m.reads, m.args) for m in resolved.metrics):
            yield path, "no metric of this spec reads a confidence, so nothing would show what calibrators do", "add `ece` to `metrics:`"
        scored = [d.label for d in resolved.evaluated if VALIDATION in (d.splits or ())]
        if use.on_validation and scored:
            message = f"`val` is scored of {', '.join(scored)}, and a calibrator is never fitted on rows that are scored"
            yield (*path, "calibration", "fit"), message, "use `fit: half`, or take `val` out of `splits:`"
        if use.of and not any(use.methods_of(of) for of in use.of):
            names = ", ".join(m.label for m in use.methods)
            message = f"{names} recalibrates probabilities, which values of estimators are not"
            yield (*path, "of"), message, "add `confidence`, or a method such as `platt`"
