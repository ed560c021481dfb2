"""Versions of the libraries that compute answers, and when versions count as equal."""

from collections.abc import Mapping
from functools import cache
from importlib import metadata
from importlib.metadata import PackageNotFoundError

LIBRARIES = ("torch", "torchvision", "transformers", "tokenizers", "numpy", "pillow", "jinja2")
"""Libraries whose versions may change an answer."""
BY_MINOR = frozenset({"torch", "torchvision", "transformers", "tokenizers"})
"""Libraries whose minor releases may change an answer; for the others only major releases may."""
EXACT, MINOR, ANY = ("exact", "minor", "any")
"""Which stored answers are used: of the same versions, of the same series (`series`), of any versions."""


@cache
def version(library: str) -> str:
    """Return a library's installed version, cached; PackageNotFoundError if not installed.

    Raises:
        PackageNotFoundError: it is not installed; this is looked up each time.
    """
    return metadata.version(library)


def library_versions() -> dict[str, str]:
    return {library: library_version(library) for library in LIBRARIES}


def library_version(library: str) -> str:
    """Return a library's installed version without build tag (+cpu, +cu130), or `absent`."""
    try:
        return version(library).partition("+")[0]
    except PackageNotFoundError:
        return "absent"


def series(library: str, version: str) -> str:
    """Return a version's series: `MAJOR.MINOR` for libraries in BY_MINOR, else `MAJOR`.

    >>> series("torch", "2.9.1"), series("pillow", "12.0.1"), series("numpy", "2.3.5")
    ('2.9', '12', '2')
    """
    return ".".join(version.split(".")[: 2 if library in BY_MINOR else 1])


def are_equal_versions(policy: str, versions: Mapping[str, str], stored: Mapping[str, str]) -> bool:
    """Return whether two library -> version mappings agree: EXACT, MINOR (`series`) or ANY."""
    if policy == ANY:
        return True
    if policy == EXACT:
        return dict(versions) == dict(stored)
    return {n: series(n, v) for n, v in versions.items()} == {n: series(n, v) for n, v in stored.items()}
