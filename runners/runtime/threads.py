"""Limit linear algebra to one thread: resampled products are small and machines are shared."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any


def one_thread() -> AbstractContextManager[Any]:
    """Return a context manager within which BLAS uses one thread."""
    import numpy  # noqa: F401 - only libraries that are loaded can be limited
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(1, "blas")
    return limits
