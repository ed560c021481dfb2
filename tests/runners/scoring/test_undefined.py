"""Every metric on degenerate answers: what is undefined says why, and no interval has a width of zero."""

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.plugins import registry
from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.measuring.evaluate import evaluate
from qualm.runners.scoring.measuring.intervals import intervals, value_columns
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.measuring.slices import make_slices
from qualm.runners.scoring.unscored import why_no_value

N = 24
NEEDED = {"option_rate": {"option": "A"}, "torchmetrics": {"metric": "BinaryF1Score"}, "coverage_at_risk": {"risk": 0.1}}
METRICS = [
    name
    for name in registry.names("metrics")
    if not any(c.startswith(("marked_by_", "group_of_", "code_of_")) for c in registry.get("metrics", name).reads)
]


def cell_of(correct, n=N, group=str, **columns):
    rows = [{"sample_id": f"s{i}", "group": group(i), "question": "?", "answerable": True} for i in range(n)]
    rng = np.random.default_rng(3)
    of = {
        "correct": correct,
        "confidence": np.full(n, 0.5),
        "answerable": np.ones(n),
        "uncertain": np.zeros(n),
        "fold": np.arange(n) % 2 * 1.0,
        "says_uncertain": np.zeros(n),
        "pred_is_idk": np.zeros(n),
        "gt_is_idk": np.zeros(n),
        "clean_correct": correct,
        "rated_by_vqa": correct,
        "input_changed": np.zeros(n),
    }
    values = {"e": columns.pop("uncertainty", rng.random(n))}
    return Cell("m", Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES)), "blur", of | columns, {}, values, values)


DEGENERATE = {
    "all wrong": cell_of(np.zeros(N)),
    "all right": cell_of(np.ones(N)),
    "half right each": cell_of(np.full(N, 0.5)),
    "one row": cell_of(np.ones(1), 1),
    "one group": cell_of(np.arange(N) % 2 * 1.0, group=lambda i: "g"),
    "no row": cell_of(np.empty(0), 0),
    "ties": cell_of(np.arange(N) % 2 * 1.0, uncertainty=np.zeros(N)),
    "all unread": cell_of(np.full(N, np.nan)),
    "no estimate": cell_of(np.arange(N) % 2 * 1.0, uncertainty=np.full(N, np.nan)),
    "infinite": cell_of(np.arange(N) % 2 * 1.0, uncertainty=np.full(N, np.inf)),
    "all abstain": cell_of(np.zeros(N), pred_is_idk=np.ones(N)),
    "none answerable": cell_of(np.ones(N), answerable=np.zeros(N), gt_is_idk=np.ones(N), uncertain=np.ones(N)),
}


@pytest.mark.parametrize("kind", DEGENERATE)
def test_every_undefined_score_has_its_reason_and_no_interval_is_a_point(kind):
    cell = DEGENERATE[kind]
    part = make_slices(cell.samples, [], 20, 7)[0]
    refs = [
        {"label": n, "plugin": n, "args": {p.name: p.default for p in registry.get("metrics", n).parameters} | NEEDED.get(n, {})}
        for n in METRICS
    ]
    values = evaluate(read_metrics(refs), cell, part)
    assert len(values) > 20
    for (label, one), ends in zip(values, intervals([one for _, one in values], 0.95, part.bootstrap.groups), strict=True):
        row = value_columns(one, ends, 0.95)
        assert (row["value"] is None) == bool(one.why), label
        assert row["value"] is not None or len(row["why"]) > 5, label
        assert row["low"] is None or row["low"] < row["high"], label
        assert (row["low"] is None) == bool(row["value"] is None or row["why_no_interval"]), label


def test_the_reason_names_the_condition_and_what_holds_here():
    cell = DEGENERATE["all wrong"]
    part = make_slices(cell.samples, [], 5, 7)[0]
    ((_, one),) = evaluate(read_metrics([{"label": "auroc", "plugin": "auroc", "args": {}}]), cell, part)
    assert one.why == "undefined where all answers are right or all are wrong; all 24 answers are wrong"

    def silent(correct):
        """Return nothing."""

    assert why_no_value(silent, {"correct": np.array([0.0, 1.0, 0.5])}) == "no value for these 3 rows"
