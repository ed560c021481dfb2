"""Load the results of a spec (`qualm.load`)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path

from qualm.compiler.project.checkout import Project
from qualm.compiler.results.integrity import ChangedResultsWarning as ChangedResultsWarning
from qualm.compiler.results.integrity import changed_results
from qualm.compiler.results.scores import read_spec_results
from qualm.runners.results.results import Results as Results


def load(spec: str | None = None, project: str | Path | None = None) -> Results:
    """Return the results of a spec that was run; reading a file changed since dvc.lock warns.

    Args:
        spec: Its name, or the path of its file; the project's default one without.
        project: A folder of the project; the working directory without.

    Returns:
        Tables as Polars data frames (`.to_pandas()` makes pandas of each), or as lazy frames (`scan`).

    Warns:
        ChangedResultsWarning: a file that is read differs from the hash that dvc.lock records, at each reading.

    Raises:
        ProjectError: there is no such project, spec or result; it says what to do.

    Example:
        >>> import qualm                                              # doctest: +SKIP
        >>> results = qualm.load("quickstart")                        # doctest: +SKIP
        >>> results.scores.filter(metric="accuracy")                  # doctest: +SKIP
        >>> results.answers("base", "scenes").filter(correct=0)       # doctest: +SKIP
    """
    return read_spec_results(Project(Path(project) if project is not None else None), spec, _warn)


def _warn(root: Path, paths: Iterable[str | Path]) -> None:
    for notice in changed_results(root, paths):
        warnings.warn(notice, ChangedResultsWarning, stacklevel=4)
