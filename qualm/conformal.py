"""Conformal prediction: `calibrate` finds a threshold, its `sets` are the options let in; each nonconformity score is a function as well.

Example:
    >>> import qualm
    >>> qualm.conformal.lac([[0.7, 0.2, 0.1]]).round(1).tolist()
    [[0.3, 0.8, 0.9]]
"""

from typing import Any

from qualm.compiler.results.array_conformal import ConformalThreshold as ConformalThreshold
from qualm.compiler.results.array_conformal import calibrate as calibrate
from qualm.compiler.results.array_functions import function_of, score
from qualm.registry.plugins import registry


def __getattr__(name: str) -> Any:
    return function_of("conformal", name, score)


def __dir__() -> list[str]:
    return ["calibrate", *registry.names("conformal")]
