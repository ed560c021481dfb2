"""Safe reading of pickles; no other module opens one.

A pickle is a program: loading a hostile one runs it. This reader lets a pickle build plain Python values and arrays of
numbers, and refuses every other name before it is imported. Arrays are rebuilt here from their bytes, because numpy's own
reconstruction trusts what the pickle says of a dtype.
"""

from __future__ import annotations

import math
import pickle
import reprlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_BYTES = 2**30
"""Larger files are refused unread; the largest official recording is 15 MB."""


class UnpickleError(Exception):
    """Error of a refused or damaged pickle; names file, cause and remedy."""


class _RefusedError(Exception):
    """Error that a pickle asks for a forbidden class or array."""


def read_pickle(path: Path, max_bytes: int = MAX_BYTES) -> Any:
    """Return a pickle's plain values, number arrays as `Array`; UnpickleError if refused.

    Raises:
        UnpickleError: missing, too large, truncated or corrupt, or it names anything beyond numpy's array reconstruction.
    """
    try:
        size = path.stat().st_size
        if size > max_bytes:
            raise UnpickleError(f"{path}: {size:,} bytes; pickles above {max_bytes:,} are not opened")
        with path.open("rb") as handle:
            return _Restricted(handle).load()
    except OSError as error:
        raise UnpickleError(f"{path}: cannot be read: {error.strerror or error}") from error
    except _RefusedError as error:
        raise UnpickleError(
            f"{path}: refused: {error}. Only plain values and numpy arrays of numbers are read; ask for a file without it"
        ) from error
    except UnpickleError:
        raise
    except Exception as error:  # damaged bytes can make an unpickler raise anything
        raise UnpickleError(f"{path}: truncated or corrupt pickle ({type(error).__name__}: {error}); fetch the file again") from error


class Array:
    """Array of numbers from a pickle; `np.asarray(array)` gives its values."""

    def __init__(self) -> None:
        self.values: NDArray[Any] = np.empty(0)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.values.astype(dtype or self.values.dtype, copy=False)

    def __setstate__(self, state: tuple[int, tuple[int, ...], _Dtype, bool, bytes]) -> None:
        _, shape, kind, fortran, raw = state
        if not isinstance(kind, _Dtype) or not isinstance(raw, bytes):
            raise _RefusedError("it holds an array that is not of plain numbers")
        dtype = kind.dtype
        if math.prod(shape) * dtype.itemsize != len(raw):
            raise ValueError(f"an array of shape {shape} and dtype {dtype} in {len(raw)} bytes")
        self.values = np.frombuffer(raw, dtype).reshape(shape, order="F" if fortran else "C")


class _Dtype:
    """Stand-in for `numpy.dtype` in a pickle; refuses all but numeric types."""

    def __init__(self, name: str, *_: object) -> None:
        self.dtype = np.dtype(name) if isinstance(name, str) and len(name) <= 4 else np.dtype(object)
        if self.dtype.kind not in "biufc":
            raise _RefusedError(f"it holds an array of dtype {reprlib.repr(name)}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if any(part is not None for part in state[2:5]):
            raise _RefusedError("it holds a structured array")
        self.dtype = self.dtype.newbyteorder(state[1])


def _array(kind: object, *_: object) -> Array:
    if kind is not Array:
        raise _RefusedError("an array in it is no numpy.ndarray")
    return Array()


def _scalar(kind: _Dtype, raw: bytes) -> Any:
    if not isinstance(kind, _Dtype):
        raise _RefusedError(f"it holds a scalar of {reprlib.repr(kind)}")
    return np.frombuffer(raw, kind.dtype, 1)[0].item()


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("numpy._core.multiarray", "_reconstruct"): _array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("numpy", "ndarray"): Array,
    ("numpy", "dtype"): _Dtype,
}


class _Restricted(pickle._Unpickler):  # type: ignore[name-defined,misc]
    """Unpickler that builds only plain values and arrays of numbers.

    Python's own rather than the C one, which allocates as much memory as nine hostile bytes tell it to.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise _RefusedError(f"it asks for '{module}.{name}', and loading that could run code")
        return _ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise _RefusedError(f"it refers to an object outside itself ({reprlib.repr(pid)})")
