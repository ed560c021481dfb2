"""Rankings that come from the store are those that are made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.measuring import kept_rankings
from qualm.runners.scoring.measuring.cell_scores import Measuring
from qualm.runners.scoring.measuring.evaluate import evaluate
from qualm.runners.scoring.measuring.kept_rankings import Ranking
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.rankings import Rankings, ranked
from qualm.runners.stages.score import make_slices
from qualm.runners.store.scores import ScoreStore
from tests.runners.scoring.measuring.test_cell_scores import METRICS, TIMES, made_cell, made_samples

Rows = tuple[list[dict[str, Any]], list[dict[str, Any]]]
REFS = [ref for ref in METRICS if ref["label"] != "group_accuracy"]


def cells() -> list[Cell]:
    rng, base = np.random.default_rng(5), made_cell(made_samples())
    own = [base.columns | {"correct": rng.integers(0, 2, 60) * 1.0} for _ in range(2)]
    return [base, replace(base, model="n", columns=own[0]), replace(base, model="o", columns=own[1])]


def rows_of(models: list[Cell], store: ScoreStore | None, refs: list[dict[str, Any]] = REFS) -> Rows:
    slices = make_slices(models[0].samples, ["category"], TIMES, 7)
    measuring = Measuring(read_metrics(refs), 0.95, store)
    ranking = Ranking(Rankings(measuring.metrics, 0.95, "study"), store)
    for cell in models:
        ranking.add(measuring.measure(cell, slices))
    ranking.rank()
    return tuple(table.to_pylist() for table in ranking.rankings.tables())


def one_by_one(models: list[Cell]) -> Rows:
    """Without a store, as each value comes."""
    slices = make_slices(models[0].samples, ["category"], TIMES, 7)
    rankings = Rankings(read_metrics(REFS), 0.95, "study")
    for cell in models:
        for part in slices:
            values = [value for metric in rankings.metrics for value in evaluate([metric], cell, part)]
            rankings.add(cell, part, values, part.label == "all", True)
    rankings.rank()
    return tuple(table.to_pylist() for table in rankings.tables())


def test_rows_and_their_order_are_the_same_however_they_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ScoreStore("code", root=tmp_path)
    expected = one_by_one(cells())
    assert {row["among"] for row in expected[0]} == {"models", "estimators", "models and estimators"} and expected[1]
    assert rows_of(cells(), None) == expected
    assert rows_of(cells(), store) == expected

    def never(*_: Any) -> None:
        raise AssertionError("a ranking that was kept is made again")

    monkeypatch.setattr(kept_rankings, "ranked", never)
    assert rows_of(cells(), store) == expected


def test_a_model_more_and_another_order_are_ranked_anew(tmp_path: Path) -> None:
    store = ScoreStore("code", root=tmp_path)
    rows_of(cells()[:2], store)
    for models in (cells(), cells()[::-1], [cells()[0], replace(cells()[1], model="renamed")]):
        assert rows_of(models, store) == rows_of(models, None)


def test_a_metric_more_before_the_others_takes_its_place(tmp_path: Path) -> None:
    store = ScoreStore("code", root=tmp_path)
    rows_of(cells(), store, REFS[1:])
    assert rows_of(cells(), store) == rows_of(cells(), None)


def test_settings_that_differ_by_name_alone_are_ranked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    coverage = [ref for ref in METRICS if ref["label"] == "set_size"] or [{"label": "set_size", "plugin": "set_size", "args": {}}]
    one = [replace(cell, settings={"half": cell.settings["half"], "same": cell.settings["half"]}) for cell in cells()]
    one[1].settings["half"].scores["lac"]["set_size"][:10] += 1
    times = []
    monkeypatch.setattr(kept_rankings, "ranked", lambda *args: times.append(1) or ranked(*args))
    rankings, _ = rows_of(one, None, coverage)
    by_setting = {name: [row | {"metric": ""} for row in rankings if row["metric"] == f"set_size[{name}/lac]"] for name in ("half", "same")}
    assert by_setting["half"] == by_setting["same"] != []
    assert len({row["metric"] for row in rankings}) == 4 and len(times) == len({row["slice"] for row in rankings})


def test_other_code_of_this_module_ranks_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store's identity is the code of what makes scores, and that does not import how rankings are kept."""
    store, made = ScoreStore("code", root=tmp_path), []
    rows_of(cells(), store)
    ranked = kept_rankings.ranked
    monkeypatch.setattr(kept_rankings, "ranked", lambda *of: made.append(1) or ranked(*of))
    rows_of(cells(), store)
    assert not made
    monkeypatch.setattr(kept_rankings, "_code", lambda: "other")
    rows_of(cells(), store)
    assert made
