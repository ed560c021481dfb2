"""`qualm power`: from stored answers, from assumptions, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qualm.compiler.results import power
from qualm.compiler.results.power import Assumptions, DetectableDifference, detectable_differences, print_power, show_power
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.system.console import Console
from tests.compiler.results.test_compare import Checkout, checkout, flips

__all__ = ["checkout"]


def test_the_spread_is_that_of_stored_answers(checkout: Checkout) -> None:
    answers = {"a": flips(400, 0.6, 1), "b": flips(400, 0.7, 2)}
    checkout.add("s", answers)
    (row,) = detectable_differences(checkout, None, None, Assumptions(difference=0.05))  # type: ignore[arg-type]
    change = np.subtract(answers["b"], answers["a"])
    assert (row.source, row.pairs, row.questions, row.groups, row.metric) == ("answers", 1, 400, 400, "accuracy")
    assert row.standard_error == pytest.approx(change.std() / 20, rel=0.12)
    assert row.smallest_difference == pytest.approx(2.81 * row.standard_error, rel=0.01)
    assert row.questions_needed == pytest.approx((2.8 * change.std() / 0.05) ** 2, rel=0.25)
    (alone,) = detectable_differences(checkout, None, ["ece"], Assumptions(tests=60))  # type: ignore[arg-type]
    assert alone.metric == "ece" and alone.smallest_difference is not None


def test_assumed_where_answers_are_missing(checkout: Checkout) -> None:
    checkout.add("s", {"a": flips(400, 0.6, 1), "b": flips(400, 0.7, 2)}, groups=100)
    Path(checkout.root, "results/s/b.parquet").unlink()
    (row,) = detectable_differences(checkout, None, None, Assumptions(disagreement=0.2, within=0.5))  # type: ignore[arg-type]
    assert (row.source, row.questions, row.groups) == ("assumed", 400, 100)
    assert row.standard_error == pytest.approx(np.sqrt(0.2 / 400 * 2.5))
    Path(checkout.root, "results/s/data/samples.parquet").unlink()
    with pytest.raises(ProjectError, match="d: neither answers nor samples are here; name a number by --questions"):
        detectable_differences(checkout, None, None, Assumptions())  # type: ignore[arg-type]
    for more, groups, widening in (({}, 500, 1.0), ({"group_size": 5}, 100, 1.4), ({"group_size": 2000}, 1, None)):
        (named,) = detectable_differences(checkout, None, None, Assumptions(questions=500, **more))  # type: ignore[arg-type]
        assert (named.questions, named.groups) == (500, groups)
        assert named.standard_error == (widening and pytest.approx(np.sqrt(0.25 / 500 * widening)))


def test_printed(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    checkout.add("s", {"a": flips(60, 0.6, 1), "b": flips(60, 0.7, 2)}, groups=4)
    asked = Assumptions(difference=0.02)
    print_power(detectable_differences(checkout, None, None, asked), asked, Console(width=100))  # type: ignore[arg-type]
    out = capsys.readouterr().out
    assert "d · accuracy" in out and "the median over 1 pair of models" in out and "none: a test needs 5 groups" in out
    show_power(checkout, None, None, asked, True)  # type: ignore[arg-type]
    found = json.loads(capsys.readouterr().out)
    assert found["level"] == 0.05 and found["rows"][0]["smallest_difference"] is None


def test_models_that_answer_alike_show_no_spread(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    """A spread of 0 is none that was seen: it does not say that any difference would be found."""
    checkout.add("s", {"a": [1.0] * 60, "b": [1.0] * 60})
    (row,) = detectable_differences(checkout, None, None, Assumptions(difference=0.05))  # type: ignore[arg-type]
    assert (row.standard_error, row.smallest_difference, row.questions_needed) == (None, None, None)
    print_power([row], Assumptions(), Console(width=160))
    out = capsys.readouterr().out
    assert "unknown" in out and "show no spread" in out


def reach(**facts: Any) -> DetectableDifference:
    told = {"dataset": "d", "slice": "all", "metric": "accuracy", "questions": 1200, "groups": 1200, "source": "answers", "pairs": 3}
    found = {"standard_error": 0.01, "smallest_difference": 0.028, "questions_needed": 2400}
    return DetectableDifference(**{**told, **found, **facts})


def test_whole_tables(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = {"questions": 60, "smallest_difference": None, "questions_needed": None}
    rows = [
        reach(),
        reach(slice="color", groups=4, **nothing),
        reach(slice="count", groups=1, standard_error=None, **nothing),
        reach(slice="size", groups=20, standard_error=None, **nothing),
        reach(dataset="e", source="assumed", pairs=0),
    ]
    print_power(rows, Assumptions(difference=0.02, tests=4), Console(width=160))
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "d · accuracy",
        "slice      n  groups  standard error  smallest difference  needed",
        "all    1,200   1,200           0.010                0.028   2,400",
        "color     60       4           0.010                 none       ?",
        "count     60       1         unknown                 none       ?",
        "size      60      20         unknown              unknown       ?",
        "spread: of stored answers, the median over 3 pairs of models",
        "",
        "e · accuracy",
        "slice      n  groups  standard error  smallest difference  needed",
        "all    1,200   1,200           0.010                0.028   2,400",
        "spread: assumed, no stored answers of two models: they disagree on 0.25 of questions, correlation in groups 0.1; "
        "--disagreement and --within change that",
        "",
        "found with probability 0.8 by a paired test at two-sided 0.0125, .05 over 4 tests",
        "none: a test needs 5 groups",
        "unknown: the models' stored answers show no spread, or there are too few groups",
    ]
    print_power(rows[-1:], Assumptions(), Console(width=160))
    out = capsys.readouterr().out
    assert "needed" not in out and "unknown" not in out and "none:" not in out
    assert out.rstrip().endswith("two-sided 0.05; --tests N for a family of N tests")

    print_power([reach(source="assumed", groups=4, standard_error=None, **nothing)], Assumptions(), Console(width=160))
    out = capsys.readouterr().out
    assert "none: a test needs 5 groups" in out and "stored answers show no spread" not in out


def test_the_spread_of_three_models_is_the_median_over_their_pairs(checkout: Checkout) -> None:
    answers = {"a": flips(400, 0.6, 1), "b": flips(400, 0.7, 2), "c": flips(400, 0.99, 3)}
    checkout.add("s", answers)
    (row,) = detectable_differences(checkout, None, None, Assumptions())  # type: ignore[arg-type]
    spreads = [np.subtract(answers[x], answers[y]).std() / 20 for x, y in ("ab", "ac", "bc")]
    assert row.pairs == 3 and row.standard_error == pytest.approx(np.median(spreads), rel=0.05)


def test_a_spread_is_over_the_fewest_groups_of_what_is_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of models that were scored on different groups; what no row has, or no number is, counts as no model."""
    from qualm.runners.scoring.measuring import evaluate
    from qualm.runners.scoring.measuring.measured import Measured

    resampled = {"a": [0.0, 2.0], "b": [1.0, 1.0], "c": [0.0, 4.0]}
    values = {
        "a": Measured(1.0, np.array(resampled["a"]), 8, 0, groups=12),
        "b": Measured(1.0, np.array(resampled["b"]), 8, 0, groups=5),
        "c": Measured(2.0, np.array(resampled["c"]), 8, 0),
        "empty": Measured(1.0, np.array([5.0, 9.0]), 0, 8, groups=1),
        "undefined": Measured(np.nan, np.array([5.0, 9.0]), 8, 0, "no rows", groups=1),
    }
    monkeypatch.setattr(evaluate, "evaluate", lambda metrics, cell, part, every: [("m", values[cell.model])])
    part: Any = SimpleNamespace(label="all", bootstrap=SimpleNamespace(groups=6))

    def spreads(*models: str) -> list[DetectableDifference]:
        cells: Any = [SimpleNamespace(model=model, samples=SimpleNamespace(name="d")) for model in models]
        return power._spreads(part, None, cells, Assumptions())  # type: ignore[arg-type]

    (found,) = spreads(*values)
    assert (found.dataset, found.slice, found.metric, found.source) == ("d", "all", "m", "answers")
    assert (found.questions, found.groups, found.pairs) == (8, 5, 3)
    # The spreads of the pairs are 1, 1 and 2; five groups show less than there is, by the root of four fifths.
    assert found.standard_error == pytest.approx(1.25**0.5)
    (found,) = spreads("a", "c")
    assert (found.groups, found.pairs) == (6, 1) and found.standard_error == pytest.approx(1.2**0.5)
    assert spreads("a", "empty", "undefined") == [], "one model has nothing to differ from"
