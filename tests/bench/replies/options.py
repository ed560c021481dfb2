"""No figures yet."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.replies.figures import Figure


def figures() -> Iterator[Figure]:
    """Yield the agreement with each set of replies."""
    yield from ()
