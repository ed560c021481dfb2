"""Every number that a metric's module gives, over tables with ties, edges, gaps and infinities, held to tests/golden/metrics.json.

Oracles beside it say that the numbers are right; this says that none of them moves unseen, for any setting. After a change that is meant:
HELD=write pytest tests/runners/plugins/metrics/test_golden_metrics.py
"""

from __future__ import annotations

import inspect
import sys
from typing import get_args

import numpy as np
import pytest

from qualm.registry.plugins import rule
from qualm.registry.plugins.columns import columns as columns_of
from qualm.runners.scoring.bootstrap import Bootstrap
from tests.runners.plugins.metrics.test_contract import ARGS, columns
from tests.support.checks.held_numbers import held, outcome

HOOKS = ("why_undefined", "classes", "bounds")
OF_DEFINED = ("null_test", "least_error", "interval")
"""Of metrics that have a value over these rows, and of several groups."""
OTHERS = {int: (1, 3), float: (0.0, 0.3, 1.0, 2.5), bool: (True, False)}
"""Values of a number's or a flag's parameter, beside its default."""


def edged():
    """Few values, so that rows tie; confidences at the edges of bins; graded correctness; infinite uncertainties."""
    rng, n = np.random.default_rng(5), 36
    table = {name: of[:n].copy() for name, of in columns().items()}
    table["confidence"] = rng.choice([0.0, 0.2, 0.5, 0.6, 0.8, 1.0], n)
    table["correct"] = rng.choice([0.0, 0.3, 0.5, 0.6, 1.0], n)
    table["clean_correct"] = rng.choice([0.0, 0.5, 1.0], n)
    table["uncertainty"] = rng.choice([-1.0, 0.0, 0.5, np.inf], n)
    table["clean_uncertainty"] = rng.choice([-1.0, 0.0, 0.5, np.inf], n)
    table["uncertainty_change"] = rng.choice([-0.5, 0.0, 0.5], n)
    table["n_options"] = rng.choice([2.0, 3.0, 6.0], n)
    table["predicted"] = np.minimum(table["predicted"], table["n_options"] - 1)
    table["right_option"] = np.minimum(table["right_option"], table["n_options"] - 1)
    table["set_size"] = rng.choice([0.0, 1.0, 2.0], n)
    return table


def tables():
    mixed, some = columns(), edged()
    yield "mixed", mixed
    yield "edged", some
    for n in (1, 2, 5):
        yield f"{n} rows", {name: of[:n] for name, of in some.items()}
    for name, changes in {
        "all right": {"correct": 1.0, "pred_is_idk": 1.0, "gt_is_idk": 1.0, "uncertain": 1.0, "answerable": 1.0, "clean_correct": 1.0},
        "all wrong": {"correct": 0.0, "pred_is_idk": 0.0, "gt_is_idk": 0.0, "uncertain": 0.0, "answerable": 0.0, "clean_correct": 0.0},
        "all sure": {"confidence": 1.0, "uncertainty": 0.0, "clean_uncertainty": 0.0, "uncertainty_change": 0.0, "said": 0.0},
        "all calibrate": {"is_calibration": 1.0},
        "none calibrates": {"is_calibration": 0.0, "input_changed": 0.0},
    }.items():
        yield name, mixed | {column: np.full_like(mixed[column], value) for column, value in changes.items() if column in mixed}


def settings_of(plugin):
    """The default, and each parameter once at each of some other values."""
    needed = ARGS.get(plugin.name, {})
    default = {p.name: p.default for p in plugin.parameters} | needed
    yield "default", default
    for parameter in plugin.parameters:
        kind = parameter.annotation
        kind = get_args(kind)[0] if hasattr(kind, "__metadata__") else kind
        choices = get_args(kind) if "Literal" in parameter.text else OTHERS.get(kind, ())
        for value in choices:
            if value != default[parameter.name]:
                yield f"{parameter.name}={value}", default | {parameter.name: value}


def given_to(hook, arrays, table, group):
    """Positional arguments of a function beside the metric's own."""
    beside = {"group": group, "level": 0.9, "value": 0.8, "never_empty": np.ones(len(group)), "n_options": table["n_options"]}
    names = [p.name for p in inspect.signature(hook).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    return [arrays[name] if name in arrays else beside[name] for name in names]


# Numbers of torchmetrics are single precision of its release; they are held to it in test_torchmetrics.py.
@pytest.mark.parametrize("name", [name for name in rule.names("metrics") if name != "torchmetrics"])
def test_no_number_of_a_metric_moves_unseen(name):
    plugin, function = rule.get("metrics", name), rule.load("metrics", name)
    module, results = sys.modules[function.__module__], {}
    for setting, arguments in settings_of(plugin):
        told = ARGS.get(name, {}) if setting == "default" else arguments
        reads = {argument: column for argument, column in columns_of(plugin, arguments).items() if column != "weights"}
        for label, table in tables():
            if not set(reads.values()) <= set(table):
                continue
            arrays = {argument: table[column] for argument, column in reads.items()}
            n = len(next(iter(arrays.values())))
            group = np.arange(n) // 3
            (drawn,) = Bootstrap(group, 4, 1).blocks()
            whole = np.concatenate([np.ones((1, n)), np.asarray(drawn), np.zeros((1, n))])
            numbers = {"values": outcome(function, *arrays.values(), whole, **told)}
            defined = n > 3 and not isinstance(numbers["values"], str) and np.isfinite(numbers["values"][0])
            for hook in (getattr(module, hook) for hook in (*HOOKS, *(OF_DEFINED if defined else ())) if hasattr(module, hook)):
                own = {key: of for key, of in told.items() if key in inspect.signature(hook).parameters}
                numbers[hook.__name__] = outcome(hook, *given_to(hook, arrays, table, group), **own)
            results[f"{setting} | {label}"] = numbers
    held("metrics.json", name, results)
