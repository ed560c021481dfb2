"""The leaderboard's scores are those of the files."""

from types import SimpleNamespace

import polars as pl

from qualm.compiler.viewing.board import board, ranked
from qualm.runners.results.results import Results


def decoded(made: dict) -> pl.DataFrame:
    columns = made["columns"]
    return pl.DataFrame(
        {n: [None if c < 0 else v["texts"][c] for c in v["codes"]] if isinstance(v, dict) else v for n, v in columns.items()}
    )


def test_every_score_with_its_interval(results: Results) -> None:
    made, written = board(results), results.table("scores")
    shown = decoded(made)
    assert made["n"] == written.height == shown.height
    assert shown["label"].to_list() == written["label"].to_list()
    for name in ("value", "low", "high"):
        same = pl.DataFrame({"a": shown[name], "b": written[name]}).filter(~(pl.col("a") - pl.col("b")).abs().lt(1e-6))
        assert same.select(pl.all_horizontal(pl.col("a").is_null(), pl.col("b").is_null() | pl.col("b").is_nan())).to_series().all()
    assert made["metrics"]["accuracy"] == {"title": "accuracy", "higher_is_better": True}
    assert made["estimators"]["max_sequence_probability"] == "max sequence probability"


def test_places_are_those_of_the_rankings(results: Results) -> None:
    """Of models by the metric's label, of estimators by the label without the estimator, each among those of its model."""
    where = {"dataset": "scenes", "variant": "clean", "slice": "all"}
    estimators = [
        {**where, "metric": "auroc", "among": "estimators", "model": "base", "candidate": name, "may_be_best": i < 1, "is_best": False}
        for i, name in enumerate(["mean_token_entropy", "max_sequence_probability"])
    ]
    models = [
        {**where, "metric": "accuracy", "among": "models", "model": None, "candidate": name, "may_be_best": i == 0, "is_best": i == 0}
        for i, name in enumerate(["base", "other"])
    ]
    both = [{**models[0], "among": "models and estimators", "candidate": "other/mean_token_entropy"}]
    rankings = pl.DataFrame(
        [
            row | {"p_adjusted": 0.5, "candidates": 2, "leader": "it", "not_comparable": False, "rank_low": 1, "rank_high": 2}
            for row in [*models, *estimators, *both]
        ]
    )
    scores = ranked(SimpleNamespace(scores=results.scores, tables=["rankings"], table=lambda name: rankings))  # type: ignore[arg-type]
    assert scores.height == results.scores.height
    placed = scores.filter(pl.col("rank").is_not_null()).select("model", "label", "rank", "may_be_best", "is_best").rows()
    assert set(placed) == {
        ("base", "accuracy", 1, True, True),
        ("other", "accuracy", 2, False, False),
        ("base", "auroc[mean_token_entropy]", 1, True, False),
        ("base", "auroc[max_sequence_probability]", 2, False, False),
    }


def test_ranks_are_within_one_ranking(results: Results) -> None:
    """A model that was asked a part of the questions is the first of its own ranking, not the third of both."""
    where = {"dataset": "scenes", "variant": "clean", "slice": "all", "metric": "accuracy", "among": "models", "model": None}
    facts = {
        "may_be_best": True,
        "is_best": False,
        "p_adjusted": 0.5,
        "candidates": 2,
        "not_comparable": False,
        "rank_low": 1,
        "rank_high": 2,
    }
    candidates = [("base", "base"), ("third", "base"), ("other", "other"), ("fourth", "other")]
    rankings = pl.DataFrame([where | facts | {"candidate": name, "leader": leader} for name, leader in candidates])
    scores = ranked(SimpleNamespace(scores=results.scores, tables=["rankings"], table=lambda name: rankings))  # type: ignore[arg-type]
    placed = scores.filter(pl.col("rank").is_not_null()).select("model", "rank", "leader").rows()
    assert set(placed) == {("base", 1, "base"), ("other", 1, "other")}


def test_an_estimator_of_a_setting_has_its_place_too() -> None:
    one = {"dataset": "d", "variant": "clean", "slice": "all", "model": "m", "estimator": "luq", "value": 0.5}
    scores = pl.DataFrame(
        [one | {"label": "auroc[luq]"}, one | {"label": "auroc[ours/luq]"}, one | {"label": "accuracy", "estimator": None}]
    )
    placed = ranked(SimpleNamespace(scores=scores, tables=[]))  # type: ignore[arg-type]
    assert placed["family"].to_list() == ["auroc", "auroc[ours]", "accuracy"]
