"""Check what plugins return; errors name the file, the function, the expectation and the value."""

import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.registry.plugins.registry import Plugin
from qualm.runners.runtime.stage import PluginFailedError, StageError


def called(plugin: Plugin, where: str, function: Callable[[], Any], *passes: type[Exception]) -> Any:
    """Call a plugin and return its result.

    Args:
        where: model, dataset and sample of the call, for messages.

    Raises:
        PluginFailedError: it raises an exception other than `passes`.
    """
    try:
        return function()
    except Exception as error:
        if isinstance(error, (StageError, MemoryError, *passes)):
            raise
        place = f"{raised_at(plugin.path, error)}: {plugin.name}"
        raise PluginFailedError(f"{place}: failed on {where}: {type(error).__name__}: {error}") from error


def raised_at(file: str | Path, error: BaseException) -> str:
    """Return `FILE:LINE` of the last line of a plugin's file in a traceback.

    Without such a line, as after a wrong call, only the file is returned.
    """
    resolved = Path(file).resolve()
    numbers = [number for frame, number in traceback.walk_tb(error.__traceback__) if Path(frame.f_code.co_filename).resolve() == resolved]
    return f"{file}:{numbers[-1]}" if numbers else str(file)


def file_of(module: str) -> str:
    """Return the file of a module, or its expected path if it is not loaded."""
    return getattr(sys.modules.get(module), "__file__", None) or module.replace(".", "/") + ".py"


def numbers(plugin: Plugin, where: str, value: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Convert to a float64 array of a shape; raise StageError for any other value."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = None
    if array is None or array.shape != shape:
        raise wrong(plugin, where, f"an array of float64 of shape {shape}", value)
    return array


def listed(plugin: Plugin, where: str, value: Any, n: int, kind: type, *others: type) -> Sequence[Any]:
    """Check a list of n items of a type; raise StageError for any other value."""
    if not isinstance(value, list | tuple) or len(value) != n:
        raise wrong(plugin, where, f"a list of {n:,} of {kind.__name__}", value)
    for place, item in enumerate(value):
        if not isinstance(item, (kind, *others)):
            raise wrong(plugin, f"{where}, item {place}", f"a {kind.__name__}", item)
    return value


def perturbed(file: str, where: str, modality: str, source: Any, output: Any) -> Any:
    """Check a perturbed item's kind, size and mode; else raise StageError."""
    if output is None:
        return None
    if modality == "cross":
        if not isinstance(output, tuple) or len(output) != 2:
            raise StageError(f"{file}: {where}: expected an image and a question, got {described(output)}")
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
    """Create the error for a return value of a wrong kind."""
    return StageError(f"{plugin.path}: {plugin.name}: {where}: expected {expected}, got {described(value)}")


def described(value: Any) -> str:
    """Describe a value in a message: type and shape or length."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    if isinstance(value, list | tuple | dict | set):
        return f"a {kind} of {len(value):,}"
    if hasattr(value, "size") and hasattr(value, "mode"):
        return f"an image of {value.size[0]} x {value.size[1]}, mode {value.mode}"
    text = repr(value)
    return f"the {kind} {text if len(text) <= 40 else text[:37] + '...'}"
