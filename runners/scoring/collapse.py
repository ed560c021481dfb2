"""Collapse: a perturbation so strong that a model's answers no longer depend on what it is shown.

Uncertainty under such a variant tells of the model's habits, not of the question; means over perturbations leave it out, and every
page says so. The rule, of one model, dataset and variant:

- its accuracy is below that of always giving the most frequent reference answer: the upper end of Wilson's interval (95%, over groups of
  samples) lies below it, and that of the clean answers does not; or
- one answer is given to at least `SHARE` of the samples, and was not when they were clean.
"""

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np

from qualm.registry import option_label
from qualm.runners.data.aligned import Floats, Ints, Samples
from qualm.runners.scoring.limits import critical, wilson_interval

SHARE = 0.9
"""One answer to so many samples is a collapse."""
LEVEL = 0.95
MIN_SAMPLES = 20
"""Samples below which nothing is called a collapse."""

Frequent = tuple[str, float]
"""An answer, and the share that gives it."""


def most_frequent(answers: Iterable[str | None]) -> Frequent:
    """Return (most frequent answer in lower case, its share); ("", NaN) if all are None.

    >>> most_frequent(["Yes", "yes ", "no", None])
    ('yes', 0.6666666666666666)
    """
    counts = Counter(answer.strip().lower() for answer in answers if answer is not None)
    if not counts:
        return "", math.nan
    answer = min(counts, key=lambda a: (-counts[a], a))
    return answer, counts[answer] / counts.total()


def constant_answer(samples: Samples) -> Frequent:
    """Return (commonest reference or "option A", its share of samples with one) or ("", NaN)."""
    of_rows = zip(samples.table["references"].to_pylist(), samples.truth.tolist(), samples.n_options.tolist(), strict=True)
    answers: list[str | None] = []
    for references, place, options in of_rows:
        if options:
            answers.append(f"option {option_label(place)}" if place >= 0 else None)
        else:
            answers.append(most_frequent(references)[0] if references else None)
    return most_frequent(answers)


def describe_collapse(samples: Samples, correct: Floats, clean_correct: Floats, frequent: Frequent, clean_frequent: Frequent) -> str:
    """Return how a model collapses under a variant, by one answer or by accuracy; else "".

    Correctness is (n,), NaN where unscored; the most frequent answers are the variant's and that of the clean answers.
    """
    answer, share = frequent
    if len(correct) >= MIN_SAMPLES and share >= SHARE > clean_frequent[1]:
        return f"{share:.0%} of its answers are “{answer}”"
    constant, floor = constant_answer(samples)
    both = ~np.isnan(correct) & ~np.isnan(clean_correct)
    if both.sum() < MIN_SAMPLES or math.isnan(floor):
        return ""
    high = wilson_upper_end(correct[both], samples.groups[both])
    # A model that is no better on clean inputs does not collapse: it never stood.
    if high >= floor or wilson_upper_end(clean_correct[both], samples.groups[both]) < floor:
        return ""
    return f"its accuracy is at most {high:.3f}, and always answering “{constant}” has {floor:.3f}"


def wilson_upper_end(correct: Floats, groups: Ints) -> float:
    """Return the upper end of Wilson's 95% interval of a mean, each group as one sample."""
    units = len(np.unique(groups))
    value = float(np.clip(correct.mean(), 0.0, 1.0))
    return wilson_interval(value, math.sqrt(value * (1 - value) / units), critical(LEVEL, math.inf), units)[1]
