"""Why a metric has no value: a sentence for every score that is undefined."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from qualm.runners.data.aligned import Floats

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


def why_no_value(function: Callable[..., object], columns: Mapping[str, Floats]) -> str:
    """Return why a metric is undefined: its docstring's condition, and constant columns.

    Args:
        function: The metric.
        columns: What it reads of the rows, by column name.
    """
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

    Args:
        reads: The metric's columns.
        over: The column that the metric's rows must have a 1 in.
        of_test_rows: Rows that calibrate a conformal setting are left out.
        n_of_kind: Questions of the kind that the metric is over.
    """
    if not n_of_kind:
        kinds = {"n_options": "multiple-choice question", "option_probabilities": "multiple-choice question", "gt_is_idk": "open question"}
        return f"no {next((kind for column, kind in kinds.items() if column in reads), 'question')} here"
    if of_test_rows and over is None:
        return "every question calibrates a conformal setting, and none is left to test on"
    return f"no question with `{over}`" if over else "no question that the metric is over"
