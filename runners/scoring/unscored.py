"""Why rows are unscored and metrics have no value, in words that say what to do.

A number over a few of many rows, or a metric that is missing from a table, misleads whoever does not notice; so the score stage
writes a reason beside every value that is undefined or leaves out a tenth of its rows or more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qualm.registry import WITHOUT_ANSWER
from qualm.registry.plugins import registry
from qualm.registry.plugins.column_names import CODE_OF, GROUP_OF, MARKED_BY, RATED_BY
from qualm.registry.plugins.columns import field_of, judge_of, reads_open
from qualm.registry.sample import GREEDY
from qualm.runners.contracts.metrics import missing_rows
from qualm.runners.data.aligned import Floats, Samples

STATED_SHARE = 0.1
"""Share of unscored rows from which on a value carries the reason."""
JUDGED = ("correct", "pred_is_idk", "gt_is_idk", "hedges", "says_uncertain", "clean_correct")
"""Columns that an answer has from its judge or its options' numbers."""
NO_ANSWER = "no answer on record"
NO_VARIANT = "not asked: the variant does not apply to the question, such as one of an image to a question without any"
CHOSEN_ON = "the threshold was chosen on these answers, so they are not scored"
NO_THRESHOLD = "no answers to choose a threshold on, or no confidence to hold to it"
OF_PROBES = "; a probe may have had too little to learn from, which `probe_fits.parquet` says"
FOR_ANY_METRIC = frozenset({NO_ANSWER, NO_VARIANT, CHOSEN_ON, NO_THRESHOLD, *WITHOUT_ANSWER})
"""Reasons that hold whatever a metric reads."""
NO_RIGHT_OPTION = "the data do not say which option is right"
NO_REFERENCE = "the data have no reference answer"
BY_DESIGN = frozenset({NO_VARIANT, CHOSEN_ON, NO_RIGHT_OPTION, NO_REFERENCE})
"""Reasons that lie in the data or the spec and not in a reply: such rows can have no value."""
NO_JUDGE = "the spec has no judge; add `judges:`"
OPEN_QUESTIONS = (
    "open questions, and the judge reads options only; where the log has the options say `options: choices` of the dataset, "
    "else add a judge of open answers such as `rules`"
)
NO_JUDGE_OF_OPTIONS = "answered in words, without numbers for options, and no judge of the spec reads options; add `judges: [option_match]`"
NO_NUMBERS = "neither a text nor finite numbers for the options"
NO_TEXT = "no text"
UNREAD_OPTION = "the reply names no option, or several; `otherwise: {llm_extract: ...}` asks a model, `on_failure: wrong` counts it"
UNREAD = "the judge could not rate it"
NO_CONFIDENCE = "no confidence: the answers came without log-probabilities or numbers for options"
NO_SAMPLED_ANSWERS = "no sampled answers, or one that the judge could not rate"
WITHOUT = {
    "confidence": NO_CONFIDENCE,
    **dict.fromkeys(("predicted", "option_probabilities"), "no numbers for options"),
    "n_options": "for multiple-choice questions, and these are open",
    "right_option": NO_RIGHT_OPTION,
    "uncertainty": "no estimator has a value: what it reads was not recorded, or is not finite",
    **dict.fromkeys(("sampled_correct", "sampling_variance"), NO_SAMPLED_ANSWERS),
    **dict.fromkeys(("covered", "set_size", "is_calibration"), "no prediction set"),
    **dict.fromkeys(("labelled", "people_rating"), "no label of people"),
    "uncertain": "the data do not say whether the question is uncertain",
}
_CONDITION = re.compile(r"\bundefined\b.+?(?=;|\.\s|\.?\Z)", re.IGNORECASE | re.DOTALL)
_CONSTANT: Mapping[str, tuple[str, str]] = {
    "correct": ("answers are wrong", "answers are right"),
    "clean_correct": ("answers to the clean inputs are wrong", "answers to the clean inputs are right"),
    "uncertain": ("questions are clear", "questions are uncertain"),
    "answerable": ("questions are unanswerable", "questions are answerable"),
    "gt_is_idk": ("questions are answerable", "questions are unanswerable"),
    "pred_is_idk": ("answers commit", "answers abstain"),
    "hedges": ("answers are without a caveat", "answers have a caveat"),
    "input_changed": ("inputs are unchanged", "inputs are changed"),
}
"""Column -> what its rows are if all of them are 0, or 1."""


@dataclass(frozen=True)
class Reasons:
    """Texts, one per row of a cell, that say why a metric without a value there has none."""

    texts: NDArray[np.object_]
    probed: bool = False
    """True if probes are among the estimators."""

    def most_common(self, rows: NDArray[np.int64]) -> str:
        """Return the most common reason of rows, with its count unless all share it; "" if none."""
        counts_of = Counter(text for text in self.texts[rows] if text)
        if not counts_of:
            return ""
        reason = min(counts_of, key=lambda text: (-counts_of[text], text))
        return reason if counts_of[reason] == len(rows) else f"{reason} ({counts_of[reason]:,} of these)"

    def by_design(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return (len(rows),) True for rows that can have no value, whatever was replied."""
        return np.isin(self.texts[rows], list(BY_DESIGN))

    def are_all_unscorable(self, rows: NDArray[np.int64]) -> bool:
        """Return whether no metric can score any of these rows; False for no rows."""
        return len(rows) > 0 and set(self.texts[rows]) <= FOR_ANY_METRIC

    def under_threshold(self, rows: NDArray[np.int64], chosen_on: NDArray[np.bool_], without: NDArray[np.bool_]) -> Reasons:
        """Return a copy with the reasons that an abstention method's threshold adds.

        Of the answers in `rows`, the threshold was chosen on `chosen_on`, and there is none for `without`.
        """
        texts = self.texts.copy()
        texts[rows[without & (texts[rows] != NO_ANSWER)]] = NO_THRESHOLD
        texts[rows[chosen_on]] = CHOSEN_ON
        return replace(self, texts=texts)


def reasons(
    samples: Samples,
    answers: pa.Table,
    judged: pa.Table | None,
    judges: tuple[str | None, str | None],
    where: str,
    clean: pa.Table | None = None,
) -> Reasons:
    """Return by row why it is unscored, or would be under a metric that needs what it lacks.

    `judged` is what all judges said of one model and variant; `judges` are the labels whose ratings are scored, of open answers and of
    options in words; `clean` are the model's answers to the questions as they are, for another variant.
    """
    judge, of_choices = judges
    choice = samples.n_options > 0
    texts = np.where(choice, NO_JUDGE_OF_OPTIONS if of_choices is None else NO_NUMBERS, NO_JUDGE if judge is None else NO_TEXT).astype(
        object
    )
    if judge is not None:
        name = judge.partition("@")[0]
        if name in registry.names("judges") and not reads_open(registry.get("judges", name)):
            texts[~choice] = OPEN_QUESTIONS
    if judged is not None:
        for label, of, unread in ((judge, ~choice, UNREAD), (of_choices, choice, UNREAD_OPTION)):
            mine = judged.filter(pc.and_(pc.equal(judged["judge"], label or ""), pc.equal(judged["draw"], GREEDY)))
            rows = samples.rows_of(mine["sample_id"], where)
            texts[rows[of[rows] & pc.invert(mine["parse_ok"].fill_null(True)).to_numpy()]] = unread
    if "no_answer" in answers.column_names:
        silent = answers.select(["sample_id", "no_answer"]).filter(pc.is_valid(answers["no_answer"]))
        texts[samples.rows_of(silent["sample_id"], where)] = silent["no_answer"].to_pylist()
    answered = np.zeros(samples.n, dtype=bool)
    answered[samples.rows_of(answers["sample_id"], where)] = True
    references = np.asarray(pc.fill_null(pc.list_value_length(samples.table["references"]), 0).to_numpy())
    texts[choice & (samples.truth < 0) & (samples.answerable == 1)] = NO_RIGHT_OPTION
    texts[~choice & (references == 0) & (samples.answerable == 1)] = NO_REFERENCE
    texts[~answered] = NO_ANSWER
    if clean is not None:
        texts[~answered & pc.is_in(samples.ids, value_set=clean["sample_id"].combine_chunks()).to_numpy(zero_copy_only=False)] = NO_VARIANT
    return Reasons(texts)


def why_unscored(reasons_of_cell: Reasons | None, reads: Sequence[str], taken: Mapping[str, Floats], rows: NDArray[np.int64]) -> str:
    """Return why rows are unscored for a metric, by the column that most of them lack.

    `taken` are the values of the metric's columns, of the unscored rows alone, which are `rows` of the cell.
    """
    if reasons_of_cell is not None and reasons_of_cell.are_all_unscorable(rows):
        return reasons_of_cell.most_common(rows)
    lacks = {name: int(missing_rows(taken[name]).sum()) for name in reads}
    column = max(lacks, key=lambda name: lacks[name])
    if reasons_of_cell is not None and (column in JUDGED or judge_of(column) is not None):
        return reasons_of_cell.most_common(rows)
    probed = column == "uncertainty" and reasons_of_cell is not None and reasons_of_cell.probed
    return WITHOUT.get(column, f"no `{column}`") + (OF_PROBES if probed else "")


def why_column_missing(reads: Collection[str], columns: Collection[str], all_choice: bool, judged: bool) -> str:
    """Return why a metric has no value for any answer: its first missing column.

    With `all_choice` the dataset has no open question; with `judged` a judge of the spec rated some of the answers.
    """
    column = next((name for name in reads if name not in columns), "")
    if column.startswith((GROUP_OF, CODE_OF)):
        return f"no sample has the field '{field_of(column)}'"
    if column.startswith((RATED_BY, MARKED_BY)):
        return f"judge '{judge_of(column)}' rated none of these answers" if judge_of(column) else "no open answer was rated"
    if column in JUDGED:
        if all_choice and not judged:
            return "for answers in words, and these are read from their options' numbers, or were not judged"
        return "no answer was judged"
    if column in ("predicted", "n_options", "option_probabilities", "right_option"):
        return WITHOUT["n_options"]
    if column.startswith(("clean_", "uncertainty_change")):
        return "compares perturbed inputs with clean ones, and these answers lack one of the two"
    if column == "input_changed":
        return "compares perturbed inputs with clean ones, and of these answers it is not recorded what the model was shown"
    return WITHOUT.get(column, f"these answers have no `{column}`")


def why_no_value(function: Callable[..., object], columns: Mapping[str, Floats]) -> str:
    """Return why a metric is undefined: its docstring's condition, and constant columns."""
    condition = _CONDITION.search(function.__doc__ or "")
    facts = list(map(_constant, columns, columns.values()))
    n = min(map(len, columns.values()), default=0)
    said = " ".join(condition[0].split()) if condition else f"no value for these {n:,} rows"
    return "; ".join(filter(None, [said[0].lower() + said[1:], *facts]))


def _constant(name: str, values: Floats) -> str:
    of = _CONSTANT.get(name)
    if of is None or not len(values) or values.ndim > 1 or values[0] not in (0, 1) or (values != values[0]).any():
        return ""
    return f"all {len(values):,} {of[int(values[0])]}"


def why_no_rows(reads: Collection[str], over: str | None, of_test_rows: bool, n_of_kind: int) -> str:
    """Return why a metric is over no row of a slice.

    Its rows must have a 1 in the column `over`; with `of_test_rows`, those that calibrate a conformal setting are left out. `n_of_kind`
    counts the questions of the kind that it is over.
    """
    if not n_of_kind:
        kinds = {"n_options": "multiple-choice question", "option_probabilities": "multiple-choice question", "gt_is_idk": "open question"}
        return f"no {next((kind for column, kind in kinds.items() if column in reads), 'question')} here"
    if of_test_rows and over is None:
        return "every question calibrates a conformal setting, and none is left to test on"
    return f"no question with `{over}`" if over else "no question that the metric is over"
