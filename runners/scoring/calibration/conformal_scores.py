"""Scores of a setting's nonconformity plugin, and the random number that some read of every question."""

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from qualm.registry.plugins import registry
from qualm.registry.plugins.column_names import UNIFORM
from qualm.runners.contracts.returned import call_plugin, check_array
from qualm.runners.data.aligned import Samples
from qualm.runners.data.calibration_split import Floats
from qualm.runners.scoring.last_value import LastValue

_LAST_NUMBERS = LastValue[Floats]()


def option_scores(setting: Mapping[str, Any], ref: Mapping[str, Any], probs: Floats, samples: Samples, where: str) -> Floats:
    """Return (n, K) nonconformity scores of all options, by a setting's conformal plugin.

    `ref` is one of the setting's scores, and `probs` (n, K) has the rows of `samples`, of each of which some scores read a random number.
    """
    plugin, function = registry.get("conformal", ref["plugin"]), registry.load("conformal", ref["plugin"])
    more = [uniform_numbers(samples, setting["calibration"]["seed"])] if UNIFORM in plugin.reads else []
    returned = call_plugin(plugin, where, partial(function, probs, *more, **ref["args"]))
    return check_array(plugin, where, returned, probs.shape)


def uniform_numbers(samples: Samples, seed: int) -> Floats:
    """Return (n,) numbers in [0, 1) that depend only on sample ids, dataset name and seed."""
    return _LAST_NUMBERS.get(samples, lambda: _numbers(samples, seed), seed)  # the same for every model


def _numbers(samples: Samples, seed: int) -> Floats:
    texts = (json.dumps(["conformal", seed, samples.name, name], ensure_ascii=False) for name in samples.ids.to_pylist())
    # 48 bits fit a double exactly, so the result is below 1.
    return np.array([int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48 for text in texts])
