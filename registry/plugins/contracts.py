"""Contracts of plugins by kind: positional parameters and UPPER-CASE constants, checked without importing a plugin.

A metric without `weights`, an unknown column or `MODALITY = "picture"` is thus an error of `qualm validate`, not of a stage.
"""

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from qualm.registry import MODALITIES
from qualm.registry.formats.textfiles import shortened
from qualm.registry.plugins.column_names import CONTEXT, of_estimators, of_metrics
from qualm.registry.plugins.extras import EXTRAS


@dataclass(frozen=True)
class Constant:
    """A constant that a plugin may declare."""

    expected: str
    fits: Callable[[Any], bool]
    needed: bool = False


def _texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _word_or_condition(item: Any) -> bool:
    """Accept `"word"`, or `{"word": "parameter"}` with one parameter or several."""
    return isinstance(item, str) or (
        isinstance(item, Mapping) and all(isinstance(k, str) and (isinstance(v, str) or _texts(v)) for k, v in item.items())
    )


def _gives(value: Any) -> bool:
    if isinstance(value, Mapping):
        return len(value) == 1 and all(isinstance(by, Mapping) and all(map(_gives, by.values())) for by in value.values())
    return isinstance(value, list | tuple) and all(map(_word_or_condition, value))


def _needs(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return _texts(value)
    return all(isinstance(name, str) and (isinstance(of, str) or _by_value(of)) for name, of in value.items())


def _by_value(of: Any) -> bool:
    return isinstance(of, Mapping) and len(of) == 1 and all(isinstance(inner, Mapping) for inner in of.values())


def _meta(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(i, str) or (isinstance(i, Mapping) and list(i) == ["of"]) for i in value)


def _over(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, Mapping) and all(isinstance(v, str) for item in value.items() for v in item))


def _target(value: Any) -> bool:
    return value == "wrong" or (isinstance(value, Mapping) and list(value) == ["high"] and isinstance(value["high"], str))


def _one_of(*values: Any, needed: bool = False) -> Constant:
    # `is` for True, False and None: == would let 1 pass for True.
    return Constant(
        f"one of {', '.join(map(repr, values))}", lambda v: any(v is x or (isinstance(x, str) and v == x) for x in values), needed
    )


def _by_argument(constant: Constant) -> Constant:
    """Return a constant that may also be {parameter: {value: constant}}."""

    def fits(value: Any) -> bool:
        return constant.fits(value) or (_by_value(value) and all(map(constant.fits, next(iter(value.values())).values())))

    return Constant(constant.expected, fits, constant.needed)


TEXTS = Constant("a list of texts", _texts)
TEXT = Constant("a text", lambda v: isinstance(v, str))
TRUTH = Constant("True or False", lambda v: isinstance(v, bool))
NEEDS = Constant("a list of columns, or {parameter: column} with columns by an argument's value", _needs)
META = Constant('a list of keys, or of {"of": "parameter"}', _meta)
ASKED = ("each", "times", "requests", "pictures", "text", "attempts", "prompts", "only")
ASKS = Constant(
    f"a mapping of {', '.join(ASKED)}",
    lambda v: isinstance(v, Mapping) and v.get("each") in ("question", "image", "answer") and set(v) <= set(ASKED),
)
ONLY_WITH = Constant(
    "{parameter, or parameter=value: {other parameter: its values}}",
    lambda v: isinstance(v, Mapping) and all(isinstance(of, Mapping) and all(map(_texts, of.values())) for of in v.values()),
)
EVERYWHERE = {"ASKS": ASKS, "CITES": TEXTS, "ALSO_KNOWN_AS": TEXTS, "ASSETS": TEXTS, "SERVER": TEXT, "EXTRA": _one_of(*EXTRAS)}


@dataclass(frozen=True)
class Contract:
    """Positional parameters and constants of one kind of plugin."""

    takes: str
    """Positional parameters in words."""
    takes_these: Callable[[Collection[str]], str]
    """Check of the positional parameters; it returns the fault, or ""."""
    constants: Mapping[str, Constant] = field(default_factory=dict)
    of_parameters: Collection[str] = ()
    """Constants that list parameters."""


def _count_of(*counts: int) -> Callable[[Collection[str]], str]:
    return lambda names: "" if len(names) in counts else f"got {', '.join(names) or 'none'}"


def _without_context(names: Collection[str]) -> list[str]:
    own = list(names)
    return own[1:] if own[:1] == [CONTEXT] else own


def _two_columns(names: Collection[str]) -> str:
    own = _without_context(names)
    return "" if len(own) == 2 and CONTEXT not in own else f"got {', '.join(names) or 'none'}"


def _metric(names: Collection[str]) -> str:
    return "" if list(names)[-1:] == ["weights"] else f"got {', '.join(names) or 'none'}, and `weights` is not the last"


def _estimator(names: Collection[str]) -> str:
    own = _without_context(names)
    return "" if own and CONTEXT not in own else f"got {', '.join(names) or 'none'}"


def _judge(names: Collection[str]) -> str:
    own = _without_context(names)
    extra = set(own[3:]) - {"evidence", "choices"}
    return "" if len(own) >= 3 and not extra and CONTEXT not in own else f"got {', '.join(names) or 'none'}"


def _conformal(names: Collection[str]) -> str:
    own = list(names)
    return "" if len(own) == 1 or own[1:] == ["uniform"] else f"got {', '.join(own) or 'none'}"


_CONTEXT = Contract("(context)", _count_of(1))
CONTRACTS: dict[str, Contract] = {
    "datasets": Contract("(context)", _count_of(1), {"META": META}),
    "preparations": Contract("(context, samples)", _count_of(2), {"META": META}),
    "pairs": _CONTEXT,
    "perturbations": Contract(
        "(batch, rngs), or (context, batch, rngs)",
        _two_columns,
        {"MODALITY": _one_of(*MODALITIES, needed=True), "STRENGTHS": TEXTS, "KEEPS_ANSWER": TRUTH},
        ("STRENGTHS",),
    ),
    "models": Contract(
        "(context)", _count_of(1), {"GIVES": Constant("a list of columns that it gives", _gives), "ENGINE": TEXTS, "FOLDER": TEXT}
    ),
    "finetunes": Contract("(context)", _count_of(1), {"LOADS_WITH": TEXT}),
    "tunings": Contract("(model)", _count_of(1), {"ADAPTER": TRUTH}),
    "judges": Contract(
        "(questions, references, predictions), perhaps context before and evidence or choices behind",
        _judge,
        {
            "MARKS": TEXTS,
            "READS": TEXTS,
            "PEOPLE": Constant("a whole number above 0", lambda v: type(v) is int and v > 0),
            "DECIDES_ABSTENTIONS": TRUTH,
        },
    ),
    "estimators": Contract("columns of answers, perhaps context before", _estimator, {"NEEDS": NEEDS}),
    "calibrators": Contract("(score, right, weights, at)", _count_of(4), {"OPTIONS": TRUTH, "PROBABILITIES": TRUTH}),
    "conformal": Contract("(probs), perhaps uniform behind", _conformal),
    "metrics": Contract(
        "columns of scored answers, then weights",
        _metric,
        {
            "HIGHER_IS_BETTER": _by_argument(_one_of(True, False, None)),
            "NEEDS": NEEDS,
            "OVER": Constant("a column, or {parameter: column}", _over),
            "TEST": _one_of("exchange", "independence"),
            "TARGET": _one_of("1 - alpha"),
            "INTERVAL": _by_argument(_one_of("t", "proportion", "optimistic", "skewed", "correlation", "own", "none")),
            "WHY_NO_INTERVAL": _by_argument(TEXT),
            "CONTRASTS": _by_argument(_one_of("classes", "types", "none")),
            "ONLY_WITH": ONLY_WITH,
            "COMPARED_BY": TEXT,
            "ASSUMES": TEXT,
            "COMPANIONS": TEXTS,
            "ROW_BY_ROW": TRUTH,
            "INCREASES_WITH": TEXT,
        },
    ),
    "generators": _CONTEXT,
    "saliency": Contract("(context, folder, rows)", _count_of(3)),
    "masks": _CONTEXT,
    "inpainters": _CONTEXT,
    "abstentions": Contract("(fit)", _count_of(1)),
    "probes": Contract(
        "columns of answers",
        _estimator,
        {
            "NEEDS": NEEDS,
            "TARGET": Constant('"wrong", or {"high": "parameter that names an estimator"}', _target, needed=True),
            "BESIDE": TEXT,
        },
    ),
    "nli": _CONTEXT,
    "exports": Contract("(context)", _count_of(1), {"OF": _one_of("datasets", "answers", "results", "runs")}),
}
"""Contract of each kind; `runners/contracts/` and the `__init__.py` of the registry's kinds explain them in prose."""

_COLUMNS = {"metrics": of_metrics, "estimators": of_estimators, "probes": of_estimators}


def faults(
    kind: str, name: str, reads: Collection[str], parameters: Collection[str], declares: Mapping[str, Any], computed: Collection[str]
) -> Iterator[str]:
    """Yield each breach of a kind's contract; `computed` are constants but no literals."""
    contract = CONTRACTS[kind]
    if wrong := contract.takes_these(reads):
        yield f"{name}: expected positional parameters {contract.takes}; {wrong}"
    constants = {**EVERYWHERE, **contract.constants}
    for constant, rule in constants.items():
        if constant in computed:
            yield f"{constant}: expected {rule.expected}, written out as a literal; got an expression"
        elif constant not in declares and rule.needed:
            yield f"{constant}: expected {rule.expected}; it is missing"
        elif constant in declares and not rule.fits(declares[constant]):
            yield f"{constant}: expected {rule.expected}, got {shortened(declares[constant])}"
        elif constant in declares and constant in contract.of_parameters:
            for unknown in sorted(set(declares[constant]) - set(parameters)):
                yield f"{constant} names '{unknown}'; expected parameters of {name}: {', '.join(parameters) or 'none'}"
    if not _explained(declares.get("INTERVAL"), declares.get("WHY_NO_INTERVAL")):
        yield "WHY_NO_INTERVAL: expected where INTERVAL is 'none', and only there"
    for constant in ("SERVER", "BESIDE"):
        if isinstance(declares.get(constant), str) and declares[constant] not in parameters:
            yield f"{constant} names '{declares[constant]}'; expected a parameter of {name}: {', '.join(parameters) or 'none'}"


def _explained(interval: Any, why: Any) -> bool:
    """Return whether there is a reason exactly where there is no interval."""
    if not isinstance(interval, Mapping):
        return bool(interval == "none") == (why is not None)
    none = {parameter: {key for key, method in of.items() if method == "none"} for parameter, of in interval.items()}
    return bool(none == {parameter: set(of) for parameter, of in (why or {}).items()})


def unknown_columns(kind: str, name: str, reads: Collection[str]) -> Iterator[str]:
    """Yield a message for each unknown column that a metric, estimator or probe reads."""
    if kind not in _COLUMNS:
        return
    columns, prefixes = _COLUMNS[kind]()
    for column in reads:
        if column not in columns and not column.startswith(prefixes):
            near = difflib.get_close_matches(column, columns, 1, 0.6)
            hint = (
                f"did you mean '{near[0]}'?"
                if near
                else f"there are: {', '.join(sorted(columns))}" + "".join(f", {p}..." for p in prefixes)
            )
            yield f"{name} reads the column '{column}', which does not exist ({hint})"
