"""A threshold for every part of the questions: Mondrian conformal prediction.

Vovk, Gammerman, Shafer, Algorithmic Learning in a Random World, 2005, section 4.5; class-conditional sets: Vovk, Conditional validity of
inductive conformal predictors, ACML 2012. The rows of a part calibrate its threshold alone, so what is promised holds within each part.

With n exchangeable units (groups with a row of the part, or rows) a part has a threshold if ceil((n + 1)(1 - alpha)) <= n; nothing stands
in for one that it lacks. A question of such a part has no set. An option of such a label can be left out of no set, so it is in all; if it
is the right one, "covered" is undefined.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.registry import OPTION_PARTS, option_label
from qualm.runners.contracts.grouped_weights import Floats
from qualm.runners.data.aligned import Samples, check_fields, score_stage
from qualm.runners.data.calibration_split import Bools, calibration_rows
from qualm.runners.data.splits import read_scored
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.calibration.conformal_sets import Ints, fewest_units, threshold, units_of


@dataclass(frozen=True, eq=False)
class QuestionParts:
    """Parts of the questions with a threshold each: the part of each row and option, or -1."""

    per: str
    names: tuple[str, ...]
    of_row: Ints
    """(n,): whose threshold a row calibrates, and within which it is to be covered."""
    of_option: Ints
    """(n, K): whose threshold decides on an option."""

    @property
    def of_labels(self) -> bool:
        return self.per in OPTION_PARTS

    @property
    def partition_label(self) -> str:
        """Return the field that forms the parts, or words for it: "letter of the right option"."""
        return OPTION_PARTS.get(self.per, self.per)

    def thresholds(self, scores: Floats, alpha: float, quantile: Any, units: Ints) -> Floats:
        """Return (P,) thresholds of (n,) scores (NaN: unused) by part; NaN with too few units."""
        of_part = [~np.isnan(scores) & (self.of_row == p) for p in range(len(self.names))]
        limits = [threshold(scores[rows], alpha, quantile, units[rows]) for rows in of_part]
        return np.array([math.nan if np.isinf(limit) else limit for limit in limits])

    def of_options(self, limits: Floats) -> Floats:
        """Return option thresholds (n, K); missing ones are NaN, or +inf if parts are of options."""
        # The appended NaN is what index -1, no part, finds.
        each = np.append(limits, math.nan)[self.of_option]
        return np.where(np.isnan(each), math.inf, each) if self.of_labels else each

    def lacks_threshold(self, limits: Floats) -> NDArray[np.bool_]:
        """Return (n,) True for rows of no part, or of a part whose threshold in `limits` is NaN."""
        return np.asarray(np.isnan(np.append(limits, math.nan)[self.of_row]))

    def why_incomplete(self, limits: Floats) -> str:
        """Return which parts lack a threshold, and how many questions have no part; "" if none."""
        there = np.bincount(self.of_row[self.of_row >= 0], minlength=len(self.names)) > 0
        names = [name for name, limit, any_row in zip(self.names, limits, there, strict=True) if any_row and np.isnan(limit)]
        sentences = []
        if names:
            listed = ", ".join(f"'{name}'" for name in names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            few = f"too few questions (or groups of questions) calibrate a threshold of {self.per} {listed}"
            sentences.append(f"{few}: take more, or a larger alpha")
        if (self.of_row < 0).any() and not self.of_labels:
            sentences.append(f"no '{self.per}' of {(self.of_row < 0).sum():,} questions")
        return "; ".join(sentences)

    def select(self, rows: Ints) -> QuestionParts:
        """Return a copy with the parts of a subset of rows."""
        return replace(self, of_row=self.of_row[rows], of_option=self.of_option[rows])


def parts_of(samples: Samples, setting: Mapping[str, Any]) -> QuestionParts | None:
    """Return the question parts by a setting's `per:`; None if all share one threshold."""
    per = setting.get("per")
    if per is None:
        return None
    width = int(samples.n_options.max(initial=0))
    exists = np.arange(width) < samples.n_options[:, None]
    if per == "label":
        names = [option_label(i) for i in range(width)]
        return QuestionParts(per, tuple(names), samples.truth, np.where(exists, np.arange(width), -1))
    if per == "option":
        return _by_text(samples, per, width)
    values = samples.values(per)
    names = sorted({v for v, n in zip(values, samples.n_options, strict=True) if v is not None and n})
    place = {name: i for i, name in enumerate(names)}
    of_row = np.array([place.get(v, -1) if v is not None else -1 for v in values], dtype=np.int64)
    of_row[samples.n_options == 0] = -1
    return QuestionParts(per, tuple(names), of_row, np.where(exists, of_row[:, None], -1))


def calibrating_rows(samples: Samples, setting: Mapping[str, Any]) -> Bools:
    """Return (n,) True for a setting's calibration rows; open questions never calibrate.

    Within parts, questions of no part do not calibrate either. The rows are the same for every model and variant.

    Raises:
        StageError: the questions, or those of a part, are too few to be split, or to have a threshold.
    """
    rule, chosen = setting["calibration"], np.zeros(samples.n, dtype=bool)
    within = rule.get("within")
    parts = None if within is None else parts_of(samples, {"per": within})
    names = [""] if parts is None else [f": {parts.partition_label} '{name}'" for name in parts.names]
    for p, name in enumerate(names):
        rows = np.flatnonzero((samples.n_options > 0) if parts is None else parts.of_row == p)
        if parts is not None and not len(rows):  # a letter under which no right option stands
            continue
        where = f"conformal setting '{setting['label']}', dataset '{samples.name}'{name}"
        try:
            chosen[rows] = calibration_rows(samples.groups[rows], rule["fraction"], rule["seed"], rule["split"])
        except ValueError as error:
            raise StageError(f"{where}: {error}") from error
        units, needed = len(np.unique(units_of(samples.groups, setting)[rows[chosen[rows]]])), fewest_units(setting["alpha"])
        if parts is not None and units < needed:
            what = f"{units} of its {len(rows)} questions" if rule["split"] == "rows" else f"{units} groups of its {len(rows)} questions"
            raise StageError(
                f"{where}: {what} calibrate, and a threshold at alpha {setting['alpha']:g} needs {needed}; "
                f"take more questions, a larger alpha, or `per: {within}` without `within:`"
            )
    return chosen


def check_calibration(stage: Stage) -> None:
    """Raise StageError if a spec's questions cannot be calibrated within the parts it names.

    It checks nothing while datasets are still to be made.
    """
    if score := score_stage(stage):
        settings = [of for of in score.params.get("conformal", ()) if of["calibration"].get("within") is not None]
        folders = sorted(score.inputs["datasets"].items()) if settings else []
        datasets = [samples for name, folder in folders if (samples := read_scored(score, name, folder)).n_options.any()]
        check_parts(settings, datasets)
        for setting in settings:
            for samples in datasets:
                calibrating_rows(samples, setting)


def check_parts(settings: Sequence[Mapping[str, Any]], datasets: Sequence[Samples]) -> None:
    """Raise StageError if no dataset has the field by which a setting forms its parts."""
    for setting in settings:
        if (per := setting.get("per")) is not None and per not in OPTION_PARTS:
            name = "calibration.within" if setting["calibration"].get("within") else "per"
            check_fields(f"conformal setting '{setting['label']}', {name}", [per], datasets)


def _by_text(samples: Samples, per: str, width: int) -> QuestionParts:
    texts = [[" ".join(str(option).split()).casefold() for option in options or ()] for options in samples.table["choices"].to_pylist()]
    names = sorted({text for options in texts for text in options})
    place = {name: i for i, name in enumerate(names)}
    of_option = np.full((samples.n, width), -1, dtype=np.int64)
    for row, options in enumerate(texts):
        of_option[row, : len(options)] = [place[text] for text in options]
    truth = samples.truth
    own = of_option[np.arange(samples.n), np.maximum(truth, 0)] if width else np.full(samples.n, -1, dtype=np.int64)
    return QuestionParts(per, tuple(names), np.where(truth >= 0, own, -1), of_option)
