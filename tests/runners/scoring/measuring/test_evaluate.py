from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.reporting.text import counted
from qualm.runners.results.perturbation import mean_over
from qualm.runners.scoring.cells import Cell, Setting
from qualm.runners.scoring.measuring.evaluate import evaluate, tasks_of
from qualm.runners.scoring.measuring.intervals import interval_columns, intervals
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.measuring.slices import make_slices
from tests.simulation import worlds
from tests.simulation.cells import cell_of


@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        ("mce", "the largest of many gaps"),
        ("ece_debiased", "for calibrated models the estimate is mostly 0"),
        ("coverage_at_risk", "the threshold is chosen on the answers"),
    ],
)
def test_a_metric_without_an_interval_says_why_in_its_row(plugin, why):
    rng = np.random.default_rng(0)
    rows = [{"sample_id": f"s{i}", "group": f"g{i}", "question": "?", "answerable": True} for i in range(80)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    cell = Cell("m", samples, "clean", {"correct": rng.integers(0, 2, 80) * 1.0, "confidence": rng.random(80)}, {}, {})
    metrics = read_metrics([{"label": plugin, "plugin": plugin, "args": {"risk": 0.6} if plugin == "coverage_at_risk" else {}}])
    ((_, one),) = evaluate(metrics, cell, make_slices(samples, [], 50, 7)[0])
    (found,) = intervals([one], 0.95, 80)
    row = interval_columns(one, found, 0.95)
    assert one.value > 0 and not len(one.resampled)
    assert np.isnan([found.low, found.high]).all() and row["interval"] is None and row["level"] is None
    assert row["why_no_interval"].startswith(why)
    assert f"; no interval: {why}" in counted(row | {"n": one.n, "n_unscored": 0})
    assert intervals([mean_over([one, one])], 0.95, 80)[0].why_none == row["why_no_interval"], "nor has a mean over variants"


def test_a_cell_that_knows_why_nothing_is_scored_says_so_of_every_metric_without_rows():
    rows = [{"sample_id": f"s{i}", "question": "?", "answerable": True, "group": ""} for i in range(3)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    columns = {"correct": np.full(3, np.nan), "confidence": np.array([0.5, 0.5, 0.5])}
    (part,) = make_slices(samples, [], 10, 3)
    metrics = read_metrics([{"label": "accuracy", "plugin": "accuracy", "args": {}}])
    for why in ("nothing is right or wrong here", ""):
        (task,), _ = tasks_of(metrics, Cell("m", samples, "blur", columns, {}, {}, why_unscored=why), part)
        assert (task.measured.n, task.measured.why, len(task.measured.resampled)) == (0, why or "no `correct`", 0)
    scored = Cell("m", samples, "blur", columns | {"correct": np.ones(3)}, {}, {}, why_unscored="is not asked")
    (task,), _ = tasks_of(metrics, scored, part)
    assert (task.measured.n, task.measured.why) == (3, "")


@pytest.mark.parametrize(("n", "why"), [(10, "no `correct`"), (11, "")])
def test_a_tenth_of_the_answers_unscored_is_said(n, why):
    rows = [{"sample_id": f"s{i}", "question": "?", "answerable": True, "group": ""} for i in range(n)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    cell = Cell("m", samples, "clean", {"correct": np.r_[np.nan, np.ones(n - 1)]}, {}, {})
    (task,), _ = tasks_of(read_metrics([{"label": "accuracy", "plugin": "accuracy", "args": {}}]), cell, make_slices(samples, [], 5, 3)[0])
    assert (task.measured.n, task.measured.n_unscored, task.measured.why_unscored) == (n - 1, 1, why)


def test_what_rests_on_a_threshold_is_resampled_at_the_samples_own_too():
    cell = cell_of(worlds.options(60, 60, 0.5, np.random.default_rng(8)), 1)
    part = make_slices(cell.samples, [], 20, 3)[0]
    metrics = read_metrics([{"label": name, "plugin": name, "args": {}} for name in ("coverage", "accuracy")])
    values = evaluate(metrics, cell, part)
    assert {label.partition("[")[0] for label, _ in values} == {"coverage", "accuracy"}
    for label, one in values:
        assert (one.given is not None) == label.startswith("coverage") and len(one.resampled) == 20
        assert one.given is None or (one.given != one.resampled).any()


def with_confidence(cell):
    rng = np.random.default_rng(3)
    n = cell.samples.n
    return replace(cell, columns=cell.columns | {"correct": rng.integers(0, 2, n) * 1.0, "confidence": rng.random(n)})


def test_no_value_depends_on_the_other_metrics():
    """Not in its last bit: a metric more or less in the spec leaves the scores of all others as they are."""
    cell = with_confidence(cell_of(worlds.options(60, 60, 0.5, np.random.default_rng(8)), 1))
    part = make_slices(cell.samples, [], 20, 3)[0]
    metrics = read_metrics([{"label": name, "plugin": name, "args": {}} for name in ("coverage", "accuracy", "set_size", "ece")])
    together = dict(evaluate(metrics, cell, part))
    alone = {label: one for metric in metrics for label, one in evaluate([metric], cell, part)}
    assert list(alone) == list(together) and len(alone) >= 6
    for label, one in alone.items():
        assert one.resampled.tobytes() == together[label].resampled.tobytes()


def test_resamples_that_nobody_reads_are_not_made():
    """Of a calibration error, whose interval is its own and whose differences are another metric's, within slices."""
    cell = with_confidence(cell_of(worlds.options(60, 60, 0.5, np.random.default_rng(8)), 1))
    whole = make_slices(cell.samples, [], 20, 3)[0]
    for label, metric, expected in (("all", "ece", 20), ("part", "ece", 0), ("part", "accuracy", 20), ("all", "mce", 0)):
        metrics, part = read_metrics([{"label": metric, "plugin": metric, "args": {}}]), replace(whole, label=label)
        values = evaluate(metrics, cell, part)
        assert values and {len(one.resampled) for _, one in values} == {expected}
        assert {len(one.resampled) for _, one in evaluate(metrics, cell, part, every=True)} == {20}
        ends = intervals([one for _, one in values], 0.95, whole.bootstrap.groups)
        assert all(of.why_none == metrics[0].why_no_interval for of in ends)


def test_settings_that_differ_in_what_calibrates_alone_share_values_over_all_rows():
    cell = with_confidence(cell_of(worlds.options(60, 60, 0.5, np.random.default_rng(8)), 1))
    (half,) = cell.settings.values()
    cell = replace(cell, settings={"half": half, "same": half, "other": replace(half, is_calibration=1 - half.is_calibration)})
    part = make_slices(cell.samples, [], 20, 3)[0]
    metrics = read_metrics([{"label": rows, "plugin": "ece", "args": {"rows": rows}} for rows in ("all", "test")])
    values = dict(evaluate(metrics, cell, part))
    assert values["all[half]"] is values["all[other]"]
    assert values["test[half]"] is values["test[same]"] and values["test[half]"].value != values["test[other]"].value


def test_settings_that_calibrate_on_the_same_rows_are_measured_once():
    n = 40
    rows = [{"sample_id": f"s{i}", "group": f"g{i}", "question": "?", "answerable": True} for i in range(n)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    rng = np.random.default_rng(0)
    columns = {"correct": rng.integers(0, 2, n) * 1.0, "confidence": rng.random(n)}
    first, second = (np.arange(n) < 20) * 1.0, (np.arange(n) >= 20) * 1.0
    uncertainties = {"a": rng.random(n), "b": rng.random(n)}
    cell = Cell("m", samples, "clean", columns, {"x": Setting(first), "y": Setting(second), "z": Setting(first.copy())}, uncertainties)
    (part,) = make_slices(samples, [], 20, 7)
    metrics = read_metrics([{"label": name, "plugin": name, "args": {}} for name in ("accuracy", "auroc")])
    values = dict(evaluate(metrics, cell, part))
    assert set(values) == {"accuracy", "accuracy[x]", "accuracy[y]", "accuracy[z]", "auroc[a]", "auroc[b]"}
    assert values["accuracy"].value == columns["correct"].mean() and values["accuracy"].n == n, "as without conformal sets"
    assert values["accuracy[x]"] is values["accuracy[z]"] and values["accuracy[x]"] is not values["accuracy[y]"]
    assert values["accuracy[x]"].value == columns["correct"][20:].mean() and values["accuracy[y]"].value == columns["correct"][:20].mean()
    assert values["auroc[a]"].value != values["auroc[b]"].value


def cell_of_groups(groups, columns, uncertainties=None, kinds=None, choices=None):
    base = {"question": "?", "answerable": True, "choices": choices}
    rows = [base | {"sample_id": f"s{i}", "group": f"g{g}"} for i, g in enumerate(groups)]
    if kinds is not None:
        rows = [row | {"category": f"c{kind:g}", "references": [f"r{kind:g}"]} for row, kind in zip(rows, kinds, strict=True)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    return Cell("m", samples, "clean", columns, {}, uncertainties or {}), make_slices(samples, [], 50, 3)[0]


@pytest.mark.parametrize(
    ("wrong", "rare"),
    [
        ([0, 2, 4, 6, 8], ""),
        ([0, 2, 4, 6], "4 of 41 groups have a row of the rarer class: an interval needs 5"),
        ([0, 1, 2, 3, 4], "3 of 41 groups have a row of the rarer class: an interval needs 5"),
        ([0, 1, 80, 81, 82], "2 of 41 groups have a row of the rarer class: an interval needs 5"),
    ],
)
def test_a_metric_of_two_kinds_of_answers_needs_five_groups_of_each(wrong, rare):
    n = 100
    correct = np.ones(n)
    correct[wrong] = 0
    cell, part = cell_of_groups(np.where(np.arange(n) < 80, np.arange(n) // 2, 40), {"correct": correct}, {"u": np.arange(n) % 7.0})
    metrics = read_metrics([{"label": "auroc", "plugin": "auroc", "args": {}}])
    (task,), _ = tasks_of(metrics, cell, part)
    assert task.measured.rare == rare


def three_of_three(positives):
    """A thousand questions of which few enter a ratio, all of these right."""
    few = np.zeros(1000)
    few[:positives] = 1.0
    return few


@pytest.mark.parametrize(
    ("plugin", "columns", "args"),
    [
        ("f1_idk", {"pred_is_idk": "few", "gt_is_idk": "few"}, {}),
        ("f1_uncertain", {"says_uncertain": "few", "uncertain": "few"}, {}),
        ("answerable_accuracy", {"correct": "few", "answerable": "few"}, {}),
        ("hedge_rate", {"pred_is_idk": "many", "hedges": "few"}, {}),
        ("hallucination_rate", {"correct": "none", "clean_correct": "few"}, {"only_clean_correct": True}),
        ("hallucinated_sentence_ratio", {"marked_by_j/hallucinated": "few", "marked_by_j/sentences": "few"}, {"judge": "j"}),
        ("option_rate", {"predicted": "few", "n_options": "one or two", "is_calibration": "none"}, {"option": "B"}),
        ("yes_no_precision", {"marked_by_j/said": "few", "marked_by_j/truth": "all"}, {"judge": "j"}),
        ("yes_no_recall", {"marked_by_j/said": "all", "marked_by_j/truth": "few"}, {"judge": "j"}),
        ("yes_no_f1", {"marked_by_j/said": "few", "marked_by_j/truth": "few"}, {"judge": "j"}),
        ("mean_per_type", {"correct": "all"}, {}),
        ("normalised_mean_per_type", {"correct": "all"}, {}),
        ("mme_score", {"rated_by_j": "all"}, {"judge": "j", "subtask": "category"}),
        ("selective_accuracy", {"confidence": "rows", "correct": "all"}, {"coverage": 0.003, "by": "confidence"}),
        ("e_aurc", {"confidence": "rows", "correct": "many"}, {"by": "confidence"}),
        ("aurc", {"confidence": "rows", "correct": "many"}, {"by": "confidence"}),
        ("augrc", {"confidence": "rows", "correct": "many"}, {"by": "confidence"}),
        ("risk_coverage", {"confidence": "rows", "correct": "many"}, {}),
    ],
)
def test_what_only_three_questions_enter_has_no_interval_and_with_five_that_of_five(plugin, columns, args):
    of_means = {"mean_per_type", "normalised_mean_per_type", "mme_score", "aurc", "e_aurc", "augrc", "risk_coverage"}
    for entering in (3, 5):
        few = three_of_three(entering)
        kinds = {"few": few, "many": 1 - few, "none": 0 * few, "all": few**0, "rows": np.arange(1000) / 1000, "one or two": few + 1}
        of_metric = args | ({"coverage": entering / 1000} if "coverage" in args else {})
        metrics = read_metrics([{"label": plugin, "plugin": plugin, "args": of_metric}])
        taken = {name: kinds[kind] for name, kind in columns.items()}
        cell, part = cell_of_groups(np.arange(1000), taken, None, few, ["A", "B"] if plugin == "option_rate" else None)
        ((_, measured),) = evaluate(metrics, cell, part)
        (ends,) = intervals([measured], 0.95, 1000)
        assert measured.units == entering
        if entering == 3:
            assert ends.why_none.startswith(("3 of 1,000 groups ", "3 scored groups")) and ends.why_none.endswith(": an interval needs 5")
        elif plugin not in of_means:
            q = stats.t.ppf(0.975, 4)
            assert (ends.low, ends.high) == (pytest.approx(1 / (1 + q * q / 5), abs=1e-6), 1), "Wilson's of five"


@pytest.mark.parametrize("sizes", [[1] * 20, [60, *[2] * 20]])
def test_groups_that_are_too_uneven_have_no_interval_and_say_so(sizes):
    group = np.repeat(np.arange(len(sizes)), sizes)
    cell, part = cell_of_groups(group, {"correct": np.arange(len(group)) % 2.0})
    ((_, measured),) = evaluate(read_metrics([{"label": "accuracy", "plugin": "accuracy", "args": {}}]), cell, part)
    (ends,) = intervals([measured], 0.95, len(sizes))
    assert measured.units == pytest.approx(sum(sizes) ** 2 / sum(size**2 for size in sizes))
    assert ends.why_none == ("" if len(sizes) == 20 else "effective number of groups 2.7: an interval needs 5")


def test_what_says_no_target_has_no_band_beside_it():
    """`coverage` has one, since its conformal setting promises something; a metric of one's own over the same sets need not."""
    world = worlds.options(60, 60, 0.5, np.random.default_rng(8))
    (metric,) = read_metrics([{"label": "coverage", "plugin": "coverage", "args": {}}])
    declares = {name: value for name, value in metric.plugin.declares.items() if name != "target"}
    silent = replace(metric, plugin=replace(metric.plugin, declares=declares))
    cell = cell_of(world, 1)
    part = make_slices(cell.samples, [], 10, 3)[0]
    (told,), (untold,) = (tasks_of([one], cell, part)[0] for one in (metric, silent))
    assert told.measured.band.target == 0.9 and told.measured.band.low < 0.9 < told.measured.band.high
    assert untold.measured.band is None and untold.measured.value == told.measured.value
