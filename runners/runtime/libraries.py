"""Versions of the libraries that compute answers, and when versions count as equal."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

LIBRARIES = ("torch", "torchvision", "transformers", "tokenizers", "numpy", "pillow", "jinja2")
"""Libraries whose versions may change an answer."""
BY_MINOR = frozenset({"torch", "torchvision", "transformers", "tokenizers"})
"""Libraries whose minor releases may change an answer; for the others only major releases may."""
EXACT, MINOR, ANY = ("exact", "minor", "any")
"""Which stored answers are used: of the same versions, of the same series (`series`), of any versions."""


def library_versions() -> dict[str, str]:
    return {library: library_version(library) for library in LIBRARIES}


def library_version(library: str) -> str:
    """Return the installed version without its build (+cpu, +cu130), or `absent`."""
    try:
        return version(library).partition("+")[0]
    except PackageNotFoundError:
        return "absent"


def series(library: str, number: str) -> str:
    """Return the part of a version that must be equal by default: minor or major series.

    >>> series("torch", "2.9.1"), series("pillow", "12.0.1"), series("numpy", "2.3.5")
    ('2.9', '12', '2')
    """
    return ".".join(number.split(".")[: 2 if library in BY_MINOR else 1])


def same(policy: str, one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Return True if a policy treats two sets of library versions as equal."""
    if policy == ANY:
        return True
    if policy == EXACT:
        return dict(one) == dict(other)
    return {n: series(n, v) for n, v in one.items()} == {n: series(n, v) for n, v in other.items()}
