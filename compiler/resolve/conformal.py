"""Resolve the `conformal:` section."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from annotated_types import Gt, Lt

from qualm.compiler.resolve.reader import SpecReader
from qualm.compiler.resolve.resolved import ConformalUse
from qualm.compiler.spec import validate
from qualm.compiler.spec.errors import Problem
from qualm.compiler.spec.yaml_positions import Path_
from qualm.registry.plugins.rule import Parameter

Share = Annotated[float, Gt(0), Lt(1)]
SETTINGS = (
    Parameter("alpha", Share, 0.1, "float"),
    Parameter("quantile", Literal["standard", "numpy_higher"], "standard", "str"),
    Parameter("empty_set", Literal["argmax", "empty"], "argmax", "str"),
    Parameter("precision", Literal["double", "single"], "double", "str"),
    Parameter("per", str | None, None, "str"),
)
CALIBRATION = (
    Parameter("fraction", Share, 0.5, "float"),
    Parameter("seed", int, 42, "int"),
    Parameter("split", Literal["groups", "rows"], "groups", "str"),
    Parameter("within", str | None, None, "str"),
)


def resolve(reader: SpecReader) -> tuple[ConformalUse, ...]:
    """Return every setting, one per point of its sweeps."""
    uses: list[ConformalUse] = []
    document, problems = reader.document, reader.problems
    for name, entry in reader.spec.conformal.items():
        path: Path_ = ("conformal", name)
        scores = reader.refs("conformal", entry.scores, at=(*path, "scores"))
        own = {k: v for k, v in entry.model_dump().items() if k not in ("scores", "calibration")}
        inner = entry.calibration.model_dump()
        for swept, args in validate.combinations(SETTINGS, own, document, path, problems, "conformal"):
            split = validate.combinations(CALIBRATION, inner, document, (*path, "calibration"), problems, "calibration")
            for swept_inner, calibration in split:
                label = validate.label(name, {**swept, **swept_inner})
                uses.append(ConformalUse(label, scores, _calibrated(args, calibration)))
    problems += _contradictions(reader)
    return tuple(sorted(uses, key=lambda c: c.label))


def _calibrated(args: Mapping[str, Any], calibration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a setting; what is split within a field has a threshold for each of its values."""
    within = calibration["within"]
    if within is None:
        return {**args, "calibration": {key: value for key, value in calibration.items() if key != "within"}}
    return {**args, "per": within, "calibration": dict(calibration)}


def _contradictions(reader: SpecReader) -> Iterator[Problem]:
    """Yield the settings that split within one field and take thresholds by another."""
    for name, entry in reader.spec.conformal.items():
        within = entry.calibration.within
        if within is not None and entry.per not in (None, within):
            message = f"thresholds are per {_words(entry.per)}, but calibration is within {_words(within)}"
            yield reader.document.problem(("conformal", name, "per"), message, "leave out `per:`; `within:` has a threshold for each value")


def _words(fields: str | list[str] | None) -> str:
    return ", ".join(f"'{field}'" for field in ([fields] if isinstance(fields, str) else fields or []))
