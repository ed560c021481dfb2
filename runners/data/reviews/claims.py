"""A data set's claims about a question beyond its answers: the subsets that it is in. Reviewers confirm or deny these too.

Lost without it: "valid" said of a question among those with a bad picture would hold on when another threshold puts it among the clean.
"""

from collections.abc import Callable, Mapping
from typing import Any

from qualm.registry.sample import SAMPLES, UNCERTAIN, Sample
from qualm.registry.where import ValueOfFieldError, Verdict, parse, verdict

MARKS = {"1": "uncertain", "0": "certain"}
"""By what `uncertain:` of a spec left in the meta."""


class ClaimError(Exception):
    """A subset cannot be told of a sample: which, and why."""


def claims(subsets: Mapping[str, str]) -> Callable[[Mapping[str, Any]], tuple[str, ...]]:
    """A function that gives what is claimed of a row of SAMPLES.

    It gives the names of those `subsets` (name -> expression of `qualm.registry.where`) whose expression holds, sorted. Where the
    card has no subsets: whether the question is meant to be `uncertain` or `certain`, where the spec says so, else nothing.

    The function raises ClaimError where an expression compares a text with a number.
    """
    verdicts: dict[str, Verdict] = {name: verdict(parse(text)) for name, text in sorted(subsets.items())}

    def of(row: Mapping[str, Any]) -> tuple[str, ...]:
        meta = dict(row["meta"] or ())
        if not verdicts:
            return (MARKS[meta[UNCERTAIN]],) if meta.get(UNCERTAIN) in MARKS else ()
        sample = Sample(**{**{name: row[name] for name in SAMPLES.names}, "meta": meta})
        try:
            return tuple(name for name, holds in verdicts.items() if holds(sample))
        except ValueOfFieldError as error:
            raise ClaimError(str(error)) from None

    return of
