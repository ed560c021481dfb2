"""What plugins give back: something else than their kind gives is one line with file, function, expected and got."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qualm.registry.plugins import registry
from qualm.runners.contracts.returned import call_plugin, check_array, check_list, file_of, raised_at
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import StageError
from qualm.runners.scoring.apply_judge import Answered, judge
from qualm.runners.scoring.measuring.metrics import read_metrics
from tests.support.checks.plugin_files import made_up

PLUGIN = registry.get("metrics", "accuracy")


@pytest.mark.parametrize(
    ("value", "got"),
    [
        (0.5, "the float 0.5"),
        (None, "the NoneType None"),
        (np.zeros((2, 1)), "an array of float64 of shape (2, 1)"),
        ("x", "the str 'x'"),
        ({"a": 1}, "a dict of 1"),
        ([1, 2], "a list of 2"),
        ([10**400], "a list of 1"),
    ],
)
def test_no_numbers(value: Any, got: str) -> None:
    with pytest.raises(StageError) as caught:
        check_array(PLUGIN, "metric 'accuracy'", value, (1,))
    assert str(caught.value) == f"{PLUGIN.path}: accuracy: metric 'accuracy': expected an array of float64 of shape (1,), got {got}"


def test_numbers_are_taken() -> None:
    assert check_array(PLUGIN, "", [1], (1,)).dtype == np.float64


def test_no_list() -> None:
    with pytest.raises(StageError, match=r"expected a list of 2 of int, got a list of 1"):
        check_list(PLUGIN, "x", [1], 2, int)
    with pytest.raises(StageError, match=r"x, item 1: expected a int, got the str 'a'"):
        check_list(PLUGIN, "x", [1, "a"], 2, int)


def test_what_it_raises_names_it() -> None:
    def fails() -> None:
        raise KeyError("k")

    with pytest.raises(StageError, match=r"accuracy\.py: accuracy: failed on here: KeyError: 'k'"):
        call_plugin(PLUGIN, "here", fails)
    with pytest.raises(KeyError):
        call_plugin(PLUGIN, "here", fails, KeyError)


def test_the_last_line_of_the_plugins_own_that_was_at_work(tmp_path: Path) -> None:
    source = "import json\ndef plugin(text):\n    return inner(text) + 1\ndef inner(text):\n    return json.loads(text)\n"
    (tmp_path / "plugin.py").write_text(source)
    names: dict[str, Any] = {}
    exec(compile(source, str(tmp_path / "plugin.py"), "exec"), names)
    for words, line in (((), ""), (("{",), ":5"), ((None,), ":5")):
        with pytest.raises((TypeError, ValueError)) as caught:
            names["plugin"](*words)
        assert raised_at(tmp_path / "plugin.py", caught.value) == f"{tmp_path / 'plugin.py'}{line}"


def test_the_file_of_a_module() -> None:
    assert file_of("tests.support.checks.plugin_files").endswith("/tests/support/checks/plugin_files.py")
    assert file_of("qualm.not_there") == "qualm/not_there.py"


def test_a_metric_that_returns_a_float_is_one_line(tmp_path: Path) -> None:
    with made_up(tmp_path) as add:
        path = add("metrics", "mine", "def mine(correct, weights): return 0.5")
        (metric,) = read_metrics([{"label": "mine", "plugin": "mine", "args": {}}])
        with pytest.raises(StageError, match=r"mine: .* expected an array of float64 of shape \(1,\), got the float 0\.5") as caught:
            check_array(metric.plugin, "one value per resample", metric.function(np.ones(3), np.ones((1, 3))), (1,))
    assert str(path) in str(caught.value)


def test_a_judge_that_gives_something_else_is_one_line(tmp_path: Path) -> None:
    with made_up(tmp_path) as add:
        add("judges", "mine", "def mine(questions, references, predictions): return [1.0 for _ in questions]")
        from collections import Counter

        with pytest.raises(StageError, match=r"mine\.py: mine: judge 'm', item 0: expected a Judgement, got the float 1\.0"):
            judge({"label": "m", "plugin": "mine", "args": {}}, [Answered("q", ("a",), "a")], Settings(), Counter())
