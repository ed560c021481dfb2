"""Claims of a dataset about a question beyond its answers: its subsets, which reviewers confirm or deny too.

They are part of what a decision is about: a changed threshold that moves a question to another subset invalidates the decision.
"""

from collections.abc import Callable, Mapping
from typing import Any

from qualm.registry.sample import SAMPLES, UNCERTAIN, Sample
from qualm.registry.where import ValueOfFieldError, Verdict, parse, verdict

MARKS = {"1": "uncertain", "0": "certain"}
"""Meta values that `uncertain:` of a spec leaves."""


class ClaimError(Exception):
    """Error that a subset expression cannot be evaluated for a sample."""


def claims_function(subsets: Mapping[str, str]) -> Callable[[Mapping[str, Any]], tuple[str, ...]]:
    """Return a function from a row of SAMPLES to the names of the subsets it is in, sorted.

    They are the names of those `subsets` (name -> expression of `qualm.registry.where`) whose expression holds; without subsets
    `uncertain` or `certain`, if the spec says so. The function raises ClaimError if an expression compares a text with a number.
    """
    verdicts: dict[str, Verdict] = {name: verdict(parse(text)) for name, text in sorted(subsets.items())}

    def claims_of(row: Mapping[str, Any]) -> tuple[str, ...]:
        meta = dict(row["meta"] or ())
        if not verdicts:
            return (MARKS[meta[UNCERTAIN]],) if meta.get(UNCERTAIN) in MARKS else ()
        sample = Sample(**{**{name: row[name] for name in SAMPLES.names}, "meta": meta})
        try:
            return tuple(name for name, holds in verdicts.items() if holds(sample))
        except ValueOfFieldError as error:
            raise ClaimError(str(error)) from None

    return claims_of
