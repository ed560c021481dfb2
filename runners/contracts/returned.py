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


def call_plugin(plugin: Plugin, where: str, function: Callable[[], Any], *expected_errors: type[Exception]) -> Any:
    """Return `function()`; raise PluginFailedError if the plugin raises an unexpected error.

    Args:
        where: model, dataset and sample of the call, for messages.

    Raises:
        PluginFailedError: it raises an exception other than `expected_errors`, StageError and MemoryError, which pass.
    """
    try:
        return function()
    except Exception as error:
        if isinstance(error, (StageError, MemoryError, *expected_errors)):
            raise
        place = f"{raised_at(plugin.path, error)}: {plugin.name}"
        raise PluginFailedError(f"{place}: failed on {where}: {type(error).__name__}: {error}") from error


def raised_at(file: str | Path, error: BaseException) -> str:
    """Return `FILE:LINE` of the last line of `file` in an error's traceback; `FILE` if none.

    Without such a line, as after a wrong call, only the file is returned.
    """
    resolved = Path(file).resolve()
    numbers = [number for frame, number in traceback.walk_tb(error.__traceback__) if Path(frame.f_code.co_filename).resolve() == resolved]
    return f"{file}:{numbers[-1]}" if numbers else str(file)


def file_of(module: str) -> str:
    """Return the path of a loaded module's file, else the path that its name suggests."""
    return getattr(sys.modules.get(module), "__file__", None) or module.replace(".", "/") + ".py"


def check_array(plugin: Plugin, where: str, value: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return a plugin's value as a float64 array; raise StageError if it has another shape."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last of a tensor that requires a gradient
        array = None
    if array is None or array.shape != shape:
        raise wrong_return(plugin, where, f"an array of float64 of shape {shape}", value)
    return array


def check_list(plugin: Plugin, where: str, value: Any, n: int, kind: type, *others: type) -> Sequence[Any]:
    """Return a plugin's value if it is a list of n items of these types; else StageError."""
    if not isinstance(value, list | tuple) or len(value) != n:
        raise wrong_return(plugin, where, f"a list of {n:,} of {kind.__name__}", value)
    for place, item in enumerate(value):
        if not isinstance(item, (kind, *others)):
            raise wrong_return(plugin, f"{where}, item {place}", f"a {kind.__name__}", item)
    return value


def check_perturbed(file: str, where: str, modality: str, source: Any, output: Any) -> Any:
    """Return `output`, a perturbed item or None; StageError if type, size or mode is wrong."""
    if output is None:
        return None
    if modality == "cross":
        if not isinstance(output, tuple) or len(output) != 2:
            raise StageError(f"{file}: {where}: expected an image and a question, got {describe_value(output)}")
        return check_perturbed(file, where, "image", source[0], output[0]), check_perturbed(file, where, "text", source[1], output[1])
    if modality == "text":
        if not isinstance(output, str):
            raise StageError(f"{file}: {where}: expected a text, got {describe_value(output)}")
        return output
    size, mode = getattr(output, "size", None), getattr(output, "mode", None)
    if source is not None and (size, mode) != (source.size, source.mode):
        raise StageError(f"{file}: {where}: expected {describe_value(source)}, as the one it was given, got {describe_value(output)}")
    return output


def wrong_return(plugin: Plugin, where: str, expected: str, value: Any) -> StageError:
    """Create the StageError for a plugin's return value that is not as expected."""
    return StageError(f"{plugin.path}: {plugin.name}: {where}: expected {expected}, got {describe_value(value)}")


def describe_value(value: Any) -> str:
    """Return a value's type with its shape, length or text, for messages."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    if isinstance(value, list | tuple | dict | set):
        return f"a {kind} of {len(value):,}"
    if hasattr(value, "size") and hasattr(value, "mode"):
        return f"an image of {value.size[0]} x {value.size[1]}, mode {value.mode}"
    text = repr(value)
    return f"the {kind} {text if len(text) <= 40 else text[:37] + '...'}"
