"""Recalibrated confidences of one model's answers to one dataset: fitted on the answers that calibrate, read on the others.

What a fit says depends on which rows happened to calibrate. So each resample of whole groups draws these too, fits anew and reads its own
probabilities; an interval over such resamples is about the model and the method, not about one fit (Efron, Tibshirani, 1993, chapter 8).
A row that calibrates has no recalibrated confidence: nothing can score what was fitted to it. Where the answers that calibrate are none of
the scored ones, they are drawn apart from these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Floats, Weights
from qualm.runners.scoring.bootstrap import Resamples
from qualm.runners.scoring.calibration.drawing import FirstResamples, HeldDraws
from qualm.runners.scoring.calibration.kinds import MIN_PROBABILITY, Ints, KindOfAnswers, Method, log_odds
from qualm.runners.scoring.last_value import LastValue

RAW = "raw"
"""Stands for the confidence as it is, on the rows that do not calibrate."""
MIN_ROWS, MIN_GROUPS = 20, 5
"""That calibrate: with fewer there is no fit."""
WITH_A_FIT = "`isotonic`, `venn_abers` and `platt: {prior_correction: true}` always have one"
MAX_NUMBERS = 4_000_000
"""Numbers that one call of a calibrator returns, and that are kept of all resamples."""
Bools = NDArray[np.bool_]


@dataclass(eq=False)
class Recalibration:
    """One calibrator applied to one score of one model, dataset and variant."""

    setting: str
    method: str
    """Its label; RAW."""
    of: str
    """The estimator whose score it is; empty of the model's own confidence; several joined by `+`."""
    calibrates: Bools
    """(n,): rows that calibrate, so that they are not evaluated."""
    columns: dict[str, Floats]
    """(n,): what metrics read instead of the cell's own columns."""
    parts: list[KindOfAnswers]
    refits: int
    """Resamples in which it is fitted anew; of RAW, those in which others are, with which it is compared."""
    why: str = ""
    ends: Floats | None = None
    """(2, n): both ends of the interval of a method that gives one, NaN where a row has none."""
    _last: LastValue[list[dict[str, Floats]]] = field(default_factory=LastValue, init=False, repr=False)
    _groups: LastValue[int] = field(default_factory=LastValue, init=False, repr=False)

    @property
    def label(self) -> str:
        """Return `setting/method/estimator`, the name in a metric's brackets."""
        return "/".join(filter(None, (self.setting, self.method, self.of)))

    @property
    def rows(self) -> Ints:
        """Return the cell's row indices that the calibrator is fitted on; none if held out."""
        return np.concatenate([np.empty(0, dtype=np.int64), *(part.rows for part in self.parts if part.held is None)])

    def groups(self, resamples: Resamples) -> int:
        """Return the number of groups that the calibrator is fitted on."""

        def count() -> int:
            own = [resamples.whole.groups_of(self.rows), *(part.held.groups[part.rows] for part in self.parts if part.held is not None)]
            return len(np.unique(np.concatenate(own)))

        return self._groups.get(resamples.whole, count)

    def redrawn_in(self, resamples: Any) -> FirstResamples:
        """Return the first `refits` resamples, those in which the calibrator is refitted."""
        return FirstResamples(resamples, self.refits)

    def each(self, resamples: Any) -> Iterator[dict[str, Floats]]:
        """Yield {name: recalibrated (b, n)}, b resamples at a time; NaN where rows calibrate."""
        if resamples.times * len(self.calibrates) > MAX_NUMBERS:
            return self._chunks(resamples)
        source = getattr(resamples, "of", resamples)
        return iter(self._last.get(source, lambda: list(self._chunks(resamples)), second_key=resamples.times))

    def _chunks(self, resamples: Any) -> Iterator[dict[str, Floats]]:
        """Yield recalibrated (b, n) columns, NaN where rows calibrate, b resamples at a time."""
        width = max(len(self.calibrates), *(part.scores.size for part in self.parts))
        step, before = max(1, MAX_NUMBERS // max(1, width)), 0
        for block in resamples.blocks():
            # Blocks of resamples are cut further, for each resample has (n,) columns of its own here.
            for start in range(0, len(block.counts), step):
                yield self._columns(Weights(block.counts[start : start + step], block.group), len(self.calibrates), before + start)
            before += len(block.counts)

    def _columns(self, weights: Weights, n: int, start: int | None = None) -> dict[str, Floats]:
        """Return {name: (b, n) column}: NaN where rows calibrate, else refitted if a fit exists."""
        whole: dict[str, Floats] = {}
        for part in self.parts:
            for name, values in part.columns(weights, n, start).items():
                own = whole.setdefault(name, np.tile(np.where(self.calibrates, np.nan, self.columns[name]), (len(values), 1)))
                own[:, part.at] = values[:, part.at]
        return whole

    def on_common_rows(self, other: Recalibration) -> Recalibration:
        """Return a copy: rows that calibrate `other` calibrate too, values it lacks are NaN."""
        shared = self.columns.keys() & other.columns.keys()
        columns = {name: np.where(np.isnan(other.columns[name]), np.nan, self.columns[name]) for name in shared}
        return replace(self, calibrates=self.calibrates | other.calibrates, columns=columns, why=self.why or other.why)

    def select(self, rows: Ints) -> Recalibration:
        """Return a copy for some rows; calibration rows outside them no longer calibrate."""
        place = np.full(len(self.calibrates), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        parts = []
        for part in self.parts:
            read = place[part.at] >= 0
            of_fit = part.rows, part.score, part.right
            if part.held is None:
                is_taken = place[part.rows] >= 0
                of_fit = place[part.rows[is_taken]], part.score[is_taken], part.right[is_taken]
            parts.append(KindOfAnswers(part.method, *of_fit, place[part.at[read]], part.scores[read], part.truth[read], part.held))
        columns = {name: values[rows] for name, values in self.columns.items()}
        ends = None if self.ends is None else self.ends[:, rows]
        return replace(self, calibrates=self.calibrates[rows], columns=columns, parts=parts, ends=ends)


@dataclass(frozen=True)
class Scores:
    """Confidence, correctness, option probabilities and uncertainties of a model's answers."""

    confidence: Floats
    correct: Floats
    probabilities: Floats | None
    """(n, K) of options."""
    uncertainties: Mapping[str, Floats]

    def column(self, estimator: str) -> Floats:
        """Return (n,) scores, higher = likelier right: -`estimator`; "": log odds of confidence."""
        return -self.uncertainties[estimator] if estimator else log_odds(self.confidence)


@dataclass(frozen=True)
class FittedOn:
    """Answers to clean inputs that calibrators are fitted on, with a mask of calibration rows."""

    scores: Scores
    choice: Bools
    """(n,) multiple-choice rows."""
    truth: Ints
    """(n,) place of the right option, -1 where there is none."""
    groups: Ints
    """(n,) group of each row."""
    calibrates: Bools
    """(n,) True for the rows that calibrate."""
    held: HeldDraws | None = None
    """Draws of calibration answers outside the scored ones; None if they are among the scored ones."""


@dataclass(frozen=True)
class ScoreNames:
    """Names of the scores that a calibrator reads: the confidence, an estimator, or several."""

    names: tuple[str, ...]
    """Labels of estimators; empty for the model's own confidence."""

    @property
    def label(self) -> str:
        return "+".join(name or "confidence" for name in self.names) if any(self.names) else ""

    @property
    def estimators(self) -> set[str]:
        return {name for name in self.names if name}

    def fits(self, declares: Mapping[str, Any]) -> bool:
        """Return whether a calibrator that `declares` these traits can read the scores."""
        if len(self.names) > 1:
            return bool(declares.get("SEVERAL", False))
        return not (self.label and declares.get("PROBABILITIES", False))


def recalibrations(setting: Mapping[str, Any], fitted_on: FittedOn, own: Scores, choice: Bools, truth: Ints) -> Iterator[Recalibration]:
    """Yield a Recalibration per score and calibrator that can read it, and the raw confidence.

    Scores that the fitted or the evaluated answers lack are skipped; raw comes only where the confidence is among the scores.

    Of the cell, `choice` (n,) is True for multiple-choice rows, and `truth` (n,) the place of the right option, -1 where there is none.
    """
    calibrates = fitted_on.calibrates if fitted_on.held is None else np.zeros(len(truth), dtype=bool)
    for given in setting["of"]:
        of = ScoreNames((given,) if isinstance(given, str) else tuple(given))
        if not (of.estimators <= fitted_on.scores.uncertainties.keys() & own.uncertainties.keys()):
            continue
        if not of.label:
            raw = {"confidence": np.where(calibrates, np.nan, own.confidence)}
            yield Recalibration(setting["label"], RAW, "", calibrates, raw, [], setting["refits"])
        for ref in setting["methods"]:
            method = Method.from_ref(ref)
            if not of.fits(method.plugin.declares):
                continue
            yield _fit_calibrator(setting, method, of, fitted_on, own, choice, truth, calibrates)


def _fit_calibrator(
    setting: Mapping[str, Any],
    method: Method,
    of: ScoreNames,
    fitted_on: FittedOn,
    own: Scores,
    choice: Bools,
    truth: Ints,
    calibrates: Bools,
) -> Recalibration:
    """Fit one calibrator and return the result; without a fit, the result says why."""
    parts: list[KindOfAnswers] = []
    why = ""
    for is_choice in (True, False):
        fit = np.flatnonzero((fitted_on.choice == is_choice) & fitted_on.calibrates)
        read = np.flatnonzero((choice == is_choice) & ~calibrates)
        options = is_choice and not of.label and fitted_on.scores.probabilities is not None and own.probabilities is not None
        part = _of_options(method, fit, read, fitted_on, own, truth) if options else _of_scores(method, fit, read, of, fitted_on, own)
        if len(part.at):
            why = why or why_no_fit(part, fitted_on.groups)
            parts.append(part)
    n = len(truth)
    nothing = np.full(n, np.nan)
    columns = {"confidence": nothing}
    if any(part.of_options for part in parts):
        columns |= {"predicted": nothing, "correct": own.correct}
    recalibration = Recalibration(setting["label"], method.label, of.label, calibrates, columns, parts, setting["refits"], why)
    if why or not parts:
        return replace(recalibration, parts=[], refits=0, why=why or "no answer that is evaluated has a score")
    once = Weights(np.ones((1, 1)), np.zeros(max(n, len(fitted_on.groups)), dtype=np.int64))
    recalibration.columns = {name: values[0] for name, values in recalibration._columns(once, n).items()}
    for part in (part for part in parts if not part.of_options):
        if (ends := method.ends(part.score, part.right, once.rows(part.rows), part.scores)) is not None:
            recalibration.ends = np.full((2, n), np.nan) if recalibration.ends is None else recalibration.ends
            recalibration.ends[:, part.at] = ends
    if any(np.isnan(recalibration.columns["confidence"][part.at]).all() for part in parts):
        return replace(recalibration, parts=[], refits=0, why=f"{method.plugin.name} has no fit to these answers; {WITH_A_FIT}")
    return recalibration


def _of_scores(method: Method, fit: Ints, read: Ints, of: ScoreNames, fitted_on: FittedOn, own: Scores) -> KindOfAnswers:
    score, scores = (np.column_stack([side.column(name) for name in of.names]) for side in (fitted_on.scores, own))
    correct = fitted_on.scores.correct
    fit = fit[~np.isnan(score[fit]).any(axis=1) & ~np.isnan(correct[fit])]
    read = read[~np.isnan(scores[read]).any(axis=1)]
    mine, at = score[fit], scores[read]
    for place in range(len(of.names)):
        finite = mine[np.isfinite(mine[:, place]), place]
        ends = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
        # Infinite scores of estimators count as the most extreme finite one that calibrates.
        for column in (mine[:, place], at[:, place]):
            column[np.isinf(column)] = np.clip(column[np.isinf(column)], *ends)
    if len(of.names) == 1:
        mine, at = mine[:, 0], at[:, 0]
    return KindOfAnswers(method, fit, mine, correct[fit], read, at, np.full(len(read), -1), fitted_on.held)


def _of_options(method: Method, fit: Ints, read: Ints, fitted_on: FittedOn, own: Scores, truth: Ints) -> KindOfAnswers:
    theirs, mine = fitted_on.scores.probabilities, own.probabilities
    assert theirs is not None and mine is not None
    fit = fit[~np.isnan(theirs[fit]).all(axis=1) & (fitted_on.truth[fit] >= 0)]
    read = read[~np.isnan(mine[read]).all(axis=1)]
    width = max(theirs.shape[1], mine.shape[1])
    wide = [np.pad(p, ((0, 0), (0, width - p.shape[1])), constant_values=np.nan) for p in (theirs[fit], mine[read])]
    with np.errstate(divide="ignore"):
        logs = [np.log(np.maximum(of, MIN_PROBABILITY)) for of in wide]
    right = (np.arange(width) == fitted_on.truth[fit][:, None]).astype(np.float64)
    right_option = np.where(np.isnan(own.correct[read]), -1, truth[read])
    return KindOfAnswers(method, fit, logs[0], right, read, logs[1], right_option, fitted_on.held)


def why_no_fit(part: KindOfAnswers, groups: Ints) -> str:
    """Return why no fit is possible (few rows or groups, all right or wrong); "" if it is."""
    whose, who = ("answers that calibrate", "groups that calibrate")
    remedy = "score more questions, raise `calibration: {fraction}`, or calibrate on a split: `fit: val`"
    if part.held is not None:
        whose, who = (f"{of} of split `val` that are not scored" for of in ("answers to questions", "groups of questions"))
        remedy = "give the dataset a larger split `val`, or take part of the scored questions: `fit: half`"
    if len(part.rows) < MIN_ROWS:
        return f"{len(part.rows)} {whose}: a fit needs {MIN_ROWS}; {remedy}"
    if (there := len(np.unique(groups[part.rows]))) < MIN_GROUPS:
        return f"{there} {who}: a fit needs {MIN_GROUPS}, whatever the number of answers; {remedy}"
    if not part.of_options and (one := {0.0: "wrong", 1.0: "right"}.get(float(part.right.mean()))):
        return (
            f"every answer that calibrates is {one}, so there is nothing to learn; ask {'easier' if one == 'wrong' else 'harder'} questions"
        )
    return ""
