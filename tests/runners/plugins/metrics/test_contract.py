"""What every metric keeps, whoever wrote it."""

import sys
from functools import partial
from inspect import signature
from itertools import product
from typing import get_args

import numpy as np
import pytest

from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns as columns_of
from qualm.registry.plugins.declarations import for_arguments
from qualm.runners.contracts.metrics import torchmetric
from qualm.runners.scoring.bootstrap import Bootstrap, SideBySide
from qualm.runners.scoring.measuring.intervals import intervals
from qualm.runners.scoring.measuring.measured import Measured, Slice
from qualm.runners.scoring.measuring.metrics import bounds_of, chance_of, read_metrics
from qualm.runners.scoring.paired_tests import compare
from qualm.runners.scoring.unscored import why_no_value
from tests.simulation.cells import cell_of
from tests.simulation.worlds import World

N = 50
ARGS = {"option_rate": {"option": "E"}, "torchmetrics": {"metric": "BinaryAUROC"}}


def columns():
    rng = np.random.default_rng(0)
    correct = rng.integers(0, 2, N) * 1.0
    return {
        "correct": correct,
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
        "people_rating": np.arange(N) % 2 * np.where(np.arange(N) % 9 == 0, 1 - correct, correct),
        "marked_by_/said": rng.integers(-1, 2, N) * 1.0,
        "marked_by_/truth": rng.integers(0, 2, N) * 1.0,
        "marked_by_/points": rng.integers(0, 7, N) * 1.0,
        "marked_by_/hallucinated": rng.integers(0, 3, N) * 1.0,
        "marked_by_/sentences": rng.integers(2, 9, N) * 1.0,
    }


COLUMNS = columns()
for column in COLUMNS.values():
    column.flags.writeable = False  # a metric that changes its input fails


def given_to(name, args, of=COLUMNS):
    """Return {column: its values in `of`} of a metric with these arguments, in its order."""
    return {c: of[c] for c in columns_of(registry.get("metrics", name), args).values() if c != "weights"}


@pytest.fixture(params=registry.names("metrics"))
def metric(request):
    args = ARGS.get(request.param, {})
    arrays = list(given_to(request.param, args).values())
    return registry.get("metrics", request.param), registry.load("metrics", request.param), arrays, args


def choices(name):
    """Return the arguments of a metric: its defaults, then each other value of each of its choices and flags."""
    args = ARGS.get(name, {})
    found = [args]
    for p in registry.get("metrics", name).parameters:
        if name == "torchmetrics" and p.name not in ("metric", "positive", "rows"):
            continue  # each has a meaning with a few classes only
        values = get_args(p.annotation) if "Literal" in p.text else [not p.default] if p.annotation is bool else []
        found += [{**args, p.name: value} for value in values if value != args.get(p.name, p.default)]
    return found


def read(name, args):
    """Return a metric with these arguments and its optional functions, as a stage loads it."""
    defaults = {p.name: p.default for p in registry.get("metrics", name).parameters}
    return read_metrics([{"label": name, "plugin": name, "args": defaults | args}])[0]


def value_of(name, args, given):
    """Return a metric's value over all rows of {column: values}."""
    arrays = list(given.values())
    return registry.load("metrics", name)(*arrays, np.ones((1, len(arrays[0]))), **args)[0]


def test_each_declares_itself():
    for plugin in (registry.get("metrics", name) for name in registry.names("metrics")):
        assert plugin.reads[-1] == "weights" and plugin.summary and "higher_is_better" in plugin.declares, plugin.name
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


KEPT_BINS = {"ece_adaptive": "its bins are those of the sample in every resample"}
KEPT_GROUPS = {"ece_debiased", "ece_idk_debiased"}
"""A group that is drawn twice is still one group: it makes no pairs with itself."""


@pytest.mark.parametrize("name", registry.names("metrics"))
def test_a_resample_is_its_rows_as_often_as_it_draws_them_in_any_order(name):
    """Groups are drawn; a copy of a group is a group of its own."""
    rng = np.random.default_rng(1)
    of_group = np.ones(17, int) if name in KEPT_BINS else np.r_[0, 2, 3, rng.permutation(np.arange(14) % 3)]
    group = np.arange(N) // 3
    rows = rng.permutation(np.repeat(np.arange(N), of_group[group]))
    copy = np.array([(rows[:i] == row).sum() for i, row in enumerate(rows)])
    for args in choices(name):
        given = given_to(name, args)
        drawn = {c: a[rows] for c, a in given.items()}
        if "group_of_group" in drawn and name not in KEPT_GROUPS:
            drawn["group_of_group"] += 1000 * copy
        found = registry.load("metrics", name)(*given.values(), of_group[group][None] * 1.0, **args)
        assert np.isfinite(found), args
        np.testing.assert_allclose(found, value_of(name, args, drawn), 1e-6 if name == "torchmetrics" else 1e-9, err_msg=str(args))


@pytest.mark.parametrize("name", registry.names("metrics"))
def test_rows_that_it_is_not_over_count_for_nothing(name):
    """Neither do rows that calibrate, unless all are asked for, nor any but those of its `over`; over no row it is undefined."""
    group = np.arange(N) // 3
    for args in choices(name):
        metric, given = read(name, args), given_to(name, args)
        if args.get("rows") == "all":
            assert value_of(name, args, given | {"is_calibration": np.zeros(N)}) == value_of(name, args, given)
            assert value_of(name, {**args, "rows": "test"}, given) != pytest.approx(value_of(name, args, given))
        counted = np.ones(N, bool) if metric.over is None else given[metric.over] >= metric.args.get("right_from", 1.0)
        if metric.of_test_rows:
            counted &= given["is_calibration"] == 0
        if counted.all():
            continue
        only = {c: a[counted] for c, a in given.items()}
        assert value_of(name, args, given) == pytest.approx(value_of(name, args, only), rel=1e-6), args
        for function in filter(None, [metric.own_interval, metric.null_test]):
            options = {c.name: metric.args[c.name] for c in signature(function).parameters.values() if c.kind is c.KEYWORD_ONLY}
            level = [0.95] if function is metric.own_interval else []
            of_all, of_only = (function(*g.values(), of, *level, **options) for g, of in ((given, group), (only, group[counted])))
            assert of_all == of_only or of_all == pytest.approx(of_only), args
        assert np.isnan(value_of(name, args, {c: a[~counted] for c, a in given.items()})), args


UNITS = {"mean_uncertainty": "a mean in the estimator's own unit"}


OF_UNCERTAINTY = [name for name in registry.names("metrics") if "uncertainty" in given_to(name, ARGS.get(name, {}))]


@pytest.mark.parametrize("name", OF_UNCERTAINTY)
def test_only_the_order_of_uncertainties_counts(name):
    """Neither how far they are apart, however far that is, nor that the ends are infinite; a confidence is one turned over."""
    for args in choices(name):
        given = given_to(name, args)
        of = given.keys() & {"uncertainty", "clean_uncertainty", "confidence"}
        given |= {c: given[c].round(1) for c in of}
        every = np.unique(np.concatenate([given[c] for c in of]))
        stretched = np.r_[-np.inf, -(10.0 ** np.arange(len(every) - 2)[::-1]), np.inf]
        changed = given | {c: stretched[np.searchsorted(every, given[c])] for c in of}
        if name in UNITS:
            assert np.isnan(value_of(name, args, changed)), UNITS[name]
            continue
        assert value_of(name, args, changed) == pytest.approx(value_of(name, args, given), abs=1e-12), args
        if args.get("by") == "confidence":
            turned = {"uncertainty" if c == "confidence" else c: -a if c == "confidence" else a for c, a in given.items()}
            assert value_of(name, args | {"by": "uncertainty"}, turned) == value_of(name, args, given)


TELLS = {"uncertain": 1, "answerable": 0, "clean_uncertainty": None, "correct": 0}
"""Column -> its value in rows that should be uncertain; None: every row."""


@pytest.mark.parametrize("name", OF_UNCERTAINTY)
def test_doubting_a_wrong_answer_more_or_a_right_one_less_is_never_worse(name):
    """Also an uncertain or unanswerable question, or a perturbed input."""
    higher = registry.get("metrics", name).declares["higher_is_better"]
    if higher is None:
        return
    given = given_to(name, {})
    column, value = next((c, v) for c, v in TELLS.items() if c in given)
    before = value_of(name, {}, given)
    for row in range(N):
        doubt = given["uncertainty"].copy()
        doubt[row] = np.inf if value is None or given[column][row] == value else -np.inf
        change = value_of(name, {}, given | {"uncertainty": doubt}) - before
        assert change >= -1e-12 if higher else change <= 1e-12


@pytest.mark.parametrize("name", [n for n in registry.names("metrics") if "increases_with" in registry.get("metrics", n).declares])
def test_a_better_rating_is_never_worse(name):
    metric = read(name, {})
    given = given_to(name, {})
    before = value_of(name, {}, given)
    better = [given | {metric.rating: np.where(np.arange(N) == row, 1.0, given[metric.rating])} for row in range(N)]
    changes = np.array([value_of(name, {}, of) for of in better]) - before
    assert (changes >= -1e-12).all() and changes.max() > 0


ALL_OR_NONE = {"fpr_at_tpr": "equal uncertainties are withheld together: all of them, not a share"}


@pytest.mark.parametrize("name", [name for name in registry.names("metrics") if read(name, ARGS.get(name, {})).chance])
def test_an_uncertainty_that_tells_nothing_has_the_value_that_is_stated(name):
    for args in choices(name):
        given = given_to(name, args)
        given |= {c: np.zeros(N) for c in given.keys() & {"uncertainty", "clean_uncertainty", "confidence"}}
        stated = chance_of(read(name, args), given.get)
        assert value_of(name, args, given) == pytest.approx(1.0 if name in ALL_OR_NONE else stated, abs=1e-12) and 0 <= stated < 1, args


def test_over_nothing_it_is_undefined_and_says_so(metric):
    _, function, arrays, args = metric
    assert np.isnan(function(*arrays, np.zeros((1, N)), **args)).all()
    np.testing.assert_array_equal(function(*(a[:0] for a in arrays), np.ones((3, 0)), **args), np.full(3, np.nan))
    assert "no value for" not in why_no_value(function, {"uncertainty": np.empty(0)}), "its docstring says when it is undefined"


ONE_CLASS = {0: "no scored question is uncertain", 1: "every scored question is uncertain"}
RIGHT_OR_WRONG = {0: "all answers are wrong", 1: "all answers are right"}
EQUALLY_RIGHT = dict.fromkeys((0, 1), "equally right")
ALIKE = dict.fromkeys((0, 1), "all changes of uncertainty are equal")
UNDEFINED = {
    "answerability_average_precision": {"answerable": {1: "every question can be answered"}},
    "answerable_accuracy": {"answerable": {0: "without answerable questions"}},
    "auroc": {"correct": {0: "all 50 answers are wrong", 1: "all 50 answers are right"}},
    "auroc_uncertain": {"uncertain": ONE_CLASS},
    "average_precision": {"correct": {1: "no answer is wrong"}},
    "best_f1": {"uncertain": ONE_CLASS},
    "best_f1_floor": {"uncertain": ONE_CLASS},
    "corrected_accuracy": {"labelled": {0: "no scored answer has a label of people"}},
    "ece_idk": {"gt_is_idk": {0: "unanswerable"}},
    "ece_idk_debiased": {"gt_is_idk": {0: "unanswerable"}},
    "effective_reliability": {"fold": dict.fromkeys((0, 1), "without rows to choose on")},
    "f1_uncertain": {"uncertain": ONE_CLASS},
    "fpr_at_tpr": {"correct": RIGHT_OR_WRONG},
    "hallucination_change_correlation": {
        "correct": {1: "no answer became wrong"}, "clean_correct": {0: "no answer became wrong"}, "uncertainty_change": ALIKE
    },
    "hedge_rate": {"pred_is_idk": {1: "every answer abstains"}},
    "judge_agreement": {"labelled": {0: "without labelled answers"}},
    "mean_uncertainty": {"uncertainty": {np.inf: "a value is infinite"}},
    "prediction_rejection_ratio": {"correct": EQUALLY_RIGHT},
    "relative_accuracy_drop": {"correct": {0: "no clear question is answered right"}, "uncertain": ONE_CLASS},
    "torchmetrics": {"correct": {0: "no answer is right", 1: "every answer is right"}},
    "yes_no_recall": {"marked_by_/truth": {0: "right for none"}},
}  # fmt: skip
"""Metric -> column -> each value with which it is undefined if all rows have it: words of the reason."""


def test_it_is_undefined_exactly_where_a_column_without_variation_leaves_it_so_and_says_why(metric):
    plugin, function, _, args = metric
    given, why = given_to(plugin.name, args), getattr(sys.modules[function.__module__], "why_undefined", None)
    varying = [c for c, a in given.items() if set(a.ravel()) <= {0, 1} or c in ("confidence", "uncertainty", "uncertainty_change")]
    for column in set(varying) - {"is_calibration"}:
        for value in (0, 1, *([np.inf] if column == "uncertainty" else [])):
            changed = given | {column: np.full(N, value, float)}
            reason = UNDEFINED.get(plugin.name, {}).get(column, {}).get(value)
            with np.errstate(divide="raise", invalid="raise"):
                assert np.isnan(value_of(plugin.name, args, changed)) == (reason is not None), (column, value)
            if reason is not None:
                said = why(*changed.values(), **args) if why else why_no_value(function, changed)
                assert said and reason in said


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


def test_an_interval_holds_its_own_value_has_a_width_and_stays_where_values_can_be(metric):
    """Over samples of the rows, also where every answer is right, or none is."""
    plugin, function, every, args = metric
    loaded = read(plugin.name, args)
    sets = {"never_empty": np.ones(N), "n_options": np.full(N, 6.0)}
    names = [name for name in columns_of(plugin, args).values() if name != "weights"]
    (weights,) = Bootstrap(np.arange(N) // 3, 40, 1).blocks()
    declared = for_arguments(plugin, args).declares
    declares = {"method": declared["interval"], "why_no_interval": declared.get("why_no_interval", "")}
    own = getattr(sys.modules[function.__module__], "interval", None)
    for drawn, edge in product(SAMPLES, (None, 0.0, 1.0)):
        at_edge = {} if edge is None else dict.fromkeys({"correct", "covered"} & set(names), np.full(N, edge))
        if edge is not None and not at_edge:
            continue
        arrays = [at_edge.get(name, a[drawn]) for name, a in zip(names, every, strict=True)]
        value = float(function(*arrays, np.ones((1, N)), **args)[0])
        one = Measured(value, function(*arrays, weights, **args), N, 0, "no rows" if np.isnan(value) else "", groups=17, **declares)
        one.own_interval = partial(own, *arrays, np.arange(N) // 3, **args) if own else None
        lowest, highest = one.bounds = bounds_of(loaded, (dict(zip(names, arrays, strict=True)) | sets).get)
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
    assert bounds_of(read(name, args), given.get) == pytest.approx(expected)


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
    """Of 100 samples of calibrated answers, 5 are expected below .05, and 1 to 10 in 98 of 100 draws."""
    rng = np.random.default_rng(3)
    group, everything = np.arange(120) // rows_of_group, np.ones(120) if "gt_is_idk" in signature(test).parameters else np.zeros(120)
    p = []
    for _ in range(100):
        confidence = rng.uniform(0.3, 1.0, 120)
        p.append(test(confidence, (rng.uniform(size=120) < confidence).astype(float), everything, group)[0])
    assert 1 <= np.less(p, 0.05).sum() <= 10
    assert np.quantile(p, [0.25, 0.5, 0.75]) == pytest.approx([0.25, 0.5, 0.75], abs=0.12)
