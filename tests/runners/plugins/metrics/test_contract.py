"""What every metric keeps, whoever wrote it."""

import sys
from functools import partial
from inspect import signature

import numpy as np
import pytest

from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns as columns_of
from qualm.registry.plugins.declarations import for_arguments
from qualm.runners.contracts.metrics import torchmetric
from qualm.runners.scoring.bootstrap import Bootstrap, SideBySide
from qualm.runners.scoring.measuring.intervals import intervals
from qualm.runners.scoring.measuring.measured import Measured, Slice
from qualm.runners.scoring.measuring.metrics import bounds_of, read_metrics
from qualm.runners.scoring.paired_tests import compare
from tests.simulation.cells import cell_of
from tests.simulation.worlds import World

N = 50
ARGS = {"option_rate": {"option": "E"}, "torchmetrics": {"metric": "BinaryAUROC"}}


def columns():
    rng = np.random.default_rng(0)
    return {
        "correct": rng.integers(0, 2, N) * 1.0,
        "confidence": rng.random(N),
        "predicted": rng.integers(0, 6, N) * 1.0,
        "n_options": np.full(N, 6.0),
        "option_probabilities": np.random.default_rng(1).dirichlet(np.ones(6), N),
        "right_option": np.random.default_rng(2).integers(0, 6, N) * 1.0,
        "is_calibration": rng.integers(0, 2, N) * 1.0,
        "covered": rng.integers(0, 2, N) * 1.0,
        "set_size": rng.integers(1, 7, N) * 1.0,
        "uncertainty": rng.normal(size=N),
        "pred_is_idk": rng.integers(0, 2, N) * 1.0,
        "gt_is_idk": rng.integers(0, 2, N) * 1.0,
        "hedges": np.random.default_rng(3).integers(0, 2, N) * 1.0,
        "answerable": rng.integers(0, 2, N) * 1.0,
        "fold": np.arange(N) // 3 % 2 * 1.0,
        "says_uncertain": rng.integers(0, 2, N) * 1.0,
        "uncertain": rng.integers(0, 2, N) * 1.0,
        "clean_correct": rng.integers(0, 2, N) * 1.0,
        "clean_uncertainty": rng.normal(size=N),
        "uncertainty_change": rng.normal(size=N),
        "input_changed": rng.integers(0, 2, N) * 1.0,
        "rated_by_vqa": rng.integers(0, 11, N) / 10,
        "rated_by_": rng.integers(0, 2, N) * 1.0,
        "sampled_correct": np.random.default_rng(4).integers(0, 4, N) / 3,
        "sampling_variance": np.random.default_rng(5).random(N) / 20,
        "group_of_group": np.arange(N) // 3 * 1.0,
        "code_of_category": np.arange(N) % 2 * 1.0,
        "code_of_references": np.arange(N) % 5 * 1.0,
        "code_of_subtask": np.arange(N) // 3 % 2 * 1.0,
        "labelled": np.arange(N) % 2 * 1.0,
        "people_rating": np.arange(N) % 2 * np.random.default_rng(3).integers(0, 2, N) * 1.0,
        "marked_by_/said": rng.integers(-1, 2, N) * 1.0,
        "marked_by_/truth": rng.integers(0, 2, N) * 1.0,
        "marked_by_/points": rng.integers(0, 7, N) * 1.0,
        "marked_by_/hallucinated": rng.integers(0, 3, N) * 1.0,
        "marked_by_/sentences": rng.integers(2, 9, N) * 1.0,
    }


@pytest.fixture(params=registry.names("metrics"))
def metric(request):
    plugin = registry.get("metrics", request.param)
    arrays = [columns()[name] for name in columns_of(plugin, ARGS.get(plugin.name, {})).values() if name != "weights"]
    return plugin, registry.load("metrics", request.param), arrays, ARGS.get(request.param, {})


def test_declares_itself(metric):
    plugin, *_ = metric
    assert plugin.reads[-1] == "weights"
    assert "higher_is_better" in plugin.declares
    assert plugin.summary
    assert set(plugin.declares.get("companions", [])) <= set(registry.names("metrics"))


def test_grouped_weights_give_what_dense_ones_give(metric):
    _, function, arrays, args = metric
    (weights,) = Bootstrap(np.arange(N) // 3, 30, 1).blocks()
    found = function(*arrays, weights, **args)
    assert found.shape == (30,)
    np.testing.assert_allclose(found, function(*arrays, np.asarray(weights), **args))


@pytest.mark.parametrize("name", [n for n in registry.names("metrics") if "row_by_row" in registry.get("metrics", n).declares])
def test_resamples_with_columns_of_their_own_have_side_by_side_the_values_that_each_has_alone(name):
    plugin, function, args = registry.get("metrics", name), registry.load("metrics", name), ARGS.get(name, {})
    assert plugin.declares["row_by_row"] is True, "else it says nothing"
    (weights,) = Bootstrap(np.arange(N) // 3, 6, 1).blocks()
    every = columns()
    arrays = [every[column] for column in columns_of(plugin, args).values() if column != "weights"]
    orders = [np.random.default_rng(b).permutation(N) if b else np.arange(N) for b in range(6)]
    kept = [i for i, column in enumerate(columns_of(plugin, args).values()) if column in ("is_calibration", "gt_is_idk")]
    own = [[a if i in kept else a[order] for i, a in enumerate(arrays)] for order in orders]
    alone = [function(*of, row[None], **args)[0] for of, row in zip(own, np.asarray(weights), strict=True)]
    found = function(*(np.concatenate(of) for of in zip(*own, strict=True)), SideBySide(weights), **args)
    np.testing.assert_allclose(found, alone, rtol=1e-12)


def test_order_of_rows_does_not_matter(metric):
    _, function, arrays, args = metric
    order = np.random.default_rng(1).permutation(N)
    one = np.ones((1, N))
    np.testing.assert_allclose(function(*arrays, one, **args), function(*(a[order] for a in arrays), one, **args))


def test_nothing_drawn_is_undefined(metric):
    _, function, arrays, args = metric
    assert np.isnan(function(*arrays, np.zeros((1, N)), **args)).all()


def test_without_rows_every_resample_is_undefined(metric):
    _, function, arrays, args = metric
    np.testing.assert_array_equal(function(*(a[:0] for a in arrays), np.ones((3, 0)), **args), np.full(3, np.nan))


def test_torchmetrics_class_over_batches(metric):
    torch = pytest.importorskip("torch")
    plugin, function, arrays, args = metric
    wrapped = torchmetric(plugin.name)(**args)
    for half in (slice(0, 20), slice(20, N)):
        wrapped.update(*(torch.tensor(a[half]) for a in arrays))
    assert float(wrapped.compute()) == pytest.approx(function(*arrays, np.ones((1, N)), **args)[0])
    with pytest.raises(TypeError, match="expected columns"):
        wrapped.update()


SAMPLES = [np.random.default_rng(seed).choice(N, different)[np.arange(N) % different] for seed, different in enumerate((1, 2, 5, N, N))]
"""Samples of the rows, some of which repeat one row or a few."""


@pytest.mark.parametrize("edge", [None, 0.0, 1.0])
def test_an_interval_holds_its_own_value_has_a_width_and_stays_where_values_can_be(metric, edge):
    """Over samples of the rows, also where every answer is right, or none is."""
    plugin, function, every, args = metric
    ref = {"label": plugin.name, "plugin": plugin.name, "args": {p.name: p.default for p in plugin.parameters} | args}
    (read,) = read_metrics([ref])
    sets = {"never_empty": np.ones(N), "n_options": np.full(N, 6.0)}
    names = [name for name in columns_of(plugin, args).values() if name != "weights"]
    (weights,) = Bootstrap(np.arange(N) // 3, 40, 1).blocks()
    declared = for_arguments(plugin, args).declares
    declares = {"method": declared["interval"], "why_no_interval": declared.get("why_no_interval", "")}
    own = getattr(sys.modules[function.__module__], "interval", None)
    for drawn in SAMPLES:
        arrays = [
            np.full(N, edge) if edge is not None and name in ("correct", "covered") else a[drawn]
            for name, a in zip(names, every, strict=True)
        ]
        value = float(function(*arrays, np.ones((1, N)), **args)[0])
        one = Measured(value, function(*arrays, weights, **args), N, 0, "no rows" if np.isnan(value) else "", groups=17, **declares)
        one.own_interval = partial(own, *arrays, np.arange(N) // 3, **args) if own else None
        lowest, highest = one.bounds = bounds_of(read, (dict(zip(names, arrays, strict=True)) | sets).get)
        (found,) = intervals([one], 0.95, 17)
        for each in (*one.resampled[~np.isnan(one.resampled)], *([] if np.isnan(found.low) else [found.low, found.high])):
            assert lowest - 1e-9 <= each <= highest + 1e-9, "beyond what the metric can be"
        assert np.isnan(found.low) or (found.low <= value + 1e-9 and value - 1e-9 <= found.high and found.low < found.high)
        assert np.isnan(found.low) == bool(found.why_none) or np.isnan(value)
        assert np.isnan(found.low) or declares["method"] != "none"


def test_every_metric_with_an_interval_says_what_it_can_be():
    unbounded = set()
    for name in registry.names("metrics"):
        plugin, module = registry.get("metrics", name), sys.modules[registry.load("metrics", name).__module__]
        if plugin.declares["interval"] in ("t", "skewed", "own") and not hasattr(module, "bounds"):
            unbounded.add(name)
    assert unbounded == {"mean_uncertainty"}, "in an estimator's own unit"


FILLED, SOME_EMPTY = np.ones(4), np.array([1.0, 1, 1, 0])
SETS = {"never_empty": FILLED, "n_options": np.array([2.0, 9, 4, 3])}
BY_HAND = [
    ("accuracy", {}, {}, (0, 1)),
    ("best_f1", {}, {}, (0, 1)),
    ("brier", {"over": "answer"}, {}, (0, 1)),
    ("brier", {"over": "options"}, {}, (0, 2)),  # all on one wrong option: (1 - 0)^2 + (0 - 1)^2
    ("confidence_target", {}, {}, (-1, 1)),
    ("confidence_target", {"t": 0.75}, {}, (-3, 1)),
    ("confidence_weighted_accuracy", {}, {}, (-1, 1)),
    ("ece", {}, {}, (0, 1)),
    ("ece_debiased", {}, {}, (0, 1)),
    ("ece_idk", {}, {}, (0, 1)),
    ("ece_idk_debiased", {}, {}, (0, 1)),
    ("corrected_accuracy", {}, {}, (0, 1)),
    ("ece_smooth", {}, {}, (0, 1)),
    ("effective_reliability", {}, {}, (-1, 1)),
    ("effective_reliability", {"cost": 3.0}, {}, (-3, 1)),
    ("relative_accuracy_drop", {}, {}, (-np.inf, 1)),
    ("hallucination_change_correlation", {}, {}, (-1, 1)),
    ("mean_per_type", {}, {}, (0, 1)),
    ("mean_uncertainty", {}, {}, (-np.inf, np.inf)),
    ("mme_score", {}, {"code_of_subtask": np.array([0.0, 2, 2, 5])}, (0, 600)),
    ("mmhal_score", {}, {}, (0, 6)),
    ("nll", {}, {}, (0, 36.0436533891)),  # 52 ln 2
    ("nll", {"floor": 0.01}, {}, (0, 4.605170186)),
    ("nll", {"floor": 0.0}, {}, (0, np.inf)),
    ("normalised_mean_per_type", {}, {}, (0, 1)),
    ("prediction_rejection_ratio", {}, {}, (-np.inf, 1)),
    ("set_size", {}, SETS, (1, 9)),
    ("set_size", {}, SETS | {"never_empty": SOME_EMPTY}, (0, 9)),
    ("set_size", {}, {}, (-np.inf, np.inf)),  # a cell without sets: nothing is known of them
    ("torchmetrics", {"metric": "BinaryRecall"}, {}, (0, 1)),
    ("torchmetrics", {"metric": "MulticlassMatthewsCorrCoef"}, {}, (-1, 1)),
    ("torchmetrics", {"metric": "BinaryHingeLoss", "squared": True}, {}, (0, 4)),  # sure and wrong: (1 + 1)^2
    ("uncertainty_aware_accuracy", {}, SETS, (0, 3)),  # all right with one option of nine: 1 / 1 x sqrt(9)
    ("uncertainty_aware_accuracy", {}, SETS | {"never_empty": SOME_EMPTY}, (0, np.inf)),
]


@pytest.mark.parametrize(("name", "args", "given", "expected"), BY_HAND)
def test_what_a_metric_can_be_by_hand(name, args, given, expected):
    defaults = {p.name: p.default for p in registry.get("metrics", name).parameters}
    (metric,) = read_metrics([{"label": name, "plugin": name, "args": defaults | args}])
    assert bounds_of(metric, given.get) == pytest.approx(expected)


def test_what_stands_beside_a_metric_has_its_parameters_and_their_defaults():
    """Whoever asks why a value is undefined, or for its classes, asks with the arguments of the metric."""
    for name in registry.names("metrics"):
        function = registry.load("metrics", name)
        defaults = {p.name: p.default for p in signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY}
        for beside in ("why_undefined", "classes", "types", "enters", "interval", "minimum_standard_error", "null_test", "bounds"):
            if (other := getattr(sys.modules[function.__module__], beside, None)) is not None:
                own = {p.name: p.default for p in signature(other).parameters.values() if p.kind is p.KEYWORD_ONLY}
                assert own.items() <= defaults.items(), f"{beside} of {name}"


def test_all_that_say_what_they_can_be_are_known_by_hand():
    own = {name for name in registry.names("metrics") if hasattr(sys.modules[registry.load("metrics", name).__module__], "bounds")}
    assert own <= {name for name, *_ in BY_HAND}


@pytest.mark.parametrize("low, high", [(0.0, 1.0), (0.9, 1.0), (0.0, 0.1)])
def test_differences_stay_where_they_can_be(low, high):
    """One model all right and sure and one all wrong and sure, but for one answer in `low` to `high`; sets of one option against all."""
    n, group = 30, np.arange(30) // 2
    names = ["accuracy", "confidence_weighted_accuracy", "ece", "brier", "nll", "effective_reliability", "auroc", "best_f1", "aurc"]
    metrics = read_metrics([{"label": m, "plugin": m, "args": {}} for m in [*names, "set_size", "uncertainty_aware_accuracy"]])
    rng, cells = np.random.default_rng(0), []
    for right in (1.0, 0.0):
        correct = np.where(rng.random(n) < 0.1, 1 - right, right)
        probs = np.full((n, 4), (1 - high) / 3) if right else np.full((n, 4), 0.25)
        probs[:, 0] = high if right else 0.25
        columns = {
            "correct": correct,
            "confidence": np.where(correct == right, high, low),
            "uncertainty": -correct,
            "uncertain": 1 - correct,
        }
        world = World(
            group, columns | {"n_options": np.full(n, 4.0), "pred_is_idk": np.zeros(n), "fold": group % 2.0}, probs, np.zeros(n, int)
        )
        cells.append(cell_of(world, 1))
    tests = compare(metrics, *cells, Slice("all", np.arange(n), Bootstrap(group, 60, 0, "d", "all")), 0.95)
    can_be = {m.label: bounds_of(m, {"never_empty": np.ones(n), "n_options": np.full(n, 4.0)}.get) for m in metrics}
    printed = [test for test in tests if not np.isnan(test.low)]
    assert {test.metric.partition("[")[0] for test in printed} >= {"accuracy", "confidence_weighted_accuracy"}
    for test in printed:
        lowest, highest = can_be[test.metric.partition("[")[0]]
        reach = highest - lowest
        assert -reach - 1e-9 <= test.low <= test.difference + 1e-9 and test.difference - 1e-9 <= test.high <= reach + 1e-9, test


@pytest.mark.parametrize(
    "name", [n for n in registry.names("metrics") if "rows" in {p.name for p in registry.get("metrics", n).parameters}]
)
def test_rows_that_calibrate_count_for_nothing_unless_all_are_asked_for(name):
    plugin, function, all_columns = registry.get("metrics", name), registry.load("metrics", name), columns()
    reads, args = columns_of(plugin, ARGS.get(name, {})), ARGS.get(name, {})
    arrays = [all_columns[column] for column in reads.values() if column != "weights"]
    place = list(reads.values()).index("is_calibration")
    tested = arrays[place] == 0
    alone = [array[tested] for array in arrays]
    none = [np.zeros(N) if i == place else array for i, array in enumerate(arrays)]
    test, everything, of_test = (
        function(*given, np.ones((1, len(given[0]))), rows=rows, **args)[0]
        for given, rows in ((arrays, "test"), (arrays, "all"), (alone, "all"))
    )
    assert test == pytest.approx(of_test) and everything == pytest.approx(function(*none, np.ones((1, N)), rows="test", **args)[0])
    assert test != pytest.approx(everything)


def answers(well):
    """What a model says that is mostly right and knows when, or (`well` 0) mostly wrong and surest where it is."""
    i = np.arange(60)
    odd, right_option = i % 2, i % 6
    correct = np.where(i % 7 > 0, well, 1 - well) * 1.0
    is_option = np.eye(6)[right_option] > 0
    return {
        "correct": correct,
        "confidence": np.where(correct == well, 0.9, 0.1) + i % 6 / 100,
        "option_probabilities": np.where(is_option, 0.9, 0.02) if well else np.where(is_option, 0.02, 0.196),
        "right_option": right_option * 1.0,
        "n_options": np.full(60, 6.0),
        "is_calibration": (i % 5 == 0) * 1.0,
        "set_size": np.full(60, 1.0 if well else 5.0),
        "pred_is_idk": np.where(i % 3 == 0, well, 1 - well) * 1.0,
        "gt_is_idk": (i % 3 == 0) * 1.0,
        "answerable": 1.0 - odd,
        "fold": i // 3 % 2 * 1.0,
        "says_uncertain": odd * 1.0 if well else 1.0 - odd,
        "uncertain": odd * 1.0,
        "clean_correct": np.ones(60),
        "clean_uncertainty": np.zeros(60),
        "uncertainty_change": np.where(correct == well, -1.0, 1.0) + i / 1000,
        "rated_by_vqa": correct,
        "rated_by_": correct,
        "group_of_group": i // 3 * 1.0,
        "code_of_category": odd * 1.0,
        "code_of_references": i % 5 * 1.0,
        "code_of_subtask": i // 3 % 2 * 1.0,
        "labelled": odd * 1.0,
        "people_rating": odd * correct if well else np.zeros(60),
        "marked_by_/said": odd * 1.0 if well else 1.0 - odd,
        "marked_by_/truth": odd * 1.0,
        "marked_by_/points": np.full(60, 6.0 * well),
        "marked_by_/hallucinated": np.full(60, 2.0 - 2 * well),
        "marked_by_/sentences": np.full(60, 4.0),
    }


@pytest.mark.parametrize("name", registry.names("metrics"))
def test_the_direction_that_is_declared_is_that_of_the_better_model(name):
    plugin, function = registry.get("metrics", name), registry.load("metrics", name)
    reads = [column for column in columns_of(plugin, ARGS.get(name, {})).values() if column != "weights"]
    higher = plugin.declares["higher_is_better"]
    neither = {"best_f1_floor", "brier_uncertainty", "coverage", "hedge_rate", "idk_rate", "mean_uncertainty", "option_rate"}
    assert (higher is None) == (name in neither | {"sampling_share", "unchanged_input_rate", "uncertainty_tie_rate", "yes_rate"})
    if higher is None:
        return
    values = []
    for well in (1, 0):
        given = answers(well)
        given["sampled_correct"] = given["correct"]
        sign = 2 * well - 1
        told = {
            "uncertain": sign * given["uncertain"],
            "answerable": -sign * given["answerable"],
            "clean_uncertainty": np.full(60, 1.0 * sign),
        }
        given["uncertainty"] = next((told[column] for column in reads if column in told), -given["confidence"])
        if name == "brier_resolution" and not well:
            given["confidence"] = np.full(60, 0.5)  # turned over it would tell right from wrong as well
        values.append(function(*(given[column] for column in reads), np.ones((1, 60)), **ARGS.get(name, {}))[0])
    good, poor = values
    assert good > poor if higher else good < poor


HALVES = {"correct": [0.0, 0.25, 0.5, 0.75, 1.0, 0.5], "clean_correct": [1.0, 0.5, 1.0, 1.0, 1.0, 0.25]}


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("auroc", {}, [0, 0, 1, 1, 1, 1]),
        ("auroc", {"right_from": 0.75}, [0, 0, 0, 1, 1, 0]),
        ("average_precision", {}, [0, 0, 1, 1, 1, 1]),
        ("fpr_at_tpr", {"right_from": 0.75}, [0, 0, 0, 1, 1, 0]),
        ("prediction_rejection_ratio", {}, [0, 0, 1, 1, 1, 1]),
        ("hallucination_change_correlation", {}, [1, 1, 0, 0, 0, 0]),
        ("hallucination_change_correlation", {"right_from": 0.75}, [1, 0, 1, 0, 0, 0]),
    ],
)
def test_half_right_answers_are_on_the_side_that_the_parameter_says(name, args, expected):
    """`right_from` is the least correctness that is right: 0.5 by default, which a half-right answer reaches."""
    plugin = registry.get("metrics", name)
    arrays = [np.array(HALVES.get(column, np.arange(6.0))) for column in columns_of(plugin, args).values() if column != "weights"]
    module = sys.modules[registry.load("metrics", name).__module__]
    assert module.classes(*arrays, **args).tolist() == expected


def null_tests():
    """Every metric with a test of its null hypothesis."""
    for name in registry.names("metrics"):
        if test := getattr(sys.modules[registry.load("metrics", name).__module__], "null_test", None):
            yield pytest.param(test, id=name)


@pytest.mark.parametrize("rows_of_group", [1, 4])
@pytest.mark.parametrize("test", null_tests())
def test_p_of_calibrated_answers_is_uniform(test, rows_of_group):
    """Of 200 samples of calibrated answers, 10 are expected below .05, and 4 to 16 in 95 of 100 draws."""
    rng = np.random.default_rng(3)
    group, everything = np.arange(120) // rows_of_group, np.ones(120) if "gt_is_idk" in signature(test).parameters else np.zeros(120)
    p = []
    for _ in range(200):
        confidence = rng.uniform(0.3, 1.0, 120)
        p.append(test(confidence, (rng.uniform(size=120) < confidence).astype(float), everything, group)[0])
    assert 2 <= np.less(p, 0.05).sum() <= 18
    assert np.quantile(p, [0.25, 0.5, 0.75]) == pytest.approx([0.25, 0.5, 0.75], abs=0.12)
