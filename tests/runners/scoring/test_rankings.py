"""Rankings: hand-made columns, and the error rates of what is called best by simulation."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.cells import Cell, Setting
from qualm.runners.scoring.measuring.evaluate import evaluate
from qualm.runners.scoring.measuring.measured import Measured, Slice
from qualm.runners.scoring.rankings import (
    BOTH,
    ESTIMATORS,
    MODELS,
    Candidate,
    Ranked,
    Rankings,
    family_of,
    normal_deviate,
    p_values,
    pair_rows,
    ranked,
    ranking_columns,
    ranking_resamples,
)
from tests.simulation.cells import metrics, model, samples

PLACE = ("d", "all", "accuracy", "clean", MODELS, "")


def resampled(values, times=400, seed=1):
    """Means of the columns of (n, k) values in shared resamples."""
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, len(values), (times, len(values)))
    return [
        Candidate(f"c{k}", float(values[:, k].mean()), values[picks, k].mean(axis=1).astype(np.float32), len(values))
        for k in range(values.shape[1])
    ]


def candidates(values, drawn, n, **more):
    return [Candidate(f"c{k}", value, of, n, **more) for k, (value, of) in enumerate(zip(values, drawn, strict=True))]


def study(cells, names, times=200):
    """Rows of the tables of cells over all questions."""
    rankings = Rankings(metrics(*names), 0.95, "study")
    part = Slice("all", np.arange(cells[0].samples.n), Bootstrap(cells[0].samples.groups, times, 3, "d", "all"))
    for cell in cells:
        rankings.add(cell, part, evaluate(rankings.metrics, cell, part), True, True)
    rankings.rank()
    return tuple(table.to_pylist() for table in rankings.tables())


def test_the_deviate_of_a_pair_is_that_of_the_paired_t_test():
    values = np.random.default_rng(2).normal([0, 0.3], 1, (60, 2))
    column = ranked(PLACE, True, resampled(values, 20_000), 60, 0.95)
    assert 2 * stats.norm.sf(column.z[0, 1]) == pytest.approx(stats.ttest_rel(values[:, 0], values[:, 1]).pvalue, rel=0.1)
    assert normal_deviate(np.array([2.26]), 9)[0] == pytest.approx(1.96, abs=0.01)


def test_with_few_groups_the_spread_is_that_of_the_groups_and_not_the_narrower_of_the_resamples():
    """Resamples of 8 groups vary by sqrt(7/8) of it: 7% less."""
    values = np.random.default_rng(2).normal([0, 0.6], 1, (8, 2))
    column = ranked(PLACE, True, resampled(values, 20_000), 8, 0.95)
    t = stats.t.isf(stats.norm.sf(column.z[0, 1]), 7)
    assert t == pytest.approx(abs(stats.ttest_rel(values[:, 0], values[:, 1]).statistic), rel=0.03)


def test_intervals_stay_where_values_can_be():
    drawn = np.random.default_rng(0).normal([[1.1], [3.9]], 0.5, (2, 500)).astype(np.float32)
    column = ranked(PLACE, False, candidates((1.1, 3.9), drawn, 40, bounds=(1, 4)), 40, 0.95)
    assert column.low[0] == 1 and column.high[1] == 4 and column.high[0] < 4 and column.low[1] > 1


def test_shares_are_compared_as_log_odds_half_a_question_away_from_all():
    """By hand: log odds, their spreads stretched by 1 / (p (1 - p)), p of who is always wrong or right being .5 / 50 from it."""
    values, n, groups = np.array([0.0, 0.75, 1.0]), 50, 40
    drawn = (values[:, None] + np.random.default_rng(1).normal(0, 0.02, (3, 400))).clip(0, 1).astype(np.float32)
    first, *others = candidates(values.tolist(), drawn, n)
    column = ranked(PLACE, True, [replace(first, n=20), *others], groups, 0.9)  # as many questions as the one with most has
    p = np.array([0.01, 0.75, 0.99])
    centred = (drawn - drawn.mean(axis=1, keepdims=True)) / (p * (1 - p))[:, None]

    def spread(of):
        return max(np.sqrt((of**2).mean()), np.quantile(np.abs(of), 0.99) / 2.5758)

    small = np.sqrt(groups / (groups - 1))
    pairs = [(0, 1), (0, 2), (1, 2)]
    size = np.array([abs(np.log(p[i] / (1 - p[i])) - np.log(p[j] / (1 - p[j]))) for i, j in pairs])
    error = np.array([spread(centred[i] - centred[j]) * small for i, j in pairs])
    z = np.minimum(stats.norm.isf(stats.t.sf(size / error, groups - 1)), size / np.sqrt(error**2 + size**2 / groups))
    assert [column.z[pair] for pair in pairs] == pytest.approx(z, rel=1e-4)
    highest = np.max([np.abs(centred[i] - centred[j]) / spread(centred[i] - centred[j]) for i, j in pairs], axis=0)
    assert column.highest == pytest.approx(highest, rel=1e-4)
    widest = np.quantile(np.max([np.abs(of) / spread(of) for of in centred], axis=0), 0.9)
    half = stats.t.isf(stats.norm.sf(widest), groups - 1) * small * np.array([spread(of) for of in centred])
    odds = np.log(p / (1 - p))
    assert column.low == pytest.approx(np.minimum(values, 1 / (1 + np.exp(half - odds))), rel=1e-4), "ends hold the value"
    assert column.high == pytest.approx(np.maximum(values, 1 / (1 + np.exp(-half - odds))), rel=1e-4)


def test_what_never_varies_has_no_interval_and_is_distinguished_from_nothing_that_does_not_either():
    drawn = np.vstack([np.full((2, 300), 3.0), np.random.default_rng(0).normal(5, 0.1, (1, 300))]).astype(np.float32)
    column = ranked(PLACE, True, candidates((3.0, 3.0, 5.0), drawn, 60), 60, 0.95)
    assert np.isnan(column.low).tolist() == np.isnan(column.high).tolist() == [True, True, False]
    rankings = Rankings(metrics("accuracy"), 0.95, "study")
    rankings.ranked = [column]
    assert [(row["candidate"], row["low"] is None, row["high"] is None) for row in rankings.tables()[0].to_pylist()] == [
        ("c2", False, False), ("c0", True, True), ("c1", True, True),
    ]  # fmt: skip
    assert column.z[0, 1] == 0 and column.z[0, 2] == column.z[1, 2] > 5 and (column.z == column.z.T).all()


def test_a_candidate_has_nine_tenths_of_its_resamples_and_a_value():
    (metric,) = metrics("accuracy")
    for gaps, is_one in ((0, True), (1, True), (2, False)):
        drawn = ranking_resamples(metric, Measured(0.5, np.r_[np.full(10 - gaps, 0.25), np.full(gaps, np.nan)], 9, 0))
        assert (drawn is not None) is is_one
        if drawn is not None:
            assert drawn.tolist() == [0.25] * (10 - gaps) + [0.5] * gaps, "the few undefined ones widen no spread"
    assert (
        ranking_resamples(metric, Measured(float("nan"), np.ones(10), 9, 0, "no rows"))
        is None
        is ranking_resamples(metric, Measured(0.5, np.empty(0), 9, 0))
    )
    assert ranking_resamples(metric, Measured(0.5, np.ones(10), 9, 0, why_no_interval="biased")) is None


def test_settings_that_differ_by_name_alone_are_ranked_alike():
    """One column is tested for both; each keeps its own name, and a setting with other calibration rows its own numbers."""
    rng, of = np.random.default_rng(5), samples(120, 60, 1)
    halves = {"half": np.arange(of.n) % 2, "same": np.arange(of.n) % 2, "other": 1 - np.arange(of.n) % 2}
    settings = {name: Setting(calibrates * 1.0) for name, calibrates in halves.items()}
    cells = [replace(model(of, rng, rng.normal(size=of.n)), model=name, settings=settings) for name in "abc"]
    rankings, _ = study(cells, ["accuracy"])
    rows = {name: [row | {"metric": ""} for row in rankings if row["metric"] == f"accuracy[{name}]"] for name in settings}
    assert len(rankings) == 12 and [row["candidate"] for row in rows["half"]] != []
    assert rows["half"] == rows["same"] != rows["other"]


def by_hand(p, higher=True, chance=(np.nan,) * 3, shares=(np.nan,) * 3):
    """A column of three candidates whose corrected p-values are given."""
    z = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]])
    values, n, ends = np.array([0.5, 0.75, 0.25]), np.array([30, 20, 40]), np.array([[0.1, 0.4], [-0.5, 0.0], [-0.75, -0.25]])
    place = ("d", "all", "auroc", "clean", ESTIMATORS, "m")
    return Ranked(
        place,
        higher,
        ("a", "b", "c"),
        values,
        n,
        z,
        values - 0.1,
        values + 0.1,
        np.zeros(9),
        np.zeros((3, 3)),
        np.array(chance),
        np.array(shares),
        ends,
    )


def test_a_row_for_every_pair():
    p = np.array([[1.0, 0.5, 0.25], [0.5, 1.0, 0.125], [0.25, 0.125, 1.0]])
    rows = list(pair_rows(by_hand(p), p))
    assert [(r["a"], r["b"], r["value_a"], r["value_b"], r["difference"], r["low"], r["high"], r["n"], r["p_adjusted"]) for r in rows] == [
        ("a", "b", 0.5, 0.75, 0.25, 0.1, 0.4, 20, 0.5), ("a", "c", 0.5, 0.25, -0.25, -0.5, 0.0, 30, 0.25),
        ("b", "c", 0.75, 0.25, -0.5, -0.75, -0.25, 20, 0.125),
    ]  # fmt: skip
    assert [r["p"] for r in rows] == pytest.approx([2 * stats.norm.sf(z) for z in (1, 2, 3)])


@pytest.mark.parametrize(("level", "told"), [(0.05, False), (0.049, True)])
def test_below_a_twentieth_the_best_is_distinguished(level, told):
    p = np.array([[1.0, level, 0.2], [level, 1.0, 0.01], [0.2, 0.01, 1.0]])
    columns = ranking_columns(by_hand(p), p)
    assert columns["candidate"] == ["b", "a", "c"] and columns["p_adjusted"] == [level, level, 0.01] and columns["n"] == [20, 30, 40]
    assert columns["may_be_best"] == [True, not told, False] and columns["is_best"] == [told, False, False]
    assert ranking_columns(by_hand(p, higher=False), p)["candidate"] == ["c", "a", "b"]


def test_columns_of_a_family_share_their_luck_in_whatever_order_they_came():
    rng = np.random.default_rng(0)
    columns = []
    for part, metric, spread in (("all", "a", 0.1), ("category=x", "a", 5.0), ("all", "b", 0.2)):
        drawn = (np.array([[1.0], [2.0]]) + spread * rng.standard_t(3, (2, 400))).astype(np.float32)
        columns.append(ranked(("d", part, metric, "clean", MODELS, ""), True, candidates((1.0, 2.0), drawn, 60), 60, 0.95))
    rankings = Rankings(metrics("accuracy"), 0.95, "slice")
    rankings.ranked = columns
    table = {(row["slice"], row["metric"]): row["p_adjusted"] for row in rankings.tables()[0].to_pylist()}
    both, alone = np.sort(np.maximum(columns[0].highest, columns[2].highest)), np.sort(columns[1].highest)
    assert table == {
        ("all", "a"): p_values(columns[0].z, both)[0, 1], ("all", "b"): p_values(columns[2].z, both)[0, 1],
        ("category=x", "a"): p_values(columns[1].z, alone)[0, 1],
    }  # fmt: skip


def test_columns_of_a_family():
    place = ("d", "category=x", "auroc", "clean", ESTIMATORS, "m")
    assert [family_of(place, span) for span in ("metric", "slice", "study")] == [place, ("d", "category=x"), ()]


def test_p_values_count_what_is_as_large():
    assert p_values(np.array([0.5, 3.0, 2.0]), np.array([1.0, 2.0, 2.5])) == pytest.approx([1.0, 0.25, 0.75])


def test_what_leads_what_may_and_what_cannot():
    rng = np.random.default_rng(4)
    difficulty, of = rng.random(300), samples(300, 300, 1)
    same = model(of, rng, difficulty * 0.6 + 0.4)
    cells = [Cell(name, of, "clean", dict(same.columns), {}, {}) for name in ("a", "b", "c")]
    cells[1].columns["correct"] = cells[0].columns["correct"].copy()
    cells[1].columns["correct"][np.flatnonzero(cells[1].columns["correct"])[:1]] = 0
    cells[2].columns["correct"] = cells[0].columns["correct"] * (rng.random(300) < 0.5)
    rows, pairs = study(cells, ["accuracy"])
    assert pairs == [] and [r["candidate"] for r in rows] == ["a", "b", "c"]
    assert [r["may_be_best"] for r in rows] == [True, True, False] and not any(r["is_best"] for r in rows)
    assert all(r["low"] < r["value"] < r["high"] for r in rows) and rows[2]["p_adjusted"] < 0.05 <= rows[1]["p_adjusted"]
    alone = study([cells[0], cells[2]], ["accuracy"])[0]
    assert [r["is_best"] for r in alone] == [True, False] and alone[0]["leader"] == alone[1]["leader"] == "a"


def test_the_first_of_equals_leads_whatever_its_last_digits():
    drawn = np.random.default_rng(5).normal(0.6, 0.05, 400).astype(np.float32)
    values = {"first": 0.6, "second": float(np.nextafter(0.6, 1)), "third": 0.3}
    column = ranked(PLACE, True, [Candidate(name, value, drawn, 50) for name, value in values.items()], 50, 0.95)
    columns = ranking_columns(column, np.ones((3, 3)))
    assert columns["candidate"] == ["first", "second", "third"] and set(columns["leader"]) == {"first"}


def test_what_does_not_look_is_ranked_among_no_models():
    """Two models have the ranking of two, whatever stands beside them; each row's own estimators are ranked."""
    rng = np.random.default_rng(6)
    of = samples(200, 200, 1)
    cells = [
        Cell(name, of, "clean", model(of, rng, np.full(200, 0.6)).columns, {}, {e: rng.random(200) for e in "xy"})
        for name in ("a", "b", "a+swapped_picture", "b+blind_refuser")
    ]
    rows, _ = study(cells, ["accuracy", "auroc"])
    alone, _ = study(cells[:2], ["accuracy", "auroc"])
    assert [r for r in rows if r["among"] in (MODELS, BOTH)] != []
    assert {r["candidate"].partition("/")[0] for r in rows if r["among"] in (MODELS, BOTH)} == {"a", "b"}
    assert {r["candidates"] for r in rows if r["among"] == MODELS} == {2}
    assert [r["value"] for r in rows if r["among"] == MODELS] == [r["value"] for r in alone if r["among"] == MODELS]
    assert {r["model"] for r in rows if r["among"] == ESTIMATORS} == {c.model for c in cells}


def test_lower_is_better_and_what_is_biased_or_has_no_direction_is_not_ranked():
    rng = np.random.default_rng(5)
    of = samples(200, 200, 1)
    cells = [Cell(f"m{k}", of, "clean", model(of, rng, np.full(200, 0.5 + 0.3 * k)).columns, {}, {}) for k in range(2)]
    cells[1].columns["confidence"] = np.full(200, 0.1)
    rows, _ = study(cells, ["brier", "ece", "idk_rate"])
    assert {r["metric"] for r in rows} == {"brier"} and rows[0]["candidate"] == "m0" and rows[0]["is_best"]


def test_few_groups_are_not_ranked():
    rng = np.random.default_rng(6)
    for groups, is_ranked in ((9, False), (19, False), (20, True)):
        of = samples(10 * groups, groups, 1)
        rows, _ = study([model(of, rng, np.full(groups, 0.5)) for _ in range(2)], ["accuracy"])
        assert bool(rows) is is_ranked, groups


def test_a_candidate_whose_value_hangs_on_few_groups_takes_no_power_from_other_pairs():
    values = np.random.default_rng(2).normal([0, 0.4, 0.2], 1, (60, 3))
    firm = resampled(values, 4000)
    column = ranked(PLACE, True, firm, 60, 0.95)
    shaky = ranked(PLACE, True, [*firm[:2], replace(firm[2], freedom=1.2)], 60, 0.95)
    assert shaky.z[0, 1] == column.z[0, 1] and shaky.z[0, 2] < 0.8 * column.z[0, 2]
    assert shaky.least_p[0, 1] == 0 < shaky.least_p[0, 2]
    assert (shaky.high - shaky.low)[:2] == pytest.approx((column.high - column.low)[:2])
    assert (shaky.high - shaky.low)[2] > 2 * (column.high - column.low)[2]


def test_the_interval_of_a_pair_is_that_of_the_paired_t_test():
    values = np.random.default_rng(2).normal([0, 0.6], 1, (20, 2))
    column = ranked((*PLACE[:4], ESTIMATORS, "m"), True, resampled(values, 20_000), 20, 0.95)
    expected = stats.ttest_rel(values[:, 1], values[:, 0]).confidence_interval()
    assert column.pair_ends[0] == pytest.approx([expected.low, expected.high], abs=0.02)


def test_with_few_groups_p_is_at_least_bonferronis():
    """Five candidates make ten pairs; with 50 groups ten times the p of the t test bounds it from below, with 51 nothing does."""
    values = np.random.default_rng(2).normal([0, 0, 0, 0, 0.5], 1, (50, 5))
    p = [stats.ttest_rel(values[:, i], values[:, 4]).pvalue for i in range(4)]
    few, more = (ranked(PLACE, True, resampled(values, 4000), groups, 0.95) for groups in (50, 51))
    assert few.least_p[4, :4] == pytest.approx(np.minimum(1, 10 * np.array(p)), rel=0.3) and not more.least_p.any()
    assert (few.least_p == few.least_p.T).all() and (few.least_p[few.z == 0] == 1).all()
    rankings = Rankings(metrics("accuracy"), 0.95, "metric")
    rankings.ranked = [few]
    rows = rankings.tables()[0].to_pylist()
    assert rows[0]["candidate"] == "c4" and rows[0]["p_adjusted"] >= few.least_p[4, :4].max()


def useless(rng, n=100, estimators=42, gain=0.0):
    of = samples(n, n, 1)
    cell = model(of, rng, np.full(n, 0.6))
    noise = {f"e{k}": rng.normal(size=n) for k in range(estimators)}
    noise["e0"] = noise["e0"] - gain * cell.columns["correct"]
    return Cell("m", of, "clean", cell.columns, {}, noise)


@pytest.mark.slow
def test_the_best_of_42_useless_estimators():
    """Clear of chance in no more than .05 of runs, allowing for the number of runs, and never told apart from all others."""
    rng, clear, told = np.random.default_rng(7), 0, 0
    for _ in range(40):
        rows, pairs = study([useless(rng)], ["auroc"])
        (best, *_) = [r for r in rows if r["among"] == ESTIMATORS]
        clear += best["low"] > 0.5
        told += any(p["p_adjusted"] < 0.05 for p in pairs)
        assert len(pairs) == 42 * 41 / 2 and {r["among"] for r in rows} == {ESTIMATORS, BOTH}
    assert clear / 40 <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 40) and told / 40 <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 40)


def test_a_useful_estimator_among_useless_ones_is_found():
    rows, pairs = study([useless(np.random.default_rng(8), 300, 10, 2.0)], ["auroc"])
    assert rows[0]["candidate"] == "e0" and rows[0]["is_best"] and rows[0]["low"] > 0.5
    assert all(p["p_adjusted"] < 0.05 and p["difference"] < 0 for p in pairs if p["a"] == "e0")
    assert all(p["low"] <= p["difference"] <= p["high"] for p in pairs)


@pytest.mark.parametrize(
    ("higher", "chance", "marked"),
    [(True, 0.5, ["b", "a"]), (True, 0.7, ["b"]), (True, 0.9, []), (False, 0.5, ["c", "a"]), (False, 0.1, [])],
)
def test_what_is_worse_than_chance_is_not_called_the_best(higher, chance, marked):
    p = np.full((3, 3), 0.5)
    of = ranking_columns(by_hand(p, higher, chance=[chance] * 3), p)
    assert [name for name, may in zip(of["candidate"], of["may_be_best"], strict=True) if may][: len(marked) or None] == marked
    assert of["chance"] == [chance] * 3 and of["scored_share"] == [None] * 3


def test_a_rank_lies_between_the_significantly_better_and_the_significantly_worse():
    """By hand: b leads c significantly, a is tied with both. p is corrected over all pairs, so the intervals hold at once."""
    p = np.full((3, 3), 0.5)
    p[1, 2] = p[2, 1] = 0.04
    of = ranking_columns(by_hand(p), p)
    ranks = {name: (low, high) for name, low, high in zip(of["candidate"], of["rank_low"], of["rank_high"], strict=True)}
    assert ranks == {"b": (1, 2), "a": (1, 3), "c": (2, 3)}
    assert ranking_columns(by_hand(p, shares=(1.0, 0.9, 1.0)), p)["rank_low"] == [None] * 3


def test_unequal_scored_shares_are_not_ranked():
    p = np.full((3, 3), 0.01)
    for shares, ranked_ in (((1.0, 0.99, 0.985), True), ((1.0, 0.97, 1.0), False), ((1.0, np.nan, 1.0), True)):
        of = ranking_columns(by_hand(p, shares=shares), p)
        assert (of["is_best"][0], of["not_comparable"][0]) == (ranked_, not ranked_) and any(of["may_be_best"]) is ranked_
