"""Verbalised confidence: Lin, Hilton and Evans, "Teaching Models to Express Their Uncertainty in Words", TMLR 2022."""

import re

import numpy as np

from qualm.runners.contracts.estimators import Floats

CITES = ["lin2022teaching"]
NEEDS = ["said_confidence"]
_NUMBER = re.compile(r"\s*(?:about |around |approximately )?(\d+(?:\.\d+)?)\s*(%|percent\b)?\s*\.?\s*", re.IGNORECASE)


def verbalised_confidence(said_confidence: list[str]) -> Floats:
    """Return 1 minus the confidence that each reply states; NaN if it is no percentage.

    U = 1 - c/100 where c is the number in its reply to "How sure are you of that answer, from 0 to 100 percent?"; in [0, 1], higher = more
    uncertain. A reply is read if it is one number from 0 to 100, with or without "%" behind it or "about" before it; anything else is
    undefined and counted, never read as one half.

    Example: "85", "85%", "sure" give .15, .15, undefined.
    """
    return np.array([_read(reply) for reply in said_confidence], dtype=np.float64)


def _read(reply: str) -> float:
    match = _NUMBER.fullmatch(reply)
    number = float(match[1]) if match else np.nan
    return 1 - number / 100 if 0 <= number <= 100 else np.nan
