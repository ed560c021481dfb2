"""Families of tests: which p-values are corrected together, and how.

Who looks at twenty tests of nothing finds one at .05. What is corrected together shares one error rate: the chance that any of
its tests calls chance a difference. The families, from narrow to wide:

- `metric`: the tests of one metric on one dataset and slice (over pairs of models; on the grid of perturbations also over variants
  and estimators);
- `slice`: those of all metrics on one dataset and slice;
- `study`: every test of the study, over all metrics, slices and datasets.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.runners.scoring.measuring.labels import metric_of

Floats = NDArray[np.float64]
ALPHA = 0.05
"""Differences with a smaller corrected p-value are significant."""
PAIRED_TEST = "paired t"
"""Name of the test of two models (`qualm.runners.scoring.paired_tests`), wherever it is shown."""
METRIC, SLICE, STUDY = "metric", "slice", "study"
SPANS = {
    METRIC: "the tests of one metric on one dataset and slice",
    SLICE: "all tests on one dataset and slice",
    STUDY: "all tests of the study: every metric, slice and dataset",
}
CORRECTIONS = {"max_t": "Westfall and Young's max-T", "holm": "Holm's", "benjamini_hochberg": "Benjamini and Hochberg's"}
TIE = 1e-5
"""Statistics closer than this are equal: those of chance are kept in single precision."""
TAIL, NORMAL_TAIL = 0.99, 2.5758
"""A quantile of sizes under chance, and what it is of a normal number of spread 1."""


@dataclass(frozen=True)
class Evidence:
    """p-value of one test, and its resampled difference for a max-T correction."""

    p: float
    draws: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, dtype=np.float32))
    """The tested difference in resamples that all tests of a slice share: around its mean, in units of its spread."""


@dataclass
class Family:
    """Collector of tests with their table rows; `correct` fills in each row's `p_adjusted`."""

    correction: str
    span: str
    rows: list[tuple[dict[str, Any], Evidence]] = field(default_factory=list)

    def add(self, row: dict[str, Any], evidence: Evidence) -> None:
        self.rows.append((row, evidence))

    def correct(self) -> None:
        """Set each row's `p_adjusted` (or None) and correct its `p_equivalent` and `p_not_worse`."""
        members: dict[tuple[str, ...], list[tuple[dict[str, Any], Evidence]]] = {}
        for row, evidence in self.rows:
            members.setdefault(_PLACE[self.span](row), []).append((row, evidence))
        for of in members.values():
            tests = [evidence for _, evidence in of]
            corrected = max_t(tests) if self.correction == "max_t" else adjusted([test.p for test in tests], self.correction)
            for (row, _), p in zip(of, corrected, strict=True):
                row["p_adjusted"] = None if np.isnan(p) else p
            for name in ("p_equivalent", "p_not_worse"):
                rows = [row for row, _ in of if row.get(name) is not None]
                by = "holm" if self.correction == "max_t" else self.correction
                for row, p in zip(rows, adjusted([row[name] for row in rows], by), strict=True):
                    row[name] = p


def describe_correction(settings: Mapping[str, Any], study: str = SPANS[STUDY]) -> str:
    """Return a phrase on correction and family, such as "not corrected for their number".

    `settings` has `correction` and `family`, as under `compare:`; `study` is what the family `study` spans.
    """
    named = CORRECTIONS.get(settings["correction"])
    spans = SPANS | {STUDY: study}
    return f"corrected by {named} method over {spans[settings['family']]}" if named else "not corrected for their number"


def verdict(p_adjusted: float | None, difference: float | None, higher_is_better: bool | None) -> str:
    """Return b's verdict against a: better, worse, different (no direction) or "" (not shown).

    Empty is no evidence of equality: the two are statistically tied at this number of questions. All that is called better, worse, best
    or clear, on whatever page, comes from here.

    >>> verdict(0.01, -0.2, False), verdict(0.01, -0.2, True), verdict(0.01, -0.2, None), verdict(0.05, -0.2, True)
    ('better', 'worse', 'different', '')
    """
    if p_adjusted is None or difference is None or not p_adjusted < ALPHA or not abs(difference) > 0:
        return ""
    if higher_is_better is None:
        return "different"
    return "better" if (difference > 0) == higher_is_better else "worse"


def stars(p: float | None) -> str:
    """Return the stars of a p-value: * below .05, ** below .01, *** below .001; else "".

    >>> stars(0.2), stars(0.049), stars(0.01), stars(0.0005), stars(None)
    ('', '*', '*', '***', '')
    """
    return "" if p is None or p != p else "*" * sum(p < limit for limit in (ALPHA, 0.01, 0.001))


def describe_margin(test: Mapping[str, Any]) -> str:
    """Return "equal within M", "not worse by M" or "", by the corrected one-sided tests.

    >>> describe_margin({"p_equivalent": 0.01, "p_not_worse": 0.001, "margin": 0.02})
    'equal within 0.02'
    >>> describe_margin({"p_equivalent": 0.2, "p_not_worse": 0.001, "margin": 0.02})
    'not worse by 0.02'
    >>> describe_margin({"p_equivalent": None, "p_not_worse": None, "margin": None})
    ''
    """
    equivalent, not_worse = ((p := test.get(name)) is not None and p < ALPHA for name in ("p_equivalent", "p_not_worse"))
    words = "equal within" if equivalent else "not worse by" if not_worse else ""
    return words and f"{words} {test['margin']:g}"


def describe_comparison(test: Mapping[str, Any]) -> str:
    """Return a comparison's finding as a phrase: better, worse, tied, or why it is not tested.

    >>> describe_comparison({"p_adjusted": 0.01, "difference": -0.2, "higher_is_better": True, "margin": None})
    'significantly worse'
    >>> describe_comparison({"p_adjusted": 0.2, "difference": -0.2, "higher_is_better": True, "margin": None})
    'statistically tied'
    >>> describe_comparison({"p_adjusted": None, "difference": 0.2, "higher_is_better": True, "why": "3 scored groups: a test needs 5"})
    'not tested: 3 scored groups: a test needs 5'
    """
    if test["p_adjusted"] is None:
        return ": ".join(filter(None, ("not tested", test.get("why"))))
    word = verdict(test["p_adjusted"], test["difference"], test["higher_is_better"])
    return "; ".join(filter(None, (word and f"significantly {word}", describe_margin(test)))) or "statistically tied"


def compared_quantity(compared_by: str | None) -> str:
    """Return "squared M" for a metric that is compared by metric M; "" if by its own value.

    >>> compared_quantity("ece_debiased"), compared_quantity(None)
    ('squared ece_debiased', '')
    """
    return f"squared {compared_by}" if compared_by else ""


def _metric_of(row: Mapping[str, Any]) -> str:
    """Return a row's metric label; without its estimator if the row has a `variant`."""
    return str(metric_of(row["metric"]) if "variant" in row else row["metric"])


_PLACE: dict[str, Callable[[Mapping[str, Any]], tuple[str, ...]]] = {
    METRIC: lambda row: (row["dataset"], row["slice"], _metric_of(row)),
    SLICE: lambda row: (row["dataset"], row["slice"]),
    STUDY: lambda row: (),
}


def max_t(tests: Sequence[Evidence]) -> list[float]:
    """Return step-down max-T p-values, in order; Holm's if a test lacks resamples; NaN stays.

    Westfall and Young, 1993, algorithm 2.8; Ge and others, 2003.

    Each p-value is turned into the normal deviate of equal p. The largest of a family is set against the largest deviate, over all its
    tests, of the same resample; the second against the largest of the others, and so on. Tests that go together count as the few that
    they are, and the smallest p is 1 / (1 + resamples) however many tests there are. The chance of any false alarm stays below the level
    as with Holm, which is taken where a test has no resamples. Undefined (NaN) where a test is; such tests do not count.
    """
    from scipy.special import ndtri

    p_values = np.full(len(tests), np.nan)
    defined = [k for k, test in enumerate(tests) if not np.isnan(test.p)]
    if any(not len(tests[k].draws) for k in defined):
        return adjusted([test.p for test in tests], "holm")
    times = max((len(tests[k].draws) for k in defined), default=0)
    highest = np.zeros(times, dtype=np.float32)
    deviates = {k: float(-ndtri(tests[k].p / 2)) for k in defined}
    # From the smallest up, `highest` grows into the maximum over all tests no larger than this one: step-down in a single pass.
    ascending = sorted(defined, key=lambda k: deviates[k])
    for k in ascending:
        # Recalibrated confidences have fewer resamples; repeated, each still has its own distribution.
        highest = np.maximum(highest, np.abs(np.resize(tests[k].draws, times)))
        # Resamples of few groups may have lighter tails than Student's t, so never below the raw p.
        p_values[k] = max(tests[k].p, (1 + np.count_nonzero(highest >= deviates[k] - TIE)) / (1 + times))
    least = 0.0
    # A test that is less clear than another must not have a smaller corrected p.
    for k in reversed(ascending):
        least = p_values[k] = max(least, p_values[k])
    return [float(p) for p in p_values]


def adjusted(p: Sequence[float], correction: str) -> list[float]:
    """Return p-values by Holm, Benjamini-Hochberg or `none`, in order; NaN stays, uncounted.

    `holm` (Holm, 1979): the chance of any false alarm among them stays below the level. `benjamini_hochberg` (1995): the expected share of
    false alarms among those called stays below it.
    """
    values = np.array(p, dtype=np.float64)
    defined = np.flatnonzero(~np.isnan(values))
    order = defined[np.argsort(values[defined], kind="stable")]
    m, ranked = len(order), values[order]
    if correction == "holm":
        ranked = np.maximum.accumulate(np.minimum(1.0, ranked * np.arange(m, 0, -1)))
    elif correction == "benjamini_hochberg":
        ranked = np.minimum.accumulate((ranked * m / np.arange(1, m + 1))[::-1])[::-1]
    elif correction != "none":
        raise ValueError(f"correction: expected holm, benjamini_hochberg or none, got {correction!r}")
    values[order] = ranked
    return [float(v) for v in values]


def balanced_spread(deviations: NDArray[np.floating[Any]]) -> Floats:
    """Return max(RMS, SD implied by the .99 quantile of sizes) on the last axis; skips NaN.

    It is the root mean square, or what their .99 quantile would make of it were they normal, if that is more: what is mostly small and
    seldom large, as of sets whose threshold jumps or of a nearly constant estimator, would else set the largest statistic of the whole
    family (Westfall and Young, 1993, section 2.5, on balance).
    """
    return spread_of_sizes(np.abs(deviations))


def spread_of_sizes(sizes: NDArray[np.floating[Any]]) -> Floats:
    """Return `balanced_spread` of absolute deviations, in any order, along the last axis."""
    n = sizes.shape[-1]
    place = (n - 1) * TAIL
    low = math.floor(place)
    spread: Floats = np.asarray(np.sqrt(np.add.reduce(np.square(sizes), axis=-1) / n))
    if low == place or sizes.dtype != np.float64 or np.isnan(spread).any():
        quantile = np.nanquantile if np.isnan(sizes).any() else np.quantile  # the former goes row by row
        tail = np.asarray(quantile(sizes, TAIL, axis=-1))
        return np.asarray(np.maximum(np.sqrt(np.nanmean(sizes**2, axis=-1)), tail / NORMAL_TAIL))
    # np.quantile takes several times as long for so few numbers, and most rows have too few large ones for their tail to be the wider
    many = np.asarray((sizes > (spread * NORMAL_TAIL * (1 - 1e-9))[..., None]).sum(axis=-1) > n - 2 - low)
    if many.any():
        part = np.partition(sizes[many], low, axis=-1)
        below, above, share = part[:, low], part[:, low + 1 :].min(axis=-1), place - low
        tail = above - (above - below) * (1 - share) if share >= 0.5 else below + (above - below) * share
        spread[many] = np.maximum(spread[many], tail / NORMAL_TAIL)
    return spread
