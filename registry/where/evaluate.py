"""What an expression of `qualm.registry.where.parse` says of a sample: true, false, or undefined where something is missing."""

import re
from collections.abc import Callable

from qualm.registry.formats.picture_lists import COUNTED, picture_ids
from qualm.registry.sample import Sample
from qualm.registry.where.parse import ANY_KIND, FIELDS, META, All, Any, Node, Not, Operand, Relation, Truth, Value, Within

_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", re.ASCII)
_COMPARISONS: dict[str, Callable[[object, object], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,  # type: ignore[operator]
    "<=": lambda a, b: a <= b,  # type: ignore[operator]
    ">": lambda a, b: a > b,  # type: ignore[operator]
    ">=": lambda a, b: a >= b,  # type: ignore[operator]
}


class ValueOfFieldError(Exception):
    """A key of `meta` that is compared with a number and holds none."""


Verdict = Callable[[Sample], bool | None]
"""True, False, or None for undefined."""


def meta_keys(node: Node) -> set[str]:
    """The keys of `meta` that an expression names."""
    match node:
        case Relation(left, _, right):
            names = {left.name, right.name}
        case Within(left, _) | Truth(left):
            names = {left.name}
        case Not(of):
            return meta_keys(of)
        case All(parts) | Any(parts):
            return set().union(*map(meta_keys, parts))
    return {name.removeprefix(META) for name in names if name.startswith(META)}


def verdict(node: Node) -> Verdict:
    """The expression as a function of a sample.

    The function raises ValueOfFieldError where a key of `meta` is compared with a number and holds none.
    """
    match node:
        case Relation(left, sign, right):
            as_number = "number" in (left.holds, right.holds)
            return _compared(_value(left, as_number), _COMPARISONS[sign], _value(right, as_number), left.holds == right.holds == ANY_KIND)
        case Within(left, values):
            value, among = _value(left, values[0].holds == "number"), frozenset(v.value for v in values)
            return lambda sample: None if (found := value(sample)) is None else found in among
        case Truth(of):
            value = _value(of, False)
            return lambda sample: value(sample)  # type: ignore[return-value]
        case Not(of):
            inner = verdict(of)
            return lambda sample: None if (truth := inner(sample)) is None else not truth
        case All(parts):
            return _joined([verdict(p) for p in parts], False)
        case Any(parts):
            return _joined([verdict(p) for p in parts], True)


def _joined(parts: list[Verdict], decides: bool) -> Verdict:
    """`and` is decided by one False, `or` by one True; undefined where none decides and one is undefined."""

    def judge(sample: Sample) -> bool | None:
        result: bool | None = not decides
        for part in parts:
            truth = part(sample)
            if truth is decides:
                return decides
            if truth is None:
                result = None
        return result

    return judge


def _compared(
    left: Callable[[Sample], Value | None],
    compare: Callable[[object, object], bool],
    right: Callable[[Sample], Value | None],
    both_meta: bool,
) -> Verdict:
    def judge(sample: Sample) -> bool | None:
        a, b = left(sample), right(sample)
        if a is None or b is None:
            return None
        if both_meta and _NUMBER.fullmatch(str(a)) and _NUMBER.fullmatch(str(b)):
            return compare(float(a), float(b))
        return compare(a, b)

    return judge


def _value(operand: Operand, as_number: bool) -> Callable[[Sample], Value | None]:
    name, value = operand.name, operand.value
    if not name:
        return lambda _: value
    if name == COUNTED:
        return lambda sample: len(picture_ids(sample.image_id))
    if name in FIELDS:
        return lambda sample: getattr(sample, name)
    key = name.removeprefix(META)
    if not as_number:
        return lambda sample: sample.meta.get(key)

    def number(sample: Sample) -> float | None:
        text = sample.meta.get(key)
        if text is None:
            return None
        if not _NUMBER.fullmatch(text):
            raise ValueOfFieldError(
                f"sample '{sample.sample_id}': expected a number in {name}, got {text!r}; compare it with a text in quotes"
            )
        return float(text)

    return number
