"""Unread answers: the scored share of every score, its bounds, and what `unread:` changes."""

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.measuring.evaluate import evaluate
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.measuring.slices import make_slices
from qualm.runners.scoring.scored_share import describe_bounds, describe_unequal_shares, format_share, shares_differ
from qualm.runners.scoring.unscored import CHOSEN_ON, NO_REFERENCE, UNREAD, Reasons

N = 20
RIGHT = np.r_[np.ones(8), np.zeros(8), np.full(4, np.nan)]


def cell_of(correct, reasons=UNREAD, **more):
    rows = [{"sample_id": f"s{i}", "group": f"g{i // 2}", "question": "?", "answerable": True, "category": "ab"[i % 2]} for i in range(N)]
    texts = np.where(np.isnan(correct), reasons, "").astype(object)
    columns = {"correct": correct, "answerable": np.ones(N), "confidence": np.linspace(0.1, 0.9, N), "rated_by_vqa": correct}
    columns |= {"pred_is_idk": np.where(np.isnan(correct), np.nan, 0.0), "gt_is_idk": np.zeros(N)}
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    return Cell("m", samples, "clean", columns, {}, {"e": np.linspace(0, 1, N)}, reasons=Reasons(texts), **more)


def measured(cell, name, **args):
    ((_, one),) = evaluate(read_metrics([{"label": name, "plugin": name, "args": args}]), cell, make_slices(cell.samples, [], 20, 3)[0])
    return one


@pytest.mark.parametrize(
    ("name", "args", "bounds"),
    [
        ("accuracy", {}, (0.4, 0.6)),
        ("answerable_accuracy", {}, (0.4, 0.6)),
        ("vqa_accuracy", {}, (0.4, 0.6)),
        ("lave_idk_accuracy", {}, (0.4, 0.6)),
        ("mean_per_type", {"mean": "arithmetic", "by": "category"}, (0.4, 0.6)),
        ("group_accuracy", {"by": "group", "of": "correct"}, (0.4, 0.6)),
    ],
)
def test_an_accuracy_lies_between_all_unread_wrong_and_all_right(name, args, bounds):
    one = measured(cell_of(RIGHT), name, **args)
    assert one.value == 0.5 and one.n == 16 and one.scored_share == 0.8
    assert one.if_unread == pytest.approx(bounds)


def test_bounds_are_those_of_the_filled_column():
    """Of a metric that is no mean of its rows: confidence-weighted accuracy."""
    one = measured(cell_of(RIGHT), "confidence_weighted_accuracy")
    for rating, end in zip((0.0, 1.0), one.if_unread, strict=True):
        filled = np.where(np.isnan(RIGHT), rating, RIGHT)
        assert end == pytest.approx(measured(cell_of(filled), "confidence_weighted_accuracy").value)


@pytest.mark.parametrize("reason", [NO_REFERENCE, CHOSEN_ON])
def test_what_cannot_be_scored_lowers_no_share_and_has_no_bounds(reason):
    one = measured(cell_of(RIGHT, reason), "accuracy")
    assert one.n_unscored == 4 and one.scored_share == 1 and np.isnan(one.if_unread).all()


def test_all_unread_is_undefined_with_a_reason_and_bounds():
    one = measured(cell_of(np.full(N, np.nan)), "accuracy")
    assert np.isnan(one.value) and one.why == UNREAD and one.scored_share == 0 and one.if_unread == (0, 1)


def test_only_the_default_has_bounds_and_only_metrics_that_say_so():
    assert np.isnan(measured(cell_of(RIGHT, unread="exclude"), "accuracy").if_unread).all()
    auroc = measured(cell_of(RIGHT), "auroc")
    assert auroc.scored_share == 0.8 and np.isnan(auroc.if_unread).all(), "unread answers may move it either way"
    assert np.isnan(measured(cell_of(np.ones(N)), "accuracy").if_unread).all()


def test_bounds_are_shown_above_one_in_a_hundred():
    row = {"scored_share": 0.99, "value_if_wrong": 0.4, "value_if_right": 0.41}
    assert describe_bounds(row) == "" and describe_bounds(row | {"scored_share": 0.985}) == "0.400 to 0.410 with the unread 2%"
    assert describe_bounds(row | {"scored_share": 0.5, "value_if_wrong": None}) == "" == describe_bounds({})


def test_shares_that_differ_by_more_than_two_points():
    assert [shares_differ(x) for x in ([1.0, 0.98], [1.0, 0.979], [1.0], [], [None, 0.5], [float("nan"), 0.5, 1.0])] == [
        False, True, False, False, False, True,
    ]  # fmt: skip
    assert describe_unequal_shares({"a": 0.5, "b": None, "c": 1.0}) == "scored shares differ: a 50%, b unknown, c 100%"
    assert (format_share(0.0), format_share(float("nan"))) == ("0%", "unknown")
