"""Cells of a dataset, read from a stage's tables."""

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from qualm.registry import BLIND, PICTURES, abstaining_name, option_label
from qualm.registry.plugins.column_names import RATED_BY, SAMPLED_COLUMNS
from qualm.registry.plugins.columns import judge_of
from qualm.registry.sample import CLEAN
from qualm.runners.data.aligned import Floats, Samples, greedy_by_variant, option_probabilities
from qualm.runners.data.calibration_split import Precision
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.calibration.conformal_draws import Redraw, precision, redraw
from qualm.runners.scoring.calibration.fits import FittedOn, Recalibration, Scores, recalibrations
from qualm.runners.scoring.cells import INPUT_CHANGED, Cell, Setting
from qualm.runners.scoring.collapse import most_frequent
from qualm.runners.scoring.measuring.by_cell import split
from qualm.runners.scoring.measuring.columns import answer_columns, numbers
from qualm.runners.scoring.measuring.tables import Tables, fits_elsewhere
from qualm.runners.scoring.score_warnings import describe_dispute, lexical_sentences
from qualm.runners.scoring.unscored import reasons

BLIND_VARIANTS = frozenset(BLIND[way] for way in PICTURES)
CONFIDENCE = {"sequence": ["token_logprobs"], "verify": ["p_yes"]}
"""Columns that the confidence of an open answer is read from."""


def read_cells(
    stage: Stage, samples: Samples, tables: Tables, only: str | None = None, variants: Collection[str] | None = None
) -> Iterator[Cell]:
    """Yield a dataset's cells: each model's variants, each followed by its abstention cells.

    Models come by name, or `only` one; variants in the order of their generations, or some of them. A baseline without the image counts as
    a clean one.
    """
    chosen = None if variants is None else {*variants, *(BLIND_VARIANTS if CLEAN in variants else ())}
    for model, files in sorted(stage.inputs["generations"].items()):
        if samples.name in files and only in (None, model):
            yield from _of_model(stage, samples, tables, model, files[samples.name], chosen)


def _of_model(stage: Stage, samples: Samples, tables: Tables, model: str, path: str, chosen: Collection[str] | None) -> Iterator[Cell]:
    """Yield one model's cells of all or the `chosen` variants, with those of abstentions."""
    columns = ["text", "no_answer", "verdict", "input_digest", "option_logits", *CONFIDENCE[stage.params["confidence"]]]
    answers = greedy_by_variant(path, columns)
    cells_of = partial(_cells, samples, tables, model, path, answers.get(CLEAN), alone=len(answers) == 1)
    clean = {cell.model: cell for cell in cells_of(CLEAN, answers[CLEAN])} if CLEAN in answers else {}
    of_clean = _scores(clean[model], answers[CLEAN], path) if tables.calibrators and clean else None
    held = _read_held_out(tables, samples.name, model, path, answers[CLEAN]) if of_clean is not None else None
    for variant, table in answers.items():
        if chosen is not None and variant not in chosen:
            continue
        if variant in BLIND_VARIANTS:
            yield next(cells_of(variant, table)).blind()
            continue
        for cell in clean.values() if variant == CLEAN else cells_of(variant, table):
            if of_clean is not None and cell.model == model:
                own = of_clean if variant == CLEAN else _scores(cell, table, f"{path}: {variant}")
                cell.recalibrations = list(_recalibrated(cell, tables, of_clean, held, own))
            yield cell if variant == CLEAN else cell.paired(clean.get(cell.model))


def _cells(
    samples: Samples, tables: Tables, model: str, path: str, clean: pa.Table | None, variant: str, table: pa.Table, alone: bool = True
) -> Iterator[Cell]:
    """Yield a variant's cell, then one per abstention method; `alone`: it is the only variant."""
    key, answers, where = (model, samples.name, variant), samples.filter_table(table), f"{path}: {variant}"
    judged, judges = tables.judgements.get(key), (tables.judge(samples.name), tables.judge_of_choices.get(samples.name))
    cell = Cell(
        model,
        samples,
        variant,
        answer_columns(samples, answers, judged, judges, where, tables.unread == "wrong"),
        _settings(samples, tables.sets.get(key), f"conformal sets of {' / '.join(key)}"),
        _uncertainties(samples, tables.uncertainties.get(key), f"uncertainties of {' / '.join(key)}"),
        reasons=replace(
            reasons(samples, answers, judged, judges, where, None if clean is None or variant == CLEAN else samples.filter_table(clean)),
            probed=tables.probed,
        ),
        asked=tables.asked_rows(model, samples),
        unread=tables.unread,
    )
    if tables.labels is not None:
        found, cell.why_unlabelled = tables.labels.columns(key, samples, answers)
        cell.columns |= found
    if variant == CLEAN:
        cell.disputed = describe_dispute(samples, answers, cell.columns["correct"], where)
        compared = [label for label in tables.lexical if label in cell.uncertainties]
        is_open = samples.n_options[samples.rows_of(answers["sample_id"], where)] == 0
        cell.caution = lexical_sentences(answers["text"].filter(pa.array(is_open)).drop_null().to_pylist(), compared) if compared else ""
    if tables.unread == "wrong":
        _count_unread_as_wrong(cell)
    if not alone:
        cell.frequent = most_frequent(_answers_as_text(cell, answers, where))
    if clean is not None and variant != CLEAN:
        cell.columns |= _input_changed(samples, samples.filter_table(clean), answers, where)
    if clean is not None:
        _fill_in_redraws(cell, tables.settings, clean, answers, where)
    if variant in tables.unscored:
        cell = cell.without_reference()
    yield cell
    yield from _cells_with_abstentions(cell, tables.abstentions.get(key), f"abstentions of {' / '.join(key)}")


def _scores(cell: Cell, answers: pa.Table, where: str) -> Scores:
    """Return the columns of a cell that calibrators read."""
    choice = cell.samples.n_options > 0
    probs = option_probabilities(cell.samples, cell.samples.filter_table(answers), where) if choice.any() else None
    return Scores(cell.columns["confidence"], cell.columns["correct"], probs, cell.uncertainties)


def _recalibrated(cell: Cell, tables: Tables, clean: Scores, held: FittedOn | None, own: Scores) -> Iterator[Recalibration]:
    """Yield the cell's recalibrated confidences, for every calibrator of the spec in turn."""
    samples = cell.samples
    choice = samples.n_options > 0
    for setting in tables.calibrators:
        if fits_elsewhere(setting):
            assert held is not None
            draws = tables.held_draws(setting, samples.name)
            yield from recalibrations(setting, replace(held, held=draws), own, choice, samples.truth)
        else:
            fitted_on = FittedOn(clean, choice, samples.truth, samples.groups, tables.calibrating(setting, samples))
            yield from recalibrations(setting, fitted_on, own, choice, samples.truth)


def _read_held_out(tables: Tables, name: str, model: str, path: str, clean: pa.Table) -> FittedOn | None:
    """Return a model's answers to held-out calibration questions; None if none are needed."""
    if tables.held is None:
        return None
    samples = tables.held.datasets[name]
    cell = next(_cells(samples, tables.held, model, path, clean, CLEAN, clean))
    everything = np.ones(samples.n, dtype=bool)
    return FittedOn(_scores(cell, samples.filter_table(clean), path), samples.n_options > 0, samples.truth, samples.groups, everything)


def _count_unread_as_wrong(cell: Cell) -> None:
    """Rate unrated answers as wrong, in place, except rows that can have no value by design.

    In these rows, columns about the sampled answers become NaN.
    """
    assert cell.reasons is not None
    rows = np.arange(cell.samples.n) if cell.asked is None else np.flatnonzero(cell.asked)
    rows = rows[~cell.reasons.by_design(rows)]
    is_open = cell.samples.n_options == 0
    for name in SAMPLED_COLUMNS & cell.columns.keys():
        cell.columns[name][np.setdiff1d(np.arange(cell.samples.n), rows)] = np.nan
    for name, of in cell.columns.items():
        if name == "correct" or name.startswith(RATED_BY):
            mine = rows if name == "correct" else rows[is_open[rows]]
            of[mine[np.isnan(of[mine])]] = 0.0
    if {"pred_is_idk", "gt_is_idk"} <= cell.columns.keys():
        pred = cell.columns["pred_is_idk"]
        missing = rows[np.isnan(pred[rows])]
        pred[missing] = 1 - cell.columns["gt_is_idk"][missing]


def _answers_as_text(cell: Cell, answers: pa.Table, where: str) -> Iterator[str | None]:
    """Yield each answer's text, in order; where an option was picked, as `option A`."""
    predicted = cell.columns.get("predicted", np.full(cell.samples.n, np.nan))
    for row, text in zip(cell.samples.rows_of(answers["sample_id"], where), answers["text"].to_pylist(), strict=True):
        yield text if np.isnan(predicted[row]) else f"option {option_label(int(predicted[row]))}"


def _input_changed(samples: Samples, clean: pa.Table, answers: pa.Table, where: str) -> dict[str, Floats]:
    """Return {INPUT_CHANGED: (n,) 1, 0 or NaN if unknown}; {} if it is known of no row."""
    before = dict(zip(clean["sample_id"].to_pylist(), clean["input_digest"].to_pylist(), strict=True))
    changed = np.full(samples.n, np.nan)
    names, after = answers["sample_id"].to_pylist(), answers["input_digest"].to_pylist()
    for row, name, digest in zip(samples.rows_of(answers["sample_id"], where), names, after, strict=True):
        if digest is not None and before.get(name) is not None:
            changed[row] = digest != before[name]
    return {} if np.isnan(changed).all() else {INPUT_CHANGED: changed}


def _cells_with_abstentions(cell: Cell, table: pa.Table | None, where: str) -> Iterator[Cell]:
    """Yield a copy of the cell per abstention method, some answers turned into abstentions.

    A refusal that a threshold makes is right where declining is. Answers that the threshold was chosen on, and those it
    cannot be applied to, are unscored. Estimators spoke of the answer that was turned, so they have no say here.
    """
    for (method,), part in split(table, ["method"]) if table is not None else ():  # type: ignore[misc]
        rows = cell.samples.rows_of(part["sample_id"], where)
        abstains = numbers(part["abstains"])
        chosen_on = numbers(part["is_fit"]) != 0
        scored = ~chosen_on & ~np.isnan(abstains)
        changed = {
            "confidence": numbers(part["confidence"]),
            "correct": np.where(abstains == 1, cell.columns["gt_is_idk"][rows], cell.columns["correct"][rows]),
            "pred_is_idk": np.where(abstains == 1, 1.0, cell.columns["pred_is_idk"][rows]),
            "hedges": np.where(abstains == 1, 0.0, cell.columns["hedges"][rows]),
        }
        if "people_rating" in cell.columns:
            by_people = cell.columns["people_rating"][rows]
            changed["people_rating"] = np.where(abstains == 1, cell.columns["gt_is_idk"][rows], by_people)
        columns = {name: values for name, values in cell.columns.items() if judge_of(name) is None and name not in SAMPLED_COLUMNS}
        for name, values in changed.items():
            columns[name] = np.where(cell.samples.n_options == 0, np.nan, columns[name])
            columns[name][rows] = np.where(scored, values, np.nan)
        why = None if cell.reasons is None else cell.reasons.under_threshold(rows, chosen_on, ~scored & ~chosen_on)
        yield replace(cell, model=abstaining_name(cell.model, method), columns=columns, uncertainties={}, recalibrations=[], reasons=why)


def _settings(samples: Samples, table: pa.Table | None, where: str) -> dict[str, Setting]:
    settings: dict[str, Setting] = {}
    ids, rows = None, np.empty(0, dtype=np.int64)
    for (setting, score), part in split(table, ["setting", "score"]) if table is not None else ():  # type: ignore[misc]
        if ids is None or not part["sample_id"].equals(ids):  # mostly all have the same
            ids, rows = part["sample_id"], samples.rows_of(part["sample_id"], where)
        filled = {}
        for name in ("is_calibration", "covered", "set_size"):
            filled[name] = np.full(samples.n, 0.0 if name == "is_calibration" else np.nan)
            filled[name][rows] = numbers(part[name])
        of = settings.setdefault(setting, Setting(filled["is_calibration"]))
        if not np.array_equal(of.is_calibration, filled["is_calibration"]):
            raise StageError(f"{where}: scores of setting '{setting}' calibrate on different rows; run `dvc repro`")
        of.scores[score] = {name: filled[name] for name in ("covered", "set_size")}
    return settings


def _fill_in_redraws(cell: Cell, settings: dict[str, dict[str, Any]], clean: pa.Table, table: pa.Table, where: str) -> None:
    """Set in each conformal setting of a cell how it is recalibrated in resamples."""
    samples, of_clean = cell.samples, None if cell.variant == CLEAN else cell.samples.filter_table(clean)
    redraw_of: dict[tuple[str, bytes], Redraw] = {}  # settings that differ by name alone share one
    probabilities: dict[Precision, tuple[Floats, Floats]] = {}
    for name in (n for n in cell.settings if n in settings):
        of, setting = cell.settings[name], settings[name]
        if (kind := precision(setting)) not in probabilities:
            probs = option_probabilities(samples, table, where, kind)
            before = probs if of_clean is None else option_probabilities(samples, of_clean, where, kind)
            probabilities[kind] = before, probs
        for ref in (r for r in setting["scores"] if r["label"] in of.scores):
            same = json.dumps([{**setting, "label": "", "scores": []}, ref], sort_keys=True), of.is_calibration.tobytes()
            if same not in redraw_of:
                redraw_of[same] = redraw(setting, ref, *probabilities[kind], samples.truth, of.is_calibration, samples)
            of.redraws[ref["label"]] = redraw_of[same]


def _uncertainties(samples: Samples, table: pa.Table | None, where: str) -> dict[str, Floats]:
    by_estimator = {}
    for (estimator,), part in split(table, ["estimator"]) if table is not None else ():  # type: ignore[misc]
        by_estimator[estimator] = np.full(samples.n, np.nan)
        by_estimator[estimator][samples.rows_of(part["sample_id"], where)] = numbers(part["value"])
    return by_estimator
