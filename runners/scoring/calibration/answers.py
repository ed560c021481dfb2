"""Recalibrated confidences of single answers, as a table."""

import numpy as np
import pyarrow as pa

from qualm.registry.sample import RECALIBRATED
from qualm.runners.runtime.records import make_table
from qualm.runners.scoring.calibration.fits import Recalibration
from qualm.runners.scoring.cells import Cell


def recalibrated_answers(cell: Cell, recalibration: Recalibration) -> pa.Table:
    """Return a RECALIBRATED table: answers that calibrate or have a recalibrated confidence."""
    confidence = recalibration.columns["confidence"]
    fitted = np.zeros(cell.samples.n, dtype=bool)
    fitted[recalibration.rows] = True
    rows = np.flatnonzero(fitted | ~np.isnan(confidence))
    option = recalibration.columns.get("predicted", np.full(cell.samples.n, np.nan))[rows]
    texts = {
        "model": cell.model,
        "dataset": cell.samples.name,
        "variant": cell.variant,
        "setting": recalibration.setting,
        "method": recalibration.method,
    }
    ends = np.full((2, cell.samples.n), np.nan) if recalibration.ends is None else recalibration.ends
    columns = {
        "estimator": pa.array([recalibration.of or None] * len(rows), pa.string()),
        "sample_id": cell.samples.ids.take(pa.array(rows)),
        "confidence": pa.array(confidence[rows], mask=np.isnan(confidence[rows])),
        "option": pa.array(np.nan_to_num(option, nan=-1).astype(np.int64), mask=np.isnan(option)),
        "is_calibration": pa.array(fitted[rows]),
        **{name: pa.array(end[rows], mask=np.isnan(end[rows])) for name, end in zip(("p0", "p1"), ends, strict=True)},
    }
    return make_table(RECALIBRATED, texts, columns)
