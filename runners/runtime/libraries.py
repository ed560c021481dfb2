"""Versions of the libraries that compute, and when another version counts as the same."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

LIBRARIES = ("torch", "torchvision", "transformers", "tokenizers", "numpy", "pillow", "jinja2")
"""Whose versions may change an answer: models, image processing, tokenisation, chat templates."""
BY_MINOR = frozenset({"torch", "torchvision", "transformers", "tokenizers"})
"""Those whose minor releases may move numbers or texts; of the others major releases may."""
EXACT, MINOR, ANY = POLICIES = ("exact", "minor", "any")
"""When stored answers of another version are used: the very same versions; the same series (`series`); always."""


def library_versions() -> dict[str, str]:
    return {library: library_version(library) for library in LIBRARIES}


def library_version(library: str) -> str:
    """The installed version; `absent` where there is none. The build (+cpu, +cu130) is left out: it depends on the machine."""
    try:
        return version(library).partition("+")[0]
    except PackageNotFoundError:
        return "absent"


def series(library: str, number: str) -> str:
    """The releases that count as the same by default: one minor series, or one major series.

    >>> series("torch", "2.9.1"), series("pillow", "12.0.1"), series("numpy", "2.3.5")
    ('2.9', '12', '2')
    """
    return ".".join(number.split(".")[: 2 if library in BY_MINOR else 1])


def same(policy: str, one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether what was computed with these versions counts as computed with the others."""
    if policy == ANY:
        return True
    if policy == EXACT:
        return dict(one) == dict(other)
    return {n: series(n, v) for n, v in one.items()} == {n: series(n, v) for n, v in other.items()}
