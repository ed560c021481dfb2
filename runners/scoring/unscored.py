"""Why rows are unscored and metrics have no value, in words that say what to do.

A number over a few of many rows, or a metric that is missing from a table, misleads whoever does not notice; so the score stage
writes a reason beside every value that is undefined or leaves out a tenth of its rows or more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
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
    "predicted": "no numbers for options",
    "n_options": "for multiple-choice questions, and these are open",
    "option_probabilities": "no numbers for options",
    "right_option": NO_RIGHT_OPTION,
    "uncertainty": "no estimator has a value: what it reads was not recorded, or is not finite",
    "sampled_correct": NO_SAMPLED_ANSWERS,
    "sampling_variance": NO_SAMPLED_ANSWERS,
    "covered": "no prediction set",
    "set_size": "no prediction set",
    "is_calibration": "no prediction set",
    "labelled": "no label of people",
    "people_rating": "no label of people",
    "uncertain": "the data do not say whether the question is uncertain",
}


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

        Args:
            rows: of its answers.
            chosen_on: which of them its threshold was chosen on.
            without: which of the others no threshold is for.
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
    """Return why each row is unscored, or would be if a metric needs what it lacks.

    Args:
        samples: of the dataset.
        answers: greedy answers of one model and variant.
        judged: what all judges said of them.
        judges: the labels whose ratings are scored: of open answers, and of options in words.
        where: of the answers, for messages.
        clean: the model's answers to the questions as they are, of another variant.
    """
    judge, of_choices = judges
    choice = samples.n_options > 0
    texts = np.where(choice, NO_JUDGE_OF_OPTIONS if of_choices is None else NO_NUMBERS, NO_JUDGE if judge is None else NO_TEXT).astype(
        object
    )
    if judge is not None and not _is_for_open(judge):
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


def _is_for_open(label: str) -> bool:
    name = label.partition("@")[0]
    return name not in registry.names("judges") or reads_open(registry.get("judges", name))


def why_unscored(reasons_of_cell: Reasons | None, reads: Sequence[str], taken: Mapping[str, Floats], rows: NDArray[np.int64]) -> str:
    """Return why rows are unscored for a metric, by the column that most of them lack.

    Args:
        reasons_of_cell: of the cell; None where that is not known.
        reads: the metric's columns.
        taken: their values, of the unscored rows alone.
        rows: which rows of the cell these are.
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

    Args:
        reads: the metric's columns.
        columns: those that the answers have.
        all_choice: the dataset has no open question.
        judged: a judge of the spec rated some of the answers.
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
