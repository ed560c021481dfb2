"""A cell's scores from the store are those that are computed, and nothing is found that should not be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import LABELLED_SCORES, SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.cells import Cell, Setting
from qualm.runners.scoring.conformal.draws import Redraw
from qualm.runners.scoring.measuring import cell_scores
from qualm.runners.scoring.measuring.cell_scores import Measuring
from qualm.runners.scoring.measuring.evaluate import evaluate, tasks_of
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.missing.unscored import Reasons
from qualm.runners.stages.score import make_slices
from qualm.runners.store.scores import ScoreStore

N, TIMES = 60, 40
METRICS: list[dict[str, Any]] = [
    {"label": "accuracy", "plugin": "accuracy", "args": {}},
    {"label": "auroc", "plugin": "auroc", "args": {}},
    {"label": "coverage", "plugin": "coverage", "args": {}},
    {"label": "ece", "plugin": "ece", "args": {"bins": 5, "rows": "all"}},
    {"label": "group_accuracy", "plugin": "group_accuracy", "args": {"by": "category"}},
]
EVERY = {ref["label"] for ref in METRICS}
OF_SETS = {"accuracy", "auroc", "coverage", "ece", "group_accuracy"} & {
    m.label for m in read_metrics(METRICS) if "is_calibration" in m.reads
}


def made_samples(groups: int = 30, categories: int = 2) -> Samples:
    rows = [
        {
            "sample_id": f"s{i:02}",
            "group": f"g{i % groups:02}",
            "question": "?",
            "answerable": True,
            "category": f"c{i % categories}",
            "choices": ["a", "b"],
            "answer_index": i % 2,
        }
        for i in range(N)
    ]
    return Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))


def made_cell(samples: Samples) -> Cell:
    rng = np.random.default_rng(3)
    columns = {"correct": rng.integers(0, 2, N) * 1.0, "confidence": rng.random(N)}
    columns |= {"n_options": np.full(N, 2.0)}
    calibrates = (np.arange(N) % 30 < 12) * 1.0
    enters = rng.random((N, 2))
    own = np.where(calibrates == 1, enters[:, 0], np.nan)
    redraw = Redraw(own, enters, samples.truth, 0.1, "standard", 0.0, kept=(0.8,))
    covered = {"covered": rng.integers(0, 2, N) * 1.0, "set_size": rng.integers(1, 3, N) * 1.0}
    setting = Setting(calibrates, {"lac": covered}, {"lac": redraw})
    return Cell("m", samples, "clean", columns, {"half": setting}, {"u": rng.random(N), "v": rng.random(N)})


def keys(
    cell: Cell, refs: list[dict[str, Any]] = METRICS, level: float = 0.95, seed: int = 7, times: int = TIMES, **more: Any
) -> dict[str, str]:
    """The key of every metric."""
    slices = make_slices(cell.samples, more.get("fields", ["category"]), times, seed)
    measuring = Measuring(read_metrics(refs), level, more.get("store") or ScoreStore("code"))
    content = cell_scores._CellContent(cell)
    return {metric.label: measuring._key(metric, content, slices) for metric in measuring.metrics}


def test_from_the_store_as_computed(tmp_path: Path) -> None:
    cell = made_cell(made_samples())
    slices = make_slices(cell.samples, ["category"], TIMES, 7)
    store = ScoreStore("code", root=tmp_path)
    plain, first, second = (Measuring(read_metrics(METRICS), 0.95, s).measure(cell, slices) for s in (None, store, store))
    assert plain.table().schema.equals(LABELLED_SCORES)
    assert plain.table().equals(first.table()) and first.table().equals(second.table())
    assert not first.from_store and second.from_store == second.table().num_rows and second.computed == []
    assert (plain.is_new, first.is_new, second.is_new) == (False, True, False), "whether anything was computed that is kept"
    assert dict(plain.counts()) | {"from the store": second.from_store} == dict(second.counts())
    for one, other in zip(plain.by_metric, second.by_metric, strict=True):
        assert np.array_equal(one.draws(TIMES).reshape(-1, TIMES), other.draws(TIMES))
        assert (one.key, other.key != "") == ("", True)
    labels = [label for part in slices for metric in read_metrics(METRICS) for label, _ in evaluate([metric], cell, part)]
    assert first.table()["metric"].to_pylist() == labels


def test_one_metric_changed_computes_that_one(tmp_path: Path) -> None:
    cell = made_cell(made_samples())
    slices = make_slices(cell.samples, [], TIMES, 7)
    store = ScoreStore("code", root=tmp_path)
    Measuring(read_metrics(METRICS), 0.95, store).measure(cell, slices)
    changed = [ref if ref["label"] != "ece" else ref | {"args": ref["args"] | {"bins": 4}} for ref in METRICS]
    again = Measuring(read_metrics(changed), 0.95, store).measure(cell, slices)
    assert {label.partition("[")[0] for _, values, _ in again.computed for label, _ in values} == {"ece"}
    assert again.is_new and 0 < again.from_store < again.table().num_rows
    assert again.table().equals(Measuring(read_metrics(changed), 0.95).measure(cell, slices).table())


def nudged(values: Any) -> Any:
    """The last bit of one number is another."""
    other = np.array(values)
    other.flat[17] = np.nextafter(other.flat[17], 9.0)
    return other


def with_redraw(cell: Cell, **changes: Any) -> Cell:
    own = cell.settings["half"]
    return replace(cell, settings={"half": replace(own, redraws={"lac": replace(own.redraws["lac"], **changes)})})


CHANGES: dict[str, tuple[Any, set[str]]] = {
    "an answer's correctness": (lambda c: replace(c, columns=c.columns | {"correct": 1 - c.columns["correct"]}), EVERY),
    "a confidence": (lambda c: replace(c, columns=c.columns | {"confidence": nudged(c.columns["confidence"])}), EVERY),
    "a column more": (lambda c: replace(c, columns=c.columns | {"rated_by_vqa": np.ones(N)}), EVERY),
    "the variant": (lambda c: replace(c, variant="blur"), EVERY),
    "why nothing is scored": (lambda c: replace(c, why_unscored="another question"), EVERY),
    "why an answer is unscored": (lambda c: replace(c, reasons=Reasons(np.array(["no text"] * N, dtype=object))), EVERY),
    "who was asked": (lambda c: replace(c, asked=np.arange(N) < 50), EVERY),
    "groups": (lambda c: replace(c, samples=made_samples(groups=29)), EVERY),
    "categories": (lambda c: replace(c, samples=made_samples(categories=3)), EVERY),
    "an uncertainty": (lambda c: replace(c, uncertainties=c.uncertainties | {"v": nudged(c.uncertainties["v"])}), {"auroc"}),
    "an estimator": (lambda c: replace(c, uncertainties={"u": c.uncertainties["u"]}), {"auroc"}),
    "the order of estimators": (lambda c: replace(c, uncertainties=dict(reversed(c.uncertainties.items()))), {"auroc"}),
    "what calibrates": (
        lambda c: replace(c, settings={"half": replace(c.settings["half"], is_calibration=1 - c.settings["half"].is_calibration)}),
        OF_SETS,
    ),
    "the name of a setting": (lambda c: replace(c, settings={"other": c.settings["half"]}), OF_SETS),
    "where options enter sets": (lambda c: with_redraw(c, enters=nudged(c.settings["half"].redraws["lac"].enters)), OF_SETS),
    "alpha": (lambda c: with_redraw(c, alpha=0.2), OF_SETS),
    "the sample's own threshold": (lambda c: with_redraw(c, kept=(0.7,)), OF_SETS),
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_a_number_depends_on_is_in_its_key(what: str) -> None:
    cell = made_cell(made_samples())
    change, affected = CHANGES[what]
    before, after = keys(cell), keys(change(cell))
    assert {label for label in EVERY if before[label] != after[label]} == affected
    assert keys(made_cell(made_samples())) == before


@pytest.mark.parametrize(
    "more",
    [{"level": 0.9}, {"seed": 8}, {"times": TIMES + 1}, {"fields": []}, {"store": ScoreStore("other code")}],
    ids=lambda more: next(iter(more)),
)
def test_so_are_level_seed_resamples_slices_and_code(more: dict[str, Any]) -> None:
    cell = made_cell(made_samples())
    before, after = keys(cell), keys(cell, **more)
    assert not set(before.values()) & set(after.values())


def test_so_is_the_metric_its_label_its_parameters_and_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = made_cell(made_samples())
    before = keys(cell)
    for change in ({"label": "ece@bins=5"}, {"args": {"bins": 5, "rows": "test"}}, {"plugin": "mce"}):
        (key,) = keys(cell, [METRICS[3] | change]).values()
        assert key not in before.values()
    monkeypatch.setattr(cell_scores, "engine_digest", lambda module: f"{module} edited" if module.endswith(".ece") else "same")
    edited = keys(cell)
    monkeypatch.setattr(cell_scores, "engine_digest", lambda module: "same")
    same = keys(cell)
    assert {label for label in EVERY if edited[label] != same[label]} == {"ece"}


def test_the_store_is_that_of_the_code_and_the_model_has_no_part_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = cell_scores.score_store().key("k")
    monkeypatch.setattr(cell_scores, "engine_digest", lambda module: "another")
    assert cell_scores.score_store().key("k") != before
    cell = made_cell(made_samples())
    assert keys(replace(cell, model="other")) == keys(cell)


def test_settings_share_what_their_calibration_rows_do_not_change() -> None:
    cell = made_cell(made_samples())
    half = cell.settings["half"]
    cell = replace(cell, settings={"half": half, "same": half, "other": replace(half, is_calibration=1 - half.is_calibration)})
    (whole, *_) = make_slices(cell.samples, [], TIMES, 7)
    refs = [{"label": rows, "plugin": "ece", "args": {"rows": rows}} for rows in ("all", "test")]
    for metric, expected in zip(read_metrics(refs), (1, 2), strict=True):
        tasks, labels = tasks_of([metric], cell, whole)
        assert (len(tasks), len(labels)) == (expected, 3)
    values = {label: measured.value for label, measured in evaluate(read_metrics(refs), cell, whole)}
    assert values["all[half]"] == values["all[other]"] and values["test[half]"] == values["test[same]"] != values["test[other]"]
