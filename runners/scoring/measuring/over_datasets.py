"""Macro averages over datasets: the mean of a metric's values, each dataset counting alike."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from qualm.registry.sample import ALL, MACRO_DATASETS
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.limits import Limits, clip_to_bounds, standard_error
from qualm.runners.scoring.measuring.intervals import freedom_of, value_columns
from qualm.runners.scoring.measuring.macro import ValueEstimate, macro_limits
from qualm.runners.scoring.measuring.measured import Measured, Slice, macro_average

Key = tuple[str, str, str, str]
"""(model, variant, slice, label)."""


@dataclass(frozen=True)
class DatasetValue:
    """A metric's value on one dataset with its interval, but without resamples."""

    measured: Measured
    ends: Limits
    freedom: float
    error: float
    """Standard error over resamples; NaN without an interval, as are its degrees of freedom."""
    n_resamples: int
    n_undefined: int


@dataclass
class OverDatasets:
    """Collects values of whole datasets and averages them over datasets."""

    level: float
    values: dict[Key, dict[str, DatasetValue]] = field(default_factory=dict)

    def add(self, cell: Cell, part: Slice, values: Sequence[tuple[str, Measured]], limits: Sequence[Limits]) -> None:
        """Add a cell's values on a slice of all rows or a macro average; ignore other slices."""
        if part.label != ALL and not part.macro:
            return
        for (label, measured), ends in zip(values, limits, strict=True):
            kept = replace(
                measured,
                resampled=np.empty(0),
                slice_of_macro=cell.samples.name,
                group_codes=None,
                averaged=(),
                own_interval=None,
                null_test=None,
                minimum_standard_error=None,
                given=None,
                deleted=np.empty(0),
            )
            error = freedom = math.nan
            if not math.isnan(ends.low):
                error, freedom = standard_error(measured.resampled, measured.groups or 0), freedom_of(measured, measured.groups or 0)
            value = DatasetValue(kept, ends, freedom, error, len(measured.resampled), measured.undefined)
            self.values.setdefault((cell.model, cell.variant, part.label, label), {})[cell.samples.name] = value

    def rows(self, datasets: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield a LABELLED_SCORES row per average over `datasets`, undefined if one lacks it.

        Datasets are taken for independent. An average is undefined if a dataset has no value, and has no interval if a dataset has none;
        the reason names the dataset.
        """
        for (model, variant, part, label), by_dataset in self.values.items():
            of = [by_dataset.get(name) or _not_measured(name) for name in datasets]
            average = macro_average([one.measured for one in of])
            average.groups = sum(one.measured.groups or 0 for one in of)
            numbers = value_columns(average, self._ends(of, average), self.level)
            resamples = {"n_resamples": min(one.n_resamples for one in of), "n_undefined_resamples": sum(one.n_undefined for one in of)}
            place = {"model": model, "dataset": MACRO_DATASETS, "variant": variant, "slice": part, "metric": label}
            yield place | {"collapsed": None, "disputed": None, "caution": None} | numbers | resamples

    def _ends(self, of: Sequence[DatasetValue], average: Measured) -> Limits:
        if math.isnan(average.value):
            return Limits()
        if without := next((one for one in of if math.isnan(one.ends.low)), None):
            return Limits(why_none=f"{without.measured.slice_of_macro}: {without.ends.why_none}")
        estimates = [ValueEstimate(one.measured.value, one.ends, one.freedom, one.error) for one in of]
        ends = macro_limits(estimates, self.level)
        return ends if ends.why_none else clip_to_bounds(ends, average.value, average.bounds)


def _not_measured(dataset: str) -> DatasetValue:
    measured = Measured(math.nan, np.empty(0), 0, 0, "it was not measured there", slice_of_macro=dataset)
    return DatasetValue(measured, Limits(), math.nan, math.nan, 0, 0)
