"""Resolve what is fitted on or compared by answers: abstentions, probes, calibrators, conformal settings, blind baselines."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from qualm.compiler.spec import validate
from qualm.compiler.spec.errors import Problem, nearest
from qualm.compiler.spec.estimators import Fault, columns_read, missing_columns, missing_signals, remedy
from qualm.compiler.spec.language import Calibration, Conformal
from qualm.compiler.spec.plugin_ref import Ref
from qualm.compiler.spec.reader import SpecReader
from qualm.compiler.spec.resolved import AbstentionUse, CalibratorUse, ConformalUse, ProbeUse, Resolved
from qualm.compiler.spec.yaml_positions import Path_
from qualm.registry import BLIND, VALIDATION
from qualm.registry.plugins.columns import is_recalibrated
from qualm.registry.plugins.registry import Parameter

Use = TypeVar("Use", AbstentionUse, ProbeUse)


def fitted_uses(reader: SpecReader, section: str, kind: type[Use], models: Sequence[str]) -> tuple[Use, ...]:
    """Return uses of section `abstentions` or `probes`, one per sweep point; record problems.

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
    """Return the model labels that `names` mean, sorted; record unknown or repeated names."""
    named: set[str] = set()
    for i, name in enumerate(names):
        if reader.unknown(name, {*models, *(m.split("@")[0] for m in models)}, "models", "finetunes"):
            reader.problem((*path, i), f"expected a model of this spec, got '{name}'", nearest(name, models))
        meant = {name, *(m for m in models if m.split("@")[0] == name)}
        if meant & named:
            reader.problem((*path, i), f"'{name}' is named twice", "name each model once")
        named |= meant
    return tuple(m for m in sorted(models) if m in named)


def resolve_abstentions(reader: SpecReader, models: Sequence[str]) -> tuple[AbstentionUse, ...]:
    """Return the spec's abstention uses, one per sweep point; record problems.

    They are sorted by label. A spec without judges is a problem of each method.

    Args:
        models: labels of all models of the spec, including fine-tunes.
    """
    for name in reader.spec.abstentions if reader.lacks("judges") else ():
        message = "an abstention rule is chosen on judged answers, and this spec has no judges"
        reader.problem(("abstentions", name), message, "add `judges:`", key=True)
    return fitted_uses(reader, "abstentions", AbstentionUse, models)


def probe_faults(reader: SpecReader, resolved: Resolved) -> Iterator[Fault]:
    """Yield (path, message, hint) per probe that cannot be trained or trains on scored rows."""
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
            if missing := missing_signals(reads, model):
                message = f"{use.plugin.name} reads {', '.join(missing)}, which the model '{model.ref.label}' cannot give"
                yield path, message, remedy(model, missing) or "name under `of:` the models that can"
            for what in missing_columns(reads, model, reader.elsewhere.specs.parent):
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
                    (nearest(use.beside, labels) or "add it to `perturbations:`; a black image is `dark: {factor: 0}`"),
                )
            elif len(named) > 1:
                yield path, f"{use.plugin.name} compares with one variant, and '{use.beside}' names {', '.join(named)}", "name one of them"
        scored = [d.label for d in resolved.evaluated if d.splits is not None and VALIDATION in d.splits]
        if use.entry.fit == VALIDATION and scored:
            message = f"it learns from answers to split '{VALIDATION}', which is scored for {', '.join(scored)}"
            yield path, message, f"leave '{VALIDATION}' out of `splits:` there, or learn from half of what is scored: `fit: half`"


CONFIDENCE = "confidence"


def resolve_calibrators(reader: SpecReader, estimators: tuple[Ref, ...]) -> tuple[CalibratorUse, ...]:
    """Return the settings of `calibrators:` by label; record unknown estimators."""
    uses: list[CalibratorUse] = []
    names = {CONFIDENCE, *(e.label for e in estimators), *(e.plugin.name for e in estimators)}
    for name, entry in reader.spec.calibrators.items():
        path: Path_ = ("calibrators", name)
        methods = reader.refs("calibrators", entry.methods, at=(*path, "methods"))
        of: list[str | tuple[str, ...]] = []
        for i, given in enumerate(entry.of):
            labels: list[str] = []
            for named in [given] if isinstance(given, str) else given:
                if reader.unknown(named, names, "estimators"):
                    message = f"expected `{CONFIDENCE}` or an estimator of this spec, got '{named}'"
                    reader.problem((*path, "of", i), message, nearest(named, names))
                labels += [""] if named == CONFIDENCE else [e.label for e in estimators if named in (e.label, e.plugin.name)]
            of += labels if isinstance(given, str) else [tuple(dict.fromkeys(labels))]
        uses.append(CalibratorUse(name, methods, tuple(dict.fromkeys(of)), entry))
    return tuple(sorted(uses, key=lambda c: c.label))


def calibrator_faults(reader: SpecReader, resolved: Resolved) -> Iterator[Fault]:
    """Yield (path, message, hint) for calibrators unread by metrics, on scored rows, or unfit.

    "Unread": no metric of the spec reads a confidence. "Unfit": its methods cannot take its scores, such as several, or values of
    estimators. A calibrator whose methods are all unknown is passed over.
    """
    for use in resolved.calibrators:
        path: Path_ = ("calibrators", use.label)
        if not use.methods or reader.failures.has_errors("metrics"):
            continue
        if not any(is_recalibrated(m.reads, m.args) for m in resolved.metrics):
            yield path, "no metric of this spec reads a confidence, so nothing would show what calibrators do", "add `ece` to `metrics:`"
        scored = [d.label for d in resolved.evaluated if VALIDATION in (d.splits or ())]
        if use.on_validation and scored:
            message = f"`val` is scored of {', '.join(scored)}, and a calibrator is never fitted on rows that are scored"
            yield (*path, "calibration", "fit"), message, "use `fit: half`, or take `val` out of `splits:`"
        for of in use.of:
            if isinstance(of, tuple) and not use.methods_of(of):
                names = ", ".join(m.label for m in use.methods)
                yield (*path, "of"), f"{names} cannot combine {_combined(of)}", "add `logistic_regression` to `methods`"
        if use.of and all(isinstance(of, str) for of in use.of) and not any(use.methods_of(of) for of in use.of):
            names = ", ".join(m.label for m in use.methods)
            message = f"{names} recalibrates probabilities, which values of estimators are not"
            yield (*path, "of"), message, "add `confidence`, or a method such as `platt`"


def _combined(of: tuple[str, ...]) -> str:
    return " and ".join(name or CONFIDENCE for name in of)


def _swept(model: type[BaseModel], *fixed: str) -> tuple[Parameter, ...]:
    """Return all fields of a model but `fixed` as parameters, each of which may be a sweep.

    Their values are checked already.
    """
    return tuple(Parameter(name, Any, field.default, "") for name, field in model.model_fields.items() if name not in fixed)


def resolve_conformal(reader: SpecReader) -> tuple[ConformalUse, ...]:
    """Return the settings of `conformal:`, one per sweep point, by label; record problems."""
    uses: list[ConformalUse] = []
    document, problems = reader.document, reader.problems
    for name, entry in reader.spec.conformal.items():
        path: Path_ = ("conformal", name)
        scores = reader.refs("conformal", entry.scores, at=(*path, "scores"))
        settings = entry.model_dump(exclude={"scores", "calibration"})
        parameters, of_split = _swept(Conformal, "scores", "calibration"), _swept(Calibration)
        for swept, args in validate.combinations(parameters, settings, document, path, problems, "conformal"):
            split = entry.calibration.model_dump()
            for swept_inner, calibration in validate.combinations(
                of_split, split, document, (*path, "calibration"), problems, "calibration"
            ):
                label = validate.label(name, {**swept, **swept_inner})
                uses.append(ConformalUse(label, scores, _calibrated(args, calibration)))
    problems += _contradictions(reader)
    return tuple(sorted(uses, key=lambda c: c.label))


def _calibrated(args: Mapping[str, Any], calibration: Mapping[str, Any]) -> dict[str, Any]:
    """Return `args` with key "calibration", and `per` = its `within` unless None."""
    within = calibration["within"]
    if within is None:
        return {**args, "calibration": {key: value for key, value in calibration.items() if key != "within"}}
    return {**args, "per": within, "calibration": dict(calibration)}


def _contradictions(reader: SpecReader) -> Iterator[Problem]:
    """Yield a problem per conformal setting whose `per:` and `within:` differ."""
    for name, entry in reader.spec.conformal.items():
        within = entry.calibration.within
        if within is not None and entry.per not in (None, within):
            message = f"thresholds are per {_words(entry.per)}, but calibration is within {_words(within)}"
            yield reader.document.problem(("conformal", name, "per"), message, "leave out `per:`; `within:` has a threshold for each value")


def _words(fields: str | list[str] | None) -> str:
    return ", ".join(f"'{field}'" for field in ([fields] if isinstance(fields, str) else fields or []))


def resolve_blind(reader: SpecReader, models: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Return {kind of blind baseline: labels of its models}; record mistakes.

    Args:
        models: labels of all models of the spec, including fine-tunes.
    """
    models_by_way = {way: getattr(reader.spec.blind, way) for way in BLIND if way in reader.spec.blind.model_fields_set}
    if "blind" in reader.spec.model_fields_set and not models_by_way and not reader.failures.has_errors("blind"):
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
