"""What every estimator says of a few answers, for each of its choices, held to tests/golden/estimators.json.

After a change that is meant: HELD=write pytest tests/runners/plugins/estimators/test_golden_estimators.py
"""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from qualm.registry.plugins import rule
from tests.runners.plugins.estimators import test_contract as contract
from tests.support.checks.held_numbers import held, outcome

OTHERS = {int: (1, 2), float: (0.25, 1.0), bool: (True, False)}


def settings_of(plugin):
    """The default, and each number or flag once at each of some other values."""
    default = {p.name: p.default for p in plugin.parameters}
    yield "default", default
    for parameter in plugin.parameters:
        kind = parameter.annotation
        kind = get_args(kind)[0] if hasattr(kind, "__metadata__") else kind
        choices = get_args(kind) if "Literal" in parameter.text else OTHERS.get(kind, ())
        for value in choices:
            if value != default[parameter.name]:
                yield f"{parameter.name}={value}", default | {parameter.name: value}


@pytest.mark.parametrize("name", rule.names("estimators"))
def test_no_number_of_an_estimator_moves_unseen(name):
    plugin, results = rule.get("estimators", name), {}
    for setting, arguments in settings_of(plugin):
        try:
            results[setting] = outcome(contract.apply, plugin, arguments, slice(None))
        except KeyError as error:
            results[setting] = f"reads {error}"  # columns that are not made up here
    held("estimators.json", name, results)


def test_the_made_up_answers_are_read_by_nearly_all():
    plugins = [rule.get("estimators", name) for name in rule.names("estimators")]
    values = [outcome(contract.apply, plugin, {p.name: p.default for p in plugin.parameters}, slice(None)) for plugin in plugins]
    assert sum(np.isfinite(of).sum() >= 3 for of in values if not isinstance(of, str)) >= len(values) - 2
