"""Impossible numbers: values from servers and logs are checked when they are read; those that fail are undefined and counted.

A log-probability above 0 gives a P(True) of 148 and a negative entropy, and no later step can tell. Each function takes values as they
came and gives them as floats, or a `ImplausibleReason`:

    log_probabilities   finite and at most 0
    probability         finite, from 0 to 1
    at_least_zero       finite: entropies, divergences
    finite              logits
    finite_number       one number
    option_logits       logits of options, of which -Infinity rules one out
    option_log_probabilities   the same, at most 0
    top_log_probabilities   of each position, at most 0 and highest first
    top_token_texts     of each position, texts
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MIN_LOGPROB = -9000.0
"""Lowest log-probability; servers use lower values for "none" (OpenAI, vLLM: -9999)."""
RULED_OUT = -10_000.0
"""The logit of an option that was logged at -Infinity, below the least of the others."""
ROUNDING_TOLERANCE = 1e-5
"""Largest excess of a probability or log-probability that counts as rounding and is removed."""
SUM_TOLERANCE = 1e-2


class ImplausibleReason(str):
    """Reason why values are impossible, returned in their place; a str."""

    __slots__ = ()


def log_probabilities(values: Any) -> list[float] | ImplausibleReason:
    """Return floats, rounding above 0 cut to 0; ImplausibleReason if higher or not finite.

    >>> log_probabilities([-0.5, 0]), log_probabilities([0.00001]), log_probabilities([-1.0, 5.0])
    ([-0.5, 0.0], [0.0], 'a log-probability above 0: 5.0')
    """
    floats = finite(values)
    if isinstance(floats, ImplausibleReason):
        return floats
    above = next((v for v in floats if v > ROUNDING_TOLERANCE), None)
    return [min(v, 0.0) for v in floats] if above is None else ImplausibleReason(f"a log-probability above 0: {above!r}")


def top_log_probabilities(values: Any) -> list[list[float]] | ImplausibleReason:
    """Return log-probabilities by position; ImplausibleReason unless each is highest first.

    >>> top_log_probabilities([[-0.1, -3], [0.0]]), top_log_probabilities([[-3.0, -0.1]])
    ([[-0.1, -3.0], [0.0]], 'not highest first: [-3.0, -0.1]')
    """
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        return ImplausibleReason(f"not a list of lists: {values!r:.40}")
    positions = []
    for value in values:
        position = log_probabilities(value)
        if isinstance(position, ImplausibleReason):
            return position
        if position != sorted(position, reverse=True):
            return ImplausibleReason(f"not highest first: {position!r:.40}")
        positions.append(position)
    return positions


def top_token_texts(values: Any) -> list[list[str]] | ImplausibleReason:
    """Return a list of token texts per position; ImplausibleReason if not lists of texts.

    >>> top_token_texts([["a", ""], ["b"]]), top_token_texts([["a", 1]])
    ([['a', ''], ['b']], "not lists of texts: [['a', 1]]")
    """
    if not isinstance(values, list) or not all(isinstance(row, list) and all(isinstance(text, str) for text in row) for row in values):
        return ImplausibleReason(f"not lists of texts: {values!r:.40}")
    return values


def option_logits(values: Any) -> list[float] | ImplausibleReason:
    """Return one finite logit per option, -inf as min(0, others) - 10,000; or a reason.

    Tools log -Infinity for an option that cannot be generated (a masked token, an underflow). Where all options have it, none is preferred:
    they come out equal.

    >>> option_logits([-1, float("-inf")]), option_logits([float("-inf")] * 2), option_logits([-1, float("nan")])
    ([-1.0, -10001.0], [-10000.0, -10000.0], 'not finite: nan')
    """
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        return finite(values)
    kept = finite([v for v in values if not (isinstance(v, float) and v == -math.inf)])
    if isinstance(kept, ImplausibleReason):
        return kept
    ruled_out, numbers = min([0.0, *kept]) + RULED_OUT, iter(kept)
    return [ruled_out if isinstance(v, float) and v == -math.inf else next(numbers) for v in values]


def option_log_probabilities(values: Any) -> list[float] | ImplausibleReason:
    """Return one log-probability per option, -inf as min(0, others) - 10,000; or a reason.

    >>> option_log_probabilities([0.00001, float("-inf")]), option_log_probabilities([1.0, 0.0])
    ([0.0, -10000.0], 'a log-probability above 0: 1.0')
    """
    logits = option_logits(values)
    return logits if isinstance(logits, ImplausibleReason) else log_probabilities(logits)


def probability(value: Any) -> float | ImplausibleReason:
    """Return the float, clamped to 0..1 if a rounding error outside; else ImplausibleReason.

    >>> probability(0.5), probability(1.00001), probability(148), probability("x")
    (0.5, 1.0, 'a probability of 148.0', "not a number: 'x'")
    """
    floats = finite([value])
    if isinstance(floats, ImplausibleReason):
        return floats
    if -ROUNDING_TOLERANCE <= floats[0] <= 1 + ROUNDING_TOLERANCE:
        return min(max(floats[0], 0.0), 1.0)
    return ImplausibleReason(f"a probability of {floats[0]!r}")


def at_least_zero(values: Any) -> list[float] | ImplausibleReason:
    """Return floats, rounding below 0 set to 0; ImplausibleReason if lower or not finite.

    >>> at_least_zero([0.5, -0.00001]), at_least_zero([-2226])
    ([0.5, 0.0], 'below 0: -2226.0')
    """
    floats = finite(values)
    if isinstance(floats, ImplausibleReason):
        return floats
    below = next((v for v in floats if v < -ROUNDING_TOLERANCE), None)
    return [max(v, 0.0) for v in floats] if below is None else ImplausibleReason(f"below 0: {below!r}")


def finite(values: Any) -> list[float] | ImplausibleReason:
    """Return a list's numbers as floats; ImplausibleReason unless all are finite numbers.

    >>> finite([1, -2.5]), finite([float("nan")]), finite([10**400]), finite(None), finite([True])
    ([1.0, -2.5], 'not finite: nan', 'not finite: a number of 401 digits', 'not a list of numbers: None', 'not a number: True')
    """
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        return ImplausibleReason(f"not a list of numbers: {values!r:.40}")
    for value in values:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return ImplausibleReason(f"not a number: {value!r:.40}")
        if isinstance(value, int) and value.bit_length() > 1000:
            digits = len(str(abs(value))) if value.bit_length() < 10_000 else "thousands of"
            return ImplausibleReason(f"not finite: a number of {digits} digits")
        if not math.isfinite(value):
            return ImplausibleReason(f"not finite: {value!r}")
    return [float(value) for value in values]


def finite_number(value: Any) -> float | ImplausibleReason:
    """Return a number as float; ImplausibleReason unless it is finite.

    >>> finite_number(7), finite_number(float("nan"))
    (7.0, 'not finite: nan')
    """
    floats = finite([value])
    return floats if isinstance(floats, ImplausibleReason) else floats[0]


def check_lengths(values: Mapping[str, Iterable[Any]]) -> ImplausibleReason | None:
    """Return ImplausibleReason if the named lists differ in length, else None.

    >>> check_lengths({"logprobs": [-1, -2], "entropies": [1]})
    'lengths that disagree: logprobs 2, entropies 1'
    """
    lengths = {name: len(list(value)) for name, value in values.items()}
    if len(set(lengths.values())) < 2:
        return None
    return ImplausibleReason("lengths that disagree: " + ", ".join(f"{name} {n}" for name, n in lengths.items()))
