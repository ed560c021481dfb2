"""Checks of what plugins return; an error names the file, the function, what was expected and what came."""

import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.registry.plugins.rule import Plugin
from qualm.runners.runtime.stage import PluginFailedError, StageError


def called(plugin: Plugin, where: str, function: Callable[[], Any], *passes: type[Exception]) -> Any:
    """Call a plugin and return its result.

    Args:
        where: model, dataset, sample: what it is called for.

    Raises:
        PluginFailedError: it raises any other exception.
    """
    try:
        return function()
    except Exception as error:
        if isinstance(error, (StageError, MemoryError, *passes)):
            raise
        place = f"{raised_at(plugin.path, error)}: {plugin.name}"
        raise PluginFailedError(f"{place}: failed on {where}: {type(error).__name__}: {error}") from error


def raised_at(file: str | Path, error: BaseException) -> str:
    """`FILE:LINE`: the last line of a plugin's own file that was at work when an error was raised, there or in what it calls.

    The file alone where none of its lines was: it was called otherwise than it can be.
    """
    own = Path(file).resolve()
    numbers = [number for frame, number in traceback.walk_tb(error.__traceback__) if Path(frame.f_code.co_filename).resolve() == own]
    return f"{file}:{numbers[-1]}" if numbers else str(file)


def file_of(module: str) -> str:
    """The file that a loaded module was read from; of one that is not loaded, where a package would have it."""
    return getattr(sys.modules.get(module), "__file__", None) or module.replace(".", "/") + ".py"


def numbers(plugin: Plugin, where: str, value: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return a float64 array of this shape; raise StageError for any other value."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = None
    if array is None or array.shape != shape:
        raise wrong(plugin, where, f"an array of float64 of shape {shape}", value)
    return array


def listed(plugin: Plugin, where: str, value: Any, n: int, kind: type, *others: type) -> Sequence[Any]:
    """Return a list of n things of a kind; raise StageError for any other value."""
    if not isinstance(value, list | tuple) or len(value) != n:
        raise wrong(plugin, where, f"a list of {n:,} of {kind.__name__}", value)
    for place, item in enumerate(value):
        if not isinstance(item, (kind, *others)):
            raise wrong(plugin, f"{where}, item {place}", f"a {kind.__name__}", item)
    return value


def perturbed(file: str, where: str, modality: str, source: Any, output: Any) -> Any:
    """Return a perturbed item: None, or of the source's kind, size and mode; else StageError."""
    if output is None:
        return None
    if modality == "cross":
        if not isinstance(output, tuple) or len(output) != 2:
            raise StageError(f"{file}: {where}: expected a picture and a question, got {described(output)}")
        return perturbed(file, where, "image", source[0], output[0]), perturbed(file, where, "text", source[1], output[1])
    if modality == "text":
        if not isinstance(output, str):
            raise StageError(f"{file}: {where}: expected a text, got {described(output)}")
        return output
    size, mode = getattr(output, "size", None), getattr(output, "mode", None)
    if source is not None and (size, mode) != (source.size, source.mode):
        raise StageError(f"{file}: {where}: expected {described(source)}, as the one it was given, got {described(output)}")
    return output


def wrong(plugin: Plugin, where: str, expected: str, value: Any) -> StageError:
    """The error of a plugin that gave something else than its kind does."""
    return StageError(f"{plugin.path}: {plugin.name}: {where}: expected {expected}, got {described(value)}")


def described(value: Any) -> str:
    """A value in a message: its type, its shape or length."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    if isinstance(value, list | tuple | dict | set):
        return f"a {kind} of {len(value):,}"
    if hasattr(value, "size") and hasattr(value, "mode"):
        return f"a picture of {value.size[0]} x {value.size[1]}, mode {value.mode}"
    text = repr(value)
    return f"the {kind} {text if len(text) <= 40 else text[:37] + '...'}"
