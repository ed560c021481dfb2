"""Which estimator `qualm show` calls the best, and what it says of the others, from rankings that the product itself made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from qualm.compiler.results.estimators import best_estimators, show_best_estimators
from qualm.runners.scoring import rankings


def ranked(values: dict[str, float], model: str = "m", metric: str = "auroc") -> list[dict[str, Any]]:
    """Rows of estimators whose values in 2,000 resamples scatter by .02, each by itself."""
    draw = np.random.default_rng(7)
    candidates = [
        rankings.Candidate(name, value, (value + draw.normal(0, 0.02, 2_000)).astype(np.float32), 400) for name, value in values.items()
    ]
    column = rankings.ranked(("d", "all", metric, "clean", rankings.ESTIMATORS, model), True, candidates, 100, 0.95)
    return pa.table(rankings.ranking_columns(column, rankings.p_values(column.z, np.sort(column.highest)))).to_pylist()


def score(metric: str, model: str = "m", **more: str) -> dict[str, Any]:
    return {"model": model, "dataset": "d", "variant": "clean", "slice": "all", "metric": metric} | more


def test_the_confidence_set_of_the_best_is_named() -> None:
    rows = [
        *ranked({"luq": 0.6, "perplexity": 0.79, "p_true": 0.8}),
        *ranked({"luq": 0.6, "perplexity": 0.9, "p_true": 0.6}, "n"),
        *ranked({"luq": 0.8, "perplexity": 0.5}, "m", "auarc[ours]"),
    ]
    shown = [score("auroc[p_true]"), score("auroc[perplexity]", "n"), score("auarc[ours/luq]")]
    assert list(best_estimators(rows, shown)) == [
        "d, m, auroc: best: p_true; may be best too: perplexity",
        "d, n, auroc: best: perplexity; significantly better than all 2 others",
        "d, m, auarc[ours]: best: luq; significantly better than the other",
    ]


def test_one_beaten_by_the_second_alone_is_not_in_the_set() -> None:
    """An estimator that is tied with the best may be significantly worse than the second, whose difference has less spread."""
    rows = ranked({"luq": 0.76, "perplexity": 0.8})
    assert [row["may_be_best"] for row in rows] == [True, True]
    rows[1]["may_be_best"] = False
    assert list(best_estimators(rows, [score("auroc[perplexity]")])) == [
        "d, m, auroc: best: perplexity; each of the others is significantly worse than a better one"
    ]


def test_only_of_scores_that_are_shown() -> None:
    rows = ranked({"luq": 0.6, "perplexity": 0.8})
    assert not list(best_estimators(rows, [score("auroc[perplexity]", variant="blur"), score("accuracy"), score("auroc[luq]", "n")]))
    assert not list(best_estimators([row | {"among": "models and estimators"} for row in rows], [score("auroc[perplexity]")]))


def test_printed_with_how_it_was_corrected(capsys: pytest.CaptureFixture[str]) -> None:
    show_best_estimators(ranked({"luq": 0.6, "perplexity": 0.8}), [score("auroc[perplexity]")], "study", Console(width=300))
    line, how = capsys.readouterr().out.splitlines()
    assert line == "d, m, auroc: best: perplexity; significantly better than the other"
    assert "max-T method over all tests of the study" in how
    show_best_estimators([], [], "study", Console(width=300))
    assert not capsys.readouterr().out
