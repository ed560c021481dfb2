"""Columns of answers and judgements that metrics read."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qualm.registry.plugins.column_names import MARKED_BY, RATED_BY
from qualm.registry.sample import GREEDY
from qualm.runners.contracts.metrics import ratio
from qualm.runners.data.aligned import Floats, Samples, flatten_lists, option_probabilities
from qualm.runners.runtime.precision import EQUAL
from qualm.runners.scoring.cells import IN_WORDS
from qualm.runners.scoring.measuring.by_cell import split
from qualm.runners.scoring.measuring.tables import Judges

FINAL_ANSWER = "final_answer"
"""The judge that reads what reasoning comes to; where it is none of the spec's, `correct` says whether "yes" or "no" was right."""


def answer_columns(
    samples: Samples, table: pa.Table, judged: pa.Table | None, judges: Judges, where: str, unread_is_wrong: bool = False
) -> dict[str, Floats]:
    """Return the columns that metrics read, by name: (n,), `option_probabilities` (n, K).

    With `unread_is_wrong` sampled answers without a rating are wrong; else a question with one has no mean rating.
    """
    n, choice = samples.n, samples.n_options > 0
    columns = {"correct": np.full(n, np.nan), "confidence": np.full(n, np.nan)}
    columns |= {"answerable": samples.answerable, "uncertain": samples.uncertain, "fold": samples.fold}
    if choice.any():
        probs = option_probabilities(samples, table, where)
        right = np.where(choice & (samples.truth >= 0), samples.truth, np.nan)
        columns |= option_columns(probs, samples.n_options, right)
        columns["option_probabilities"] = np.where(np.isnan(columns["predicted"])[:, None], np.nan, np.nan_to_num(probs))
        columns["right_option"] = right
    if not choice.all():
        _confidence_of_answers(samples, table, columns["confidence"], where)
    columns |= _judged_columns(samples, judged, judges, columns["correct"], where)
    columns |= {} if judged is None else _sampled_columns(samples, judged, judges, unread_is_wrong)
    if samples.asked_about.any():
        rated = columns.get(RATED_BY + FINAL_ANSWER, columns["correct"])
        says_uncertain = np.where(rated == 1, samples.uncertain, 1 - samples.uncertain)
        columns["says_uncertain"] = np.where(samples.asked_about & ~np.isnan(rated), says_uncertain, np.nan)
    return columns


def option_columns(probabilities: Floats, sizes: NDArray[np.int64], right: Floats) -> dict[str, Floats]:
    """Return (n,) columns by name: picked option, its probability, correctness, option count.

    `probabilities` (n, K) are NaN where there is no option, or no probability of any; `right` (n,) is the index of the right option, NaN
    without one. The columns are NaN where undefined.
    """
    filled = np.where(np.isnan(probabilities), -1.0, probabilities)
    scored = (sizes > 0) & ~np.isnan(probabilities).all(axis=1)
    predicted = np.where(scored, filled.argmax(axis=1), np.nan)
    return {
        "correct": np.where(np.isnan(predicted) | np.isnan(right), np.nan, predicted == right),
        "confidence": np.where(scored, np.round(filled.max(axis=1), EQUAL), np.nan),
        "predicted": predicted,
        "n_options": np.where(sizes > 0, sizes, np.nan),
    }


def _confidence_of_answers(samples: Samples, table: pa.Table, confidence: Floats, where: str) -> None:
    """Fill in `confidence` of open answers: P(yes) if `table` has it, else exp(sum log p)."""
    rows = samples.rows_of(table["sample_id"], where)
    is_open = samples.n_options[rows] == 0
    if "p_yes" in table.column_names:
        confidence[rows[is_open]] = numbers(table["p_yes"])[is_open]
        return
    values, lengths = flatten_lists(table["token_logprobs"])
    total = np.bincount(np.repeat(np.arange(len(rows)), lengths), values, len(rows))
    has_tokens = (lengths > 0) & is_open
    # Rounding may put a sum of log-probabilities a hair above 0.
    confidence[rows[has_tokens]] = np.minimum(np.exp(total[has_tokens]), 1.0)


def _judged_columns(samples: Samples, judged: pa.Table | None, judges: Judges, correct: Floats, where: str) -> dict[str, Floats]:
    """Overwrite `correct` by the scoring judge; return {column: values} of all judges, or {}."""
    if judged is None:
        return {}
    judge, of_choices = judges
    columns: dict[str, Floats] = {}
    for (label,), part in split(judged.filter(pc.equal(judged["draw"], GREEDY)), ["judge"]):  # type: ignore[misc]
        rows = samples.rows_of(part["sample_id"], f"judgements by '{label}' of {where}")
        of_options = samples.n_options[rows] > 0
        if label == of_choices and of_options.any():
            _add_answers_in_words(samples, part.filter(pa.array(of_options)), rows[of_options], correct, columns)
        if not of_options.all():
            _add_open_answers(samples, part.filter(pa.array(~of_options)), rows[~of_options], label, label == judge, correct, columns)
    return columns


def _sampled_columns(samples: Samples, judged: pa.Table, judges: Judges, unread_is_wrong: bool) -> dict[str, Floats]:
    """Return (n,) means of sampled answers' ratings and those means' variances; {} if none."""
    sampled = judged.filter(pc.not_equal(judged["draw"], GREEDY))
    if not sampled.num_rows:
        return {}
    row = np.asarray(pc.index_in(sampled["sample_id"], value_set=samples.ids), dtype=np.int64)
    scoring = np.where(samples.n_options[row] > 0, judges[1] or "", judges[0] or "")
    mine = np.array(sampled["judge"].to_pylist(), dtype=object) == scoring
    row, ratings = row[mine], numbers(sampled["rating"])[mine]
    ratings = np.nan_to_num(ratings, nan=0.0) if unread_is_wrong else ratings
    drawn: Floats = np.bincount(row, minlength=samples.n).astype(np.float64)
    mean = ratio(np.bincount(row, ratings, samples.n).astype(np.float64), drawn)
    squares = np.bincount(row, (ratings - mean[row]) ** 2, samples.n).astype(np.float64)
    return {"sampled_correct": mean, "sampling_variance": ratio(squares, drawn * (drawn - 1))}


def _add_answers_in_words(samples: Samples, part: pa.Table, rows: NDArray[np.int64], correct: Floats, columns: dict[str, Floats]) -> None:
    """Fill in `correct` and `columns` for multiple-choice questions answered in words."""
    in_words = (samples.n_options > 0) & np.isnan(correct)
    correct[rows] = numbers(part["rating"])
    columns[IN_WORDS] = in_words.astype(np.float64)
    _add_abstention_columns(samples, part, rows, in_words, columns)


def _add_open_answers(
    samples: Samples, part: pa.Table, rows: NDArray[np.int64], label: str, scored: bool, correct: Floats, columns: dict[str, Floats]
) -> None:
    columns[RATED_BY + label] = np.full(samples.n, np.nan)
    columns[RATED_BY + label][rows] = numbers(part["rating"])
    marks = _marks(samples, part["marks"], rows)
    columns |= {f"{MARKED_BY}{label}/{name}": values for name, values in marks.items()}
    if not scored:
        return
    correct[rows] = numbers(part["rating"])
    columns[RATED_BY] = columns[RATED_BY + label]
    columns |= {f"{MARKED_BY}/{name}": values for name, values in marks.items()}
    _add_abstention_columns(samples, part, rows, samples.n_options == 0, columns)


def _add_abstention_columns(
    samples: Samples, part: pa.Table, rows: NDArray[np.int64], of: NDArray[np.bool_], columns: dict[str, Floats]
) -> None:
    """Fill columns `pred_is_idk`, `hedges` at answers `rows`, `gt_is_idk` at questions `of`.

    Missing columns are added, NaN elsewhere. Unanswered questions then count as unscored in the right place.
    """
    for name in ("pred_is_idk", "gt_is_idk", "hedges"):
        columns.setdefault(name, np.full(samples.n, np.nan))
    columns["pred_is_idk"][rows] = numbers(part["pred_is_idk"])
    columns["hedges"][rows] = numbers(part["hedges"])
    columns["gt_is_idk"][of] = 1 - samples.answerable[of]


def _marks(samples: Samples, marks_of: pa.ChunkedArray, rows: NDArray[np.int64]) -> dict[str, Floats]:
    """Return (n,) columns by name of mark, NaN where an answer lacks the mark."""
    columns: dict[str, Floats] = {}
    for row, marks in zip(rows, marks_of.to_pylist() if marks_of.null_count < len(marks_of) else (), strict=False):
        for name, value in marks or ():
            columns.setdefault(name, np.full(samples.n, np.nan))[row] = value
    return columns


def numbers(column: pa.ChunkedArray) -> Floats:
    """Return a column's numbers or booleans as float64 (n,), null as NaN."""
    return np.asarray(pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy(), dtype=np.float64)
