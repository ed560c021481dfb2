"""Qualm: benchmarks of what vision-language models know that they do not know, compiled to DVC pipelines.

`load` reads the results of a spec that was run; `score` and `compare` measure answers in any table; `qualm.estimators`, `qualm.metrics` and
`qualm.conformal` are the plugins as plain functions. None of these needs torch.

`qualm.compiler` turns specs into pipelines, `qualm.registry` says which data there are, `qualm.runners` runs stages. In the repository
these are links to the folders at its top level; an installed package holds the files themselves.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from qualm import conformal, estimators, metrics
    from qualm.compiler.results.array_columns import ArgumentError
    from qualm.compiler.results.array_scoring import compare, score
    from qualm.compiler.results.data_frames import Results, load
    from qualm.compiler.results.integrity import ChangedResultsWarning

__all__ = ["ArgumentError", "ChangedResultsWarning", "Results", "compare", "conformal", "estimators", "load", "metrics", "score"]

_PLACES = {
    **dict.fromkeys(("ChangedResultsWarning", "Results", "load"), "data_frames"),
    **dict.fromkeys(("compare", "score"), "array_scoring"),
    "ArgumentError": "array_columns",
}
"""What stands in which module of `qualm.compiler.results`; it is imported when it is asked for."""


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"qualm.compiler.results.{_PLACES[name]}"), name)
    if name in ("conformal", "estimators", "metrics"):
        return import_module(f"qualm.{name}")
    raise AttributeError(f"module 'qualm' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
