"""Apply a conformal setting to one model's answers: its thresholds and prediction sets, as rows of tables."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from qualm.registry.sample import CLEAN, CONFORMAL_SETS
from qualm.runners.data.aligned import Samples
from qualm.runners.data.calibration_split import Bools, Floats
from qualm.runners.runtime.records import make_table
from qualm.runners.runtime.stage import StageError
from qualm.runners.scoring.calibration.conformal_band import band, design_effect, exchangeable_unit, independent_rows
from qualm.runners.scoring.calibration.conformal_draws import precision
from qualm.runners.scoring.calibration.conformal_parts import QuestionParts, parts_of
from qualm.runners.scoring.calibration.conformal_scores import option_scores
from qualm.runners.scoring.calibration.conformal_sets import prediction_sets, threshold, units_of


def apply_conformal(
    samples: Samples, probs: Mapping[str, Floats], calibrates: Bools, setting: dict[str, Any], ref: dict[str, Any], key: dict[str, str]
) -> tuple[list[dict[str, Any]], list[pa.Table]]:
    """Return rows of CONFORMAL_THRESHOLDS, and a table of CONFORMAL_SETS per variant.

    Args:
        probs: variant -> (n, K) option probabilities of one model; NaN rows where undefined.
        calibrates: (n,) True for the calibration rows.
        setting: the conformal setting, and `ref` its nonconformity score.
        key: `model`, `dataset`, `setting` and `score` of the rows.

    Raises:
        StageError: the model has no answers to the clean variant.
    """
    where = f"model '{key['model']}', dataset '{key['dataset']}'"
    if CLEAN not in probs:
        raise StageError(f"{where}: expected answers to the clean variant to calibrate on, found none")
    scores = {variant: option_scores(setting, ref, p, samples, where) for variant, p in probs.items()}
    scored = ~np.isnan(probs[CLEAN]).all(axis=1)
    usable = np.flatnonzero(calibrates & scored & (samples.truth >= 0))
    own = scores[CLEAN][usable, samples.truth[usable]].astype(probs[CLEAN].dtype)
    parts, units = parts_of(samples, setting), units_of(samples.groups, setting)
    if parts is None:
        limits = np.array([threshold(own, setting["alpha"], setting["quantile"], units[usable])])
    else:
        own_of_row = np.full(samples.n, np.nan, dtype=own.dtype)
        own_of_row[usable] = own
        limits = parts.thresholds(own_of_row, setting["alpha"], setting["quantile"], units)
    by_option = limits[0] if parts is None else parts.of_options(limits)
    without = np.zeros(samples.n, dtype=bool) if parts is None else parts.lacks_threshold(limits)
    sets = {v: prediction_sets(of, probs[v], by_option, setting["empty_set"], precision(setting)) for v, of in scores.items()}
    tables = [_table(samples, probs[v], inside, calibrates, key | {"variant": v}, parts, without) for v, (inside, _) in sets.items()]
    inside, empty = sets[CLEAN]
    test = ~calibrates & scored
    same = key | {"alpha": setting["alpha"]}
    if parts is None:
        counts = {"n_calibration": len(usable), "n_groups": len(np.unique(samples.groups[usable]))}
        counts |= {"n_test": int(test.sum()), "n_empty": int((empty & test).sum())}
        return [same | {"threshold": limits[0]} | counts], tables
    return [same | row for row in _by_part(samples, parts, limits, usable, test, inside, empty, setting)], tables


def _by_part(
    samples: Samples,
    parts: QuestionParts,
    limits: Floats,
    usable: NDArray[np.int64],
    test: Bools,
    inside: Bools,
    empty: Bools,
    setting: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    """Yield a row per question part: calibration size, threshold, clean coverage and size.

    The last row counts the questions of no part.
    """
    units, by_group = units_of(samples.groups, setting), exchangeable_unit(samples, setting) == "group"
    calibrating = np.zeros(samples.n, dtype=bool)
    calibrating[usable] = True
    for p, name in enumerate(parts.names):
        own = parts.of_row == p
        rows = np.flatnonzero(own & test & (samples.truth >= 0))
        fit = np.flatnonzero(calibrating & own)
        row: dict[str, Any] = {"per": parts.per, "part": name, "n_calibration": len(fit), "n_groups": len(np.unique(samples.groups[fit]))}
        row["n_test"] = int((own & test).sum())
        if not np.isnan(limits[p]):
            row |= {"threshold": limits[p], "n_empty": int((empty & own & test).sum())}
            if len(rows):
                covered = inside[rows, samples.truth[rows]].astype(np.float64)
                group = np.unique(samples.groups[rows], return_inverse=True)[1]
                each = independent_rows(covered, group) if by_group else None
                sizes = [(len(np.unique(units[fit])), len(rows))]
                expected = band(setting["alpha"], setting["quantile"], sizes, design_effect(covered, group), each)
                row |= {"coverage": float(covered.mean()), "band_low": expected.low, "band_high": expected.high}
                row["mean_size"] = float(inside[rows].sum(axis=1).mean())
        yield row
    if (lost := int((test & (parts.of_row < 0)).sum())) and not parts.of_labels:
        yield {"per": parts.per, "part": None, "n_calibration": 0, "n_groups": 0, "n_test": lost}


def _table(
    samples: Samples, probs: Floats, inside: Bools, calibrates: Bools, same: dict[str, str], parts: QuestionParts | None, without: Bools
) -> pa.Table:
    """Return CONFORMAL_SETS rows of a variant's multiple-choice questions; unknowns are null.

    `set_mask` and `set_size` are null without option probabilities, and where a part of questions has no threshold. `covered` is null
    there, without a right option, and where the right option has no threshold.
    """
    rows = np.flatnonzero(samples.n_options)
    inside, missing, without = inside[rows], np.isnan(probs[rows]).all(axis=1), without[rows]
    if parts is not None and not parts.of_labels:
        missing = missing | without
    truth = samples.truth[rows]
    masks = (inside * (np.uint64(1) << np.arange(inside.shape[1], dtype=np.uint64))).sum(axis=1, dtype=np.uint64)
    columns = {
        "sample_id": samples.ids.take(pa.array(rows)),
        "is_calibration": pa.array(calibrates[rows]),
        "set_mask": pa.array(masks, mask=missing),
        "set_size": pa.array(inside.sum(axis=1).astype(np.int16), mask=missing),
        "covered": pa.array(inside[np.arange(len(rows)), np.maximum(truth, 0)], mask=missing | (truth < 0) | without),
    }
    return make_table(CONFORMAL_SETS, same, columns)
