"""Results that a file in tests/golden/ holds a function to: numbers to nine digits, texts and order as they are.

After a change that is meant, `make update` or HELD=write pytest THE_TEST_FILE writes it; review the diff.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[2] / "golden"
FEW = 6
"""Numbers of an array that are kept one by one; of a longer one only sums that no change of one number or of the order leaves alone."""


def held(file: str, name: str, value: Any) -> None:
    """Compare a value with the entry of that name in a golden file."""
    path, plain = FOLDER / file, json.loads(json.dumps(as_plain(value), ensure_ascii=False))
    entries = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if os.environ.get("HELD") == "write" and (name not in entries or differing(entries[name], plain, name)):
        lines = [f"{json.dumps(key)}: {json.dumps(of, ensure_ascii=False)}" for key, of in sorted({**entries, name: plain}.items())]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        entries[name] = plain
    assert name in entries, f"nothing is held of {name!r} yet: run `make update`"
    differences = list(differing(entries[name], plain, name))
    assert not differences, "\n".join(differences[:20])


def outcome(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What a function gives, or the mistake that it names."""
    try:
        with np.errstate(all="ignore"):
            return function(*arguments, **named)
    except ValueError as error:
        return f"ValueError: {error}"


def as_plain(value: Any) -> Any:
    """Numbers, texts, lists and mappings that JSON can hold."""
    if isinstance(value, np.ndarray):
        return _of_array(value)
    if isinstance(value, float | np.floating):
        return _of_number(float(value))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): as_plain(of) for key, of in value.items()}
    return [as_plain(of) for of in value] if isinstance(value, list | tuple) else value


def _of_array(array: np.ndarray) -> Any:
    if not np.issubdtype(array.dtype, np.number) and array.dtype != np.bool_:
        return array.tolist()
    numbers = array.astype(np.float64).ravel()
    if len(numbers) <= FEW:
        return [as_plain(float(number)) for number in numbers]
    finite = np.where(np.isfinite(numbers), numbers, 0.0)
    places = np.sin(np.arange(1, len(numbers) + 1))
    sums = {"sum": finite.sum(), "by place": finite @ places, "not finite": (~np.isfinite(numbers)) @ places}
    return {"shape": list(array.shape), **{key: _of_number(float(number)) for key, number in sums.items() if number or key == "sum"}}


def _of_number(number: float) -> Any:
    return float(f"{number:.9g}") if math.isfinite(number) else str(number)


def differing(old: Any, new: Any, where: str) -> list[str]:
    """Where two plain values are apart by more than rounding."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return [line for key in old for line in differing(old[key], new[key], f"{where}/{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [line for k, (a, b) in enumerate(zip(old, new, strict=True)) for line in differing(a, b, f"{where}/{k}")]
    numbers = isinstance(old, int | float) and isinstance(new, int | float)
    same = math.isclose(old, new, rel_tol=1e-7, abs_tol=1e-9) if numbers else old == new
    return [] if same else [f"{where}: {old} -> {new}"]
