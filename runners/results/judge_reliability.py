"""Agreement of a judge with people's labels.

The two numbers of CertainlyUncertain's appendix (Khyathi Raghavi Chandu, Linjie Li et al., 2025; Tables 8 and 9): the judge's accuracy
on abstentions, and Kendall's rank correlation between its ratings and people's.
"""

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qualm.registry.formats.text_tables import EXPORT_COLUMN, unescape_formula
from qualm.registry.system.textfiles import TextFileError, read_text
from qualm.runners.contracts.judges import Judgement
from qualm.runners.data.agreement import jackknife, wilson
from qualm.runners.data.labels import FILE, parse_rating
from qualm.runners.data.labels import LabelError as LabelError
from qualm.runners.runtime.settings import Settings
from qualm.runners.scoring.apply_judge import Answered, judge

COLUMNS = ("question", "reference", "prediction", "is_refusal", "rating")


@dataclass(frozen=True)
class LabelledAnswer:
    """An answer with people's labels: whether it abstains, and its rating."""

    answer: Answered
    is_refusal: bool | None
    """None if people did not say."""
    rating: float | None
    """From 0 to 1; None if unrated."""


def read_labels(path: Path) -> list[LabelledAnswer]:
    """Read labelled answers from a CSV file, or from `labels.csv` in a folder.

    Columns: `question`; `reference` (several separated by `|`; empty where abstaining is right); `prediction`; `is_refusal` (0, 1 or
    empty); `rating` (0 to 1, or empty). Rows without both labels and other columns are ignored.

    Raises:
        LabelError: a column is missing, or a value is none of these.
    """
    file = path / FILE if path.is_dir() else path
    try:
        reader = csv.DictReader(io.StringIO(read_text(file, 256 << 20), newline=""))
        missing = [c for c in COLUMNS if c not in (reader.fieldnames or ())]
        if missing:
            raise LabelError(f"{file}: expected the columns {', '.join(COLUMNS)}; missing {', '.join(missing)}")
        labels = [label for row in reader if (label := _label(file, reader.line_num, row)) is not None]
    except (TextFileError, csv.Error) as error:
        raise LabelError(f"{file}: expected a CSV file of labelled answers: {error}") from error
    if not labels:
        raise LabelError(f"{file}: expected labelled answers, found none")
    return labels


def _label(file: Path, line: int, row: Mapping[str, str | None]) -> LabelledAnswer | None:
    text = {name: (row[name] or "").strip() for name in COLUMNS}
    if EXPORT_COLUMN in row:
        text = {name: unescape_formula(value) for name, value in text.items()}
    if text["is_refusal"] not in ("0", "1", ""):
        raise LabelError(f"{file}:{line}: is_refusal: expected 0, 1 or nothing, got {text['is_refusal']!r}")
    rating = parse_rating(text["rating"], f"{file}:{line}")
    if not text["is_refusal"] and rating is None:
        return None
    references = tuple(r.strip() for r in text["reference"].split("|") if r.strip())
    answer = Answered(text["question"], references, text["prediction"])
    return LabelledAnswer(answer, text["is_refusal"] == "1" if text["is_refusal"] else None, rating)


def reliability(labels: Sequence[LabelledAnswer], judgements: Sequence[Judgement]) -> dict[str, Any]:
    """Return a judge's agreement with people on abstentions and ratings, as a nested dict.

    Returns:
        `n` labelled answers; `unread`: unreadable judge replies. `refusals`: `n` answers that the judge classified, `accuracy` (higher is
        better) with its 95% Wilson interval `low`..`high`, `missed` and `imagined` abstentions. `ratings`: `n` answers that both rated,
        Kendall's `tau_b` (-1..1, higher is better) with its two-sided `p`, and `equal`, the share of equal ratings. `sensitivity` and
        `specificity`: of the `n` answers that people call right (rating 1) or wrong (0), and the judge too, the `share` on which it
        agrees, with its 95% Wilson interval. None where a number is undefined, as tau is for constant ratings.
    """
    from scipy.stats import binomtest, kendalltau

    both = list(zip(labels, judgements, strict=True))
    refusals = [(a.is_refusal, b.pred_is_idk) for a, b in both if a.is_refusal is not None and b.pred_is_idk is not None]
    right = sum(a == b for a, b in refusals)
    interval = binomtest(right, len(refusals)).proportion_ci(method="wilson") if refusals else None
    rated = [(a.rating, b.rating) for a, b in both if a.rating is not None and b.rating is not None]
    people, machine = ([r[k] for r in rated] for k in (0, 1))
    tau = kendalltau(people, machine, variant="b") if _tau_b(rated) is not None else None
    ends = jackknife(_tau_b, rated) if tau else None
    return {
        "n": len(labels),
        "unread": sum(not one.parse_ok for one in judgements),
        "refusals": {
            "n": len(refusals),
            "accuracy": right / len(refusals) if refusals else None,
            "low": _rounded(interval.low) if interval else None,
            "high": _rounded(interval.high) if interval else None,
            "missed": sum(a and not b for a, b in refusals),
            "imagined": sum(b and not a for a, b in refusals),
        },
        "ratings": {
            "n": len(rated),
            "tau_b": _rounded(tau.statistic) if tau else None,
            "low": _rounded(ends[0]) if ends else None,
            "high": _rounded(ends[1]) if ends else None,
            "p": _rounded(tau.pvalue, 30) if tau else None,
            "equal": sum(a == b for a, b in rated) / len(rated) if rated else None,
        },
        "sensitivity": _share_agreed(rated, 1.0),
        "specificity": _share_agreed(rated, 0.0),
    }


def _share_agreed(people_and_judge: Sequence[tuple[float, float]], rating: float) -> dict[str, Any]:
    """Return n, share and limits: how often a judge (0 or 1) agrees where people rate so."""
    judged = [machine for people, machine in people_and_judge if people == rating and machine in (0, 1)]
    ends = wilson(judged.count(rating), len(judged))
    share = judged.count(rating) / len(judged) if judged else None
    return {"n": len(judged), "share": share, "low": _rounded(ends[0]) if ends else None, "high": _rounded(ends[1]) if ends else None}


def _tau_b(rated: Sequence[tuple[float, float]]) -> float | None:
    from scipy.stats import kendalltau

    people, machine = ([pair[k] for pair in rated] for k in (0, 1))
    return float(kendalltau(people, machine, variant="b").statistic) if len(set(people)) > 1 and len(set(machine)) > 1 else None


def _rounded(value: Any, digits: int = 12) -> float:
    return round(float(value), digits)


def reliability_of_judges(
    refs: Sequence[Mapping[str, Any]], labels: Sequence[LabelledAnswer], settings: Settings, counters: Counter[str]
) -> dict[str, dict[str, Any]]:
    """Run every judge on the labelled answers; return judge label -> its `reliability`."""
    answers = [label.answer for label in labels]
    return {ref["label"]: reliability(labels, judge(ref, answers, settings, counters)) for ref in refs}
