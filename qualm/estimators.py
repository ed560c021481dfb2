"""Uncertainty estimators as functions: `qualm.estimators.NAME(columns..., parameters)`, one uncertainty per answer.

The result is (n,), HIGHER = MORE UNCERTAIN, NaN where it is undefined. Columns are lists, arrays or series with one entry per answer;
`help(qualm.estimators.NAME)` says which it reads, `dir(qualm.estimators)` lists all, those of the project at hand among them.

Example:
    >>> import qualm
    >>> qualm.estimators.perplexity([[-0.1, -0.2], [-2.0]]).round(3).tolist()
    [0.15, 2.0]
    >>> texts = [["a cat", "a cat", "a dog"], ["red", "red", "red"]]
    >>> qualm.estimators.number_of_semantic_sets(texts, nli="lexical").tolist()
    [2.0, 1.0]
"""

from typing import Any

from qualm.compiler.results.array_functions import estimator, function_of
from qualm.registry.plugins import registry


def __getattr__(name: str) -> Any:
    return function_of("estimators", name, estimator)


def __dir__() -> list[str]:
    return registry.names("estimators")
