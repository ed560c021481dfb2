"""Differences between two models, against scipy, plain loops and multiple-testing corrections of statsmodels' examples."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from qualm.registry.sample import COMPARISONS, SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.runtime.records import read_table
from qualm.runners.scoring import paired_tests
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.cells import Cell, Setting
from qualm.runners.scoring.families import Family
from qualm.runners.scoring.measuring.evaluate import evaluate
from qualm.runners.scoring.measuring.intervals import intervals
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.paired_tests import compare, pairs_of
from qualm.runners.scoring.recalibration.fits import Recalibration
from qualm.runners.stages import score
from qualm.runners.stages.score import Slice, make_slices
from tests.support.projects.stages import ref


def cell(model, correct, confidence=None, per_group=1, uncertainty=None):
    n = len(correct)
    rows = [{"sample_id": f"s{i}", "group": f"g{i // per_group}", "question": "?", "answerable": True} for i in range(n)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    columns = {"correct": np.array(correct, dtype=float), "confidence": np.full(n, 0.5) if confidence is None else np.array(confidence)}
    columns |= {"answerable": samples.answerable, "fold": samples.fold}
    return Cell(model, samples, "clean", columns, {}, {} if uncertainty is None else {"u": np.array(uncertainty)})


def whole(samples, times=200):
    return make_slices(samples, [], times, 7)[0]


def run(metric, a, b, permutations=10_000, times=200):
    (found,) = compare(read_metrics([metric]), a, b, whole(a.samples, times), 0.95, permutations, 7)
    return found


def test_exact_permutation_test_of_a_mean():
    a, b = [1, 0, 0, 1, 0, 0, 0, 1], [1, 0, 1, 1, 0, 1, 0, 1]
    found = run(ref("accuracy"), cell("a", a), cell("b", b))
    assert (found.value_a, found.value_b, found.difference) == (0.375, 0.625, 0.25)
    assert found.p == 0.5, "the worked example of the method notes"
    assert found.n == 8


@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_random_exchanges_against_scipy(shift):
    rng = np.random.default_rng(3)
    a, b = rng.random(60), np.clip(rng.random(60) + shift, 0, 1)
    expected = stats.permutation_test(
        (b, a), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples", vectorized=True, rng=0
    )
    assert run(ref("accuracy"), cell("a", a), cell("b", b)).p == pytest.approx(expected.pvalue, abs=0.02)


def test_whole_groups_are_exchanged():
    """Thirty answers on three pictures are three exchanges: eight in all, so that p is never below 2/8."""
    found = run(ref("accuracy"), cell("a", [0.0] * 30, per_group=10), cell("b", [1.0] * 30, per_group=10))
    assert found.p == pytest.approx(0.25)
    asked = [run(ref("accuracy"), cell("a", [0.0] * 3), cell("b", [1.0] * 3), permutations=n).p for n in (7, 8)]
    assert asked[1] == 0.25 and 8 * asked[0] == round(8 * asked[0]), "all eight where so many are asked for, else seven and the sample"


def exchanged(metric, a, b, swap):
    """The difference after exchanging rows, written out."""
    values = []
    for mine, yours in ((a, b), (b, a)):
        mixed = {n: np.where(swap, yours.columns[n], mine.columns[n]) for n in mine.columns}
        other = {k: np.where(swap, yours.uncertainties[k], v) for k, v in mine.uncertainties.items()}
        side = Cell("x", a.samples, "clean", mixed, {}, other)
        values.append(evaluate(read_metrics([metric]), side, whole(a.samples, 0))[0][1].value)
    return values[1] - values[0]


@pytest.mark.parametrize(
    "metric",
    [
        ref("ece"),
        ref("ece_debiased", bins=2, squared=True),
        ref("risk_coverage"),
        ref("auroc"),
        ref("confidence_weighted_accuracy"),
        ref("coverage_at_risk", risk=0.3),
    ],
)
def test_metrics_that_are_no_means_against_every_exchange_written_out(metric):
    rng = np.random.default_rng(5)
    n, per = 14, 2
    make = lambda name: cell(name, rng.integers(0, 2, n), rng.random(n).round(1), per, rng.random(n))  # noqa: E731
    a, b = make("a"), make("b")
    found = run(metric, a, b)
    if metric["label"] in ("risk_coverage", "auroc", "coverage_at_risk"):  # exchanged by rank, since scales may differ
        a, b = (replace(c, columns=c.columns | {"confidence": stats.rankdata(c.columns["confidence"])}) for c in (a, b))
        a, b = (replace(c, uncertainties={k: stats.rankdata(v) for k, v in c.uncertainties.items()}) for c in (a, b))
    groups = n // per
    all_of_them = [np.repeat([k >> g & 1 for g in range(groups)], per).astype(bool) for k in range(2**groups)]
    differences = np.array([exchanged(metric, a, b, swap) for swap in all_of_them])
    assert found.difference == pytest.approx(differences[0], abs=1e-12)
    defined = differences[~np.isnan(differences)]
    assert found.p == pytest.approx((np.abs(defined) >= abs(found.difference) - 1e-12).mean())


def test_the_interval_is_that_of_the_slices_own_resamples():
    rng = np.random.default_rng(6)
    a, b = cell("a", rng.integers(0, 2, 90), rng.random(90), 3), cell("b", rng.integers(0, 2, 90), rng.random(90), 3)
    part = whole(a.samples)
    for metric in (ref("accuracy"), ref("ece"), ref("risk_coverage")):
        found = run(metric, a, b)
        one, other = (evaluate(read_metrics([metric]), side, part)[0][1] for side in (a, b))
        difference = other.resampled - one.resampled
        half = stats.t.ppf(0.975, 29) * difference.std() * np.sqrt(30 / 29)
        assert (found.low, found.high) == pytest.approx((found.difference - half, found.difference + half), abs=1e-8)
        assert (found.value_a, found.value_b) == pytest.approx((one.value, other.value))


@pytest.mark.parametrize("metric", [ref("mce"), ref("ece_debiased"), ref("coverage_at_risk", risk=0.3)])
def test_what_has_no_interval_has_a_test_and_no_interval_of_its_difference(metric):
    rng = np.random.default_rng(6)
    a, b = cell("a", rng.integers(0, 2, 90), rng.random(90)), cell("b", rng.integers(0, 2, 90), rng.random(90))
    found = run(metric, a, b)
    assert np.isnan([found.low, found.high]).all()
    assert 0 < found.p <= 1 and found.value_b - found.value_a == pytest.approx(found.difference)


def test_only_rows_that_both_are_scored_on():
    correct = np.array([1.0, 1, 0, 0, np.nan, 1])
    other = np.array([np.nan, 0, 1, 1, 1, 1])
    found = run(ref("accuracy"), cell("a", correct), cell("b", other))
    assert (found.n, found.value_a, found.value_b) == (4, 0.5, 0.75)


def test_p_values_are_uniform_where_there_is_no_difference():
    rng = np.random.default_rng(8)
    found = []
    for _ in range(300):
        luck = np.repeat(rng.random(20), 3)
        sides = [cell("x", (rng.random(60) < luck) * 1.0, rng.random(60), 3) for _ in range(2)]
        found.append(run(ref("ece", bins=5), *sides, permutations=199, times=0).p)
    assert stats.kstest(found, "uniform").pvalue > 0.001
    assert 0.02 < np.mean(np.array(found) <= 0.05) < 0.09


def test_undefined_stays_undefined():
    found = run(ref("accuracy"), cell("a", [np.nan] * 4), cell("b", [1.0] * 4))
    assert found.n == 0 and np.isnan([found.value_a, found.p, found.low]).all()
    one_group = run(ref("accuracy"), cell("a", [0.0, 1], per_group=2), cell("b", [1.0, 1], per_group=2))
    assert one_group.difference == 0.5 and np.isnan([one_group.p, one_group.low]).all()
    assert np.isnan(run(ref("accuracy"), cell("a", [0.0] * 40), cell("b", [1.0] * 40), permutations=0).p)
    assert run(ref("accuracy"), cell("a", [1.0, 0] * 20), cell("b", [1.0, 0] * 20)).p == 1


def test_which_pairs():
    asked = {"baseline": "a", "pairs": [["b", "c"], ["a", "b"], ["b", "gone"]]}
    assert pairs_of(asked, ["a", "b", "c"]) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert pairs_of({"baseline": None, "pairs": []}, ["a", "b"]) == []
    assert pairs_of({"baseline": "gone", "pairs": []}, ["a", "b"]) == []


def test_doubled_weights_leave_the_slice_alone():
    rng = np.random.default_rng(9)
    a, b = cell("a", rng.integers(0, 2, 30), per_group=3), cell("b", rng.integers(0, 2, 30), per_group=3)
    rows = np.arange(9, 24)
    part = Slice("some", rows, Bootstrap(a.samples.groups[rows], 100, 1, "some"))
    (found,) = compare(read_metrics([ref("accuracy")]), a, b, part, 0.9, 500, 1)
    assert found.value_a == a.columns["correct"][rows].mean() and found.n == 15
    alone = evaluate(read_metrics([ref("accuracy")]), a, part)[0][1]
    assert intervals([alone], 0.9, part.bootstrap.groups)[0] != (found.low, found.high)
    exchanges = paired_tests.Exchanges(part, a.samples, 500, 50, 1)
    assert paired_tests.Sides(part, exchanges).groups == 10


def test_the_score_stage_writes_them(tmp_path, monkeypatch):
    from qualm.runners.runtime.settings import Settings
    from qualm.runners.runtime.stage import Stage

    monkeypatch.chdir(tmp_path)
    a, b = cell("m", [0.0, 1] * 30), cell("n", [1.0, 1] * 30)
    compared = {"baseline": "m", "pairs": [["n", "m"]], "permutations": 500, "correction": "holm", "family": "metric"}
    params = {"compare": compared, "interval": {"bootstrap": 50, "level": 0.9}}
    stage = Stage("s/score", "s", "score", "score", params, {}, {"comparisons": "comparisons.parquet"}, 7, Settings())
    slices = [whole(a.samples), Slice("none", np.empty(0, dtype=np.int64), Bootstrap(np.empty(0, dtype=np.int64), 50, 7))]
    families = {name: Family("holm", name) for name in ("metric", "slice")}
    rows = score._compare(stage, read_metrics([ref("accuracy"), ref("ece")]), {"m": a, "n": b}, slices, families["metric"])
    families["metric"].correct()
    score._publish(stage, "comparisons", rows, COMPARISONS)
    table = read_table(Path("comparisons.parquet"), COMPARISONS).to_pylist()
    assert [(r["a"], r["b"], r["slice"], r["metric"]) for r in table][:3] == [
        ("m", "n", "all", "accuracy"),
        ("m", "n", "all", "ece"),
        ("n", "m", "all", "accuracy"),
    ]
    assert table[0]["difference"] == 0.5 and table[2]["difference"] == -0.5
    assert table[0]["p"] == pytest.approx(1 / 501) and table[0]["p_adjusted"] == pytest.approx(2 / 501)
    families["slice"].rows = families["metric"].rows
    families["slice"].correct()
    assert rows[0]["p_adjusted"] == pytest.approx(4 / 501)
    assert [r["higher_is_better"] for r in table][:2] == [True, False]
    assert all(r["p"] is None and r["n"] == 0 for r in table if r["slice"] == "none")


def test_every_test_of_a_data_set_sees_the_same_exchanges():
    """On a slice with few groups all exchanges are taken, and the shared ones are found among them."""
    rng = np.random.default_rng(3)
    a, b = (cell(name, rng.integers(0, 2, 60) * 1.0, per_group=2) for name in "ab")
    few = np.arange(10, 20)
    slices = [whole(a.samples), Slice("few", few, Bootstrap(a.samples.groups[few], 10, 7, "few"))]
    tests = [compare(read_metrics([ref("accuracy")]), a, b, part, 0.9, 2000, 7)[0] for part in slices]
    stays = np.unpackbits(paired_tests._drawn(a.samples.name, 7, 30, 2000), axis=1)[:, :1000].T.astype(float)
    codes = np.unique(a.samples.groups, return_inverse=True)[1]
    change = np.bincount(codes, b.columns["correct"] - a.columns["correct"])
    for test, groups in zip(tests, (np.arange(30), np.unique(codes[few])), strict=True):
        by_hand = np.abs((2 * stays[:, groups] - 1) @ change[groups])
        scale = by_hand.max() / test.evidence.chance.max()
        assert test.evidence.chance * scale == pytest.approx(by_hand, abs=1e-5)
        assert test.evidence.size * scale == pytest.approx(abs(change[groups].sum()))


def test_exchanges_are_those_that_were_published():
    """As bits, of each group so many bytes as are needed, from the data set's name as UTF-8."""
    assert paired_tests._drawn("Tür", 7, 2, 9).tolist() == [[63, 171], [166, 195]]


def test_what_calibrates_lies_in_the_whole_data_set():
    a = cell("a", np.arange(30) % 2, per_group=3)
    whole_set, rows = whole(a.samples), np.arange(9, 24)
    part = Slice("some", rows, Bootstrap(a.samples.groups[rows], 100, 1, "some").within(whole_set.bootstrap))
    exchanges = paired_tests.Exchanges(part, a.samples, 500, 50, 1)
    sides = paired_tests._sides(part, exchanges, a.samples, 50, 1, True)
    assert (sides.groups, sides.whole.groups, sides.whole.whole) == (10, 20, sides.whole)
    assert sides.times == sum(len(block.counts) for block in sides.blocks()) == 2 * (1 + 100 + 32)
    assert sides.whole.exchanges.times == exchanges.times, "as many, also where those of the part are all that there are"
    assert paired_tests._sides(part, exchanges, a.samples, 50, 1, False).whole.groups == 10
    of_all = paired_tests._sides(whole_set, paired_tests.Exchanges(whole_set, a.samples, 500, 50, 1), a.samples, 50, 1, True)
    assert of_all.whole is of_all


def test_settings_scores_and_recalibrations_count_where_both_sides_have_them():
    def side(name, calibrates, scores, methods, **more):
        settings = {"half": Setting(np.array(calibrates), {s: {"covered": np.array([1.0, 0, gone])} for s, gone in scores.items()}), **more}
        recalibrations = [Recalibration("held", m, "", np.zeros(3, dtype=bool), {"confidence": np.ones(3)}, [], 0) for m in methods]
        return replace(cell(name, [1, 0, 1]), settings=settings, recalibrations=recalibrations)

    a = side("a", [1.0, 0, 0], {"lac": 1.0, "aps": 1.0}, ["raw", "platt"], mine=Setting(np.zeros(3)))
    b = side("b", [0.0, 1, 0], {"lac": np.nan, "raps": 1.0}, ["raw", "beta"])
    both = paired_tests.side_by_side(a, b)
    assert [r.label for r in both.recalibrations] == ["held/raw"] and list(both.settings) == ["half"]
    assert both.settings["half"].is_calibration.tolist() == [1, 1, 0] * 2, "what calibrates for one is out for both"
    assert list(both.settings["half"].scores) == ["lac"]
    np.testing.assert_array_equal(both.settings["half"].scores["lac"]["covered"], [1, 0, np.nan] * 2)


def test_the_probabilities_of_options_stand_behind_each_other_and_count_where_both_sides_have_them():
    a, b = (cell(name, [1, 0, 1]) for name in ("a", "b"))
    a.columns["option_probabilities"] = np.array([[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]])
    b.columns["option_probabilities"] = np.array([[0.5, 0.3, 0.2], [np.nan] * 3, [0.1, 0.1, 0.8]])
    both = paired_tests.side_by_side(a, b).columns["option_probabilities"]
    expected = [[0.5, 0.5, 0], [np.nan] * 3, [0.9, 0.1, 0], [0.5, 0.3, 0.2], [np.nan] * 3, [0.1, 0.1, 0.8]]
    np.testing.assert_array_equal(both, expected)
