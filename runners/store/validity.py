"""Validity of the numbers in stored answers.

Invalid numbers are stored as undefined. A stored answer with one is computed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from qualm.registry.formats.plausible import LEAST_LOGPROB, ROUNDING_TOLERANCE

MAX_ENTROPY = 30.0
"""Maximum entropy in nats; no vocabulary has so many tokens."""
_PROBABILITIES = ("p_yes", "p_true", "p_true_sampling")
_DIVERGENCES = ("image_divergence", "uniform_divergence")
_Mask = np.ndarray[Any, np.dtype[np.bool_]]


def find_invalid(table: pa.Table) -> Mapping[str, _Mask]:
    """Return, per column of stored parts, a mask of the rows with invalid numbers."""
    divergence, probability = _is_in(table["part"], *_DIVERGENCES), _is_in(table["part"], *_PROBABILITIES)
    # A divergence may be any number from 0 up; a log-probability lies between a plausible least and 0.
    least, most = (np.where(divergence, *ends) for ends in ((-ROUNDING_TOLERANCE, LEAST_LOGPROB), (np.inf, ROUNDING_TOLERANCE)))
    low, high = (np.where(probability, *ends) for ends in ((-ROUNDING_TOLERANCE, -np.inf), (1 + ROUNDING_TOLERANCE, np.inf)))
    none, largest = (np.full(table.num_rows, bound) for bound in (-ROUNDING_TOLERANCE, MAX_ENTROPY))
    tokens, entropies = (_lengths(table[name]) for name in ("logprobs", "entropies"))
    return {
        "logprobs": _out_of_bounds(table["logprobs"], least, most),
        # Log-probabilities and entropies are of the same tokens, so where both are there their counts must agree.
        "entropies": _out_of_bounds(table["entropies"], none, largest) | ((tokens >= 0) & (entropies >= 0) & (tokens != entropies)),
        "numbers": _out_of_bounds(table["numbers"], low, high),
    }


def drop_invalid(table: pa.Table) -> pa.Table:
    """Return the rows without invalid numbers."""
    bad = np.logical_or.reduce(list(find_invalid(table).values()))
    return table.filter(pa.array(~bad)) if bad.any() else table


def nullify_invalid(table: pa.Table) -> pa.Table:
    """Replace invalid numbers by null."""
    for name, mask in find_invalid(table).items():
        if mask.any():
            at = table.schema.get_field_index(name)
            table = table.set_column(at, table.schema.field(at), pc.if_else(pa.array(mask), None, table[name]))
    return table


def _is_in(column: pa.ChunkedArray, *words: str) -> _Mask:
    mask: _Mask = pc.is_in(column, pa.array(words)).to_numpy()
    return mask


def _lengths(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Return the length of each list; -1 for null."""
    lengths: np.ndarray[Any, Any] = pc.fill_null(pc.list_value_length(column), -1).to_numpy()
    return lengths


def _out_of_bounds(column: pa.ChunkedArray, low: np.ndarray[Any, Any], high: np.ndarray[Any, Any]) -> _Mask:
    """Return the rows with a value outside their bounds or not finite."""
    rows = pc.list_parent_indices(column).to_numpy()
    values = pc.list_flatten(column).to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        # ROUNDING_TOLERANCE lies in the bounds: rounding may push a probability a hair above 1, and such an answer is not wrong.
        bad = ~np.isfinite(values) | (values < low[rows]) | (values > high[rows])
    mask = np.zeros(len(low), bool)
    mask[rows[bad]] = True
    return mask
