"""Rankings with statistical ties: paired comparisons of all models, and of all estimators.

Every candidate of a column is measured in the same resamples of whole groups, so the difference of any two has its own spread and
what they share cancels out. The largest of all differences over their spreads, resample by resample, is what the largest that was
found is held against (max-T): so the error rate is that of the whole family, and naming the best of many is allowed for.

- The best is significantly better than every other candidate; else it shares the lead.
- The confidence set of the best holds every candidate that is statistically tied with every better one (Hsu, 1984, with a bootstrap
  distribution; Hansen, Lunde & Nason's model confidence set asks the same).
- The interval of each value holds for all candidates of its column at once, so also for the one that was picked.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, groupby
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from qualm.registry import baseline_model
from qualm.registry.sample import ESTIMATOR_COMPARISONS, RANKINGS
from qualm.runners.runtime.precision import round_result, round_results
from qualm.runners.scoring.cells import PAIRED_UNCERTAINTY, Cell
from qualm.runners.scoring.families import ALPHA, METRIC, SLICE, balanced_spread, spread_of_sizes
from qualm.runners.scoring.limits import (
    UNBOUNDED,
    Bounds,
    critical,
    degrees_of_freedom,
    difference_bounds,
    exchange_deviate,
    jackknife_error,
    standard_error,
)
from qualm.runners.scoring.measuring.measured import Measured, Slice, or_null
from qualm.runners.scoring.measuring.metrics import Metric, metric_of
from qualm.runners.scoring.paired_tests import MIN_CLASS_ROWS
from qualm.runners.scoring.scored_share import shares_differ

Floats = NDArray[np.float64]
MODELS, ESTIMATORS, BOTH = "models", "estimators", "models and estimators"
"""Ranked candidates: models by one metric, estimators of one model, or estimators of all models."""
BY_MODALITY = "modalities"
"""Compared but not ranked: means over the perturbations of each modality."""
PAIRED = (ESTIMATORS, BY_MODALITY)
"""Columns of which every pair is a row of a table."""
MIN_GROUPS = 20
"""Below, resamples of groups say too little about their own spread."""
FEW_GROUPS = 50
"""Up to so many, the largest difference in resamples is too small: they vary in few directions. Bonferroni's p over a column's pairs, which
takes nothing from them but spreads, is then a bound."""
DEFINED = 0.9
"""Share of resamples in which a candidate must have a value."""
Place = tuple[str, str, str, str, str, str]
"""(dataset, slice, metric, variant, what is ranked, model): a column."""


@dataclass(frozen=True)
class Candidate:
    """One model or estimator in one ranking, with its value in resamples."""

    name: str
    value: float
    drawn: NDArray[np.float32]
    n: int
    bounds: Bounds = UNBOUNDED
    chance: float = math.nan
    """Value of an uninformative uncertainty."""
    scored_share: float = math.nan
    freedom: float = math.inf
    """Degrees of freedom of its standard error: those of the rarer class, where its metric contrasts two."""
    deleted: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, dtype=np.float32))
    """Values of the jackknife; empty without one."""
    units: float = math.inf
    """Effective number of groups by their sizes; of a metric that contrasts two classes, the number of groups."""


@dataclass(frozen=True)
class Ranked:
    """One ranking with its tested pairwise differences."""

    place: Place
    higher_is_better: bool
    names: tuple[str, ...]
    """Names of its candidates, in the order of all other fields."""
    values: Floats
    n: NDArray[np.int64]
    z: Floats
    """(k, k), symmetric: each difference over its spread, as a normal deviate; 0 where nothing can be said."""
    low: Floats
    high: Floats
    """(k,): intervals that hold for all candidates at once."""
    highest: Floats
    """The largest deviate of any pair in each resample, around what was found."""
    least_p: Floats
    """(k, k): what p is at least; 0 with many groups."""
    chance: Floats
    scored_share: Floats
    """(k,): NaN where they are not known."""
    pair_ends: Floats
    """(pairs, 2): of estimators, the interval of each difference, pairs as in the upper triangle; else empty."""


@dataclass
class Rankings:
    """Collects values of models and estimators, and ranks them when a dataset is complete."""

    metrics: Sequence[Metric]
    level: float
    family: str
    waiting: dict[tuple[Place, bool, int], list[Candidate]] = field(default_factory=dict)
    ranked: list[Ranked] = field(default_factory=list)

    def add(self, cell: Cell, part: Slice, values: Sequence[tuple[str, Measured]], of_all_rows: bool, is_clean: bool) -> None:
        """Collect values to rank: models if `is_clean`, estimators if `of_all_rows`.

        Values over fewer than MIN_GROUPS groups are ignored.

        A text-only or shuffled-image baseline is ranked with no model, since paired tests hold models against it. Its own estimators are
        ranked.
        """
        if (groups := part.bootstrap.groups) < MIN_GROUPS:
            return
        among_models = is_clean and not baseline_model(cell.model)
        draws: dict[int, NDArray[np.float32] | None] = {}  # several settings may share one value
        for label, measured in values:
            metric = metric_of(label, self.metrics)
            if id(measured) not in draws:
                draws[id(measured)] = ranking_resamples(metric, measured)
            if (drawn := draws[id(measured)]) is None:
                continue
            if metric.classes is not None and (measured.units or 0.0) < MIN_CLASS_ROWS:
                continue
            freedom = degrees_of_freedom(measured.value, measured.deleted, measured.units or groups, measured.method == "proportion")
            shares = measured.chance, measured.scored_share
            # Of values at drawn thresholds the jackknife sees the test rows alone.
            deleted = (measured.deleted if measured.calibrating is None else measured.deleted[:0]).astype(np.float32)
            units = measured.units if measured.units and metric.classes is None else groups
            one = Candidate(cell.model, measured.value, drawn, measured.n, measured.bounds, *shares, freedom, deleted, units)
            better = bool(metric.plugin.declares["higher_is_better"])
            where, (base, estimator) = (cell.samples.name, part.label), _without_estimator(metric, label, cell)
            if among_models:
                self._wait((*where, label, cell.variant, MODELS, ""), better, groups, one)
            if of_all_rows and estimator:
                self._wait((*where, base, cell.variant, ESTIMATORS, cell.model), better, groups, replace(one, name=estimator))
                if among_models:
                    both = replace(one, name=f"{cell.model}/{estimator}")
                    self._wait((*where, base, cell.variant, BOTH, ""), better, groups, both)

    def _wait(self, place: Place, better: bool, groups: int, candidate: Candidate) -> None:
        self.waiting.setdefault((place, better, groups), []).append(candidate)

    def rank(self) -> None:
        """Test the rankings collected since the last call, and release their resamples."""
        tested: dict[tuple[Any, ...], Ranked] = {}  # settings that differ by name alone share all their values
        for (place, better, groups), candidates in self.waiting.items():
            if len(candidates) > 1:
                key = (place[4] in PAIRED, better, groups, *(id(c.drawn) for c in candidates))
                if key not in tested:
                    tested[key] = ranked(place, better, candidates, groups, self.level)
                self.ranked.append(replace(tested[key], place=place, names=tuple(c.name for c in candidates)))
        self.waiting.clear()

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Return the tables (RANKINGS, ESTIMATOR_COMPARISONS) of all rankings."""
        rankings: dict[str, Any] = {name: [] for name in RANKINGS.names}
        pairs: list[dict[str, Any]] = []
        ordered = sorted(self.ranked, key=lambda r: family_of(r.place, self.family))
        for _, members in groupby(ordered, key=lambda r: family_of(r.place, self.family)):
            of = list(members)
            # The largest over all columns of the family, resample by resample: the columns stand on the same draws, and so share luck.
            highest = np.sort(np.max([r.highest for r in of], axis=0))
            for column in of:
                p = np.maximum(p_values(column.z, highest), column.least_p)
                for name, values in ranking_columns(column, p).items():
                    rankings[name] += values
                if column.place[4] in PAIRED:
                    pairs += pair_rows(column, p)
        for end in ("low", "high"):  # NaN is null
            rankings[end] = pa.array(round_results(np.array(rankings[end], dtype=np.float64)), pa.float64(), from_pandas=True)
        return pa.table(rankings, schema=RANKINGS), pa.Table.from_pylist(pairs, schema=ESTIMATOR_COMPARISONS)


def ranking_resamples(metric: Metric, measured: Measured) -> NDArray[np.float32] | None:
    """Return (B,) resamples of a value, for rankings; None if it cannot be ranked."""
    drawn, declares = measured.resampled, metric.plugin.declares
    defined = ~np.isnan(drawn)
    if declares.get("higher_is_better") not in (True, False) or np.isnan(measured.value) or not len(drawn):
        return None
    # Recalibrated confidences have comparisons and resamples of their own; the bias of what is `compared_by` another depends on the model.
    if defined.mean() < DEFINED or measured.recalibrated is not None or "compared_by" in declares:
        return None
    # Neither do resamples that no interval can be made of say anything of a difference's spread.
    if measured.why_no_interval or np.isnan(measured.deleted).any():
        return None
    # The few undefined resamples are put at the value itself, where they widen no spread.
    return np.where(defined, drawn, measured.value).astype(np.float32)


def _without_estimator(metric: Metric, label: str, cell: Cell) -> tuple[str, str]:
    """Return (the label without its estimator, the estimator or "" if it has none)."""
    rest = label[len(metric.label) + 1 : -1]
    if "uncertainty" in metric.reads or set(metric.reads) & PAIRED_UNCERTAINTY:
        for name in cell.uncertainties:
            if rest == name or rest.endswith(f"/{name}"):
                setting = rest[: -len(name)].rstrip("/")
                return f"{metric.label}[{setting}]" if setting else metric.label, name
    return label, ""


def family_of(place: Place, span: str) -> tuple[str, ...]:
    """Return a ranking's test family by `span`: its place, (dataset, slice), or () for all."""
    if span == METRIC:
        return place
    return place[:2] if span == SLICE else ()


def ranked(place: Place, higher_is_better: bool, candidates: list[Candidate], groups: int, level: float) -> Ranked:
    """Compare all pairs of candidates; return their deviates, least p-values and intervals."""
    drawn: NDArray[np.floating[Any]] = np.stack([c.drawn for c in candidates])
    original = np.array([c.value for c in candidates])
    n = max(c.n for c in candidates)
    share = bool(((drawn >= 0) & (drawn <= 1)).all() and ((original >= 0) & (original <= 1)).all())
    values, stretch = _log_odds(original, n) if share else (original, np.ones(len(original)))
    # Stretched by the derivative at the value, not transformed: log odds of resamples at 0 or 1 would be infinite.
    drawn = drawn * stretch[:, None]
    centred = drawn - drawn.mean(axis=1, keepdims=True)
    small = np.sqrt(groups / (groups - 1))  # resamples of g groups vary too little by this
    freedom = np.array([max(1.0, min(groups - 1.0, c.freedom)) for c in candidates])
    of_pair = np.minimum.outer(freedom, freedom)
    units = np.array([min(float(groups), c.units) for c in candidates])
    units_of_pair = np.minimum.outer(units, units)
    variances = jackknife_variances([c.deleted for c in candidates], stretch)
    z, highest = np.zeros((len(values), len(values))), np.zeros(drawn.shape[1])
    for i in range(len(values) - 1):
        sizes = centred[i] - centred[i + 1 :]
        spread = spread_of_sizes(np.abs(sizes, out=sizes))
        # Single precision leaves differences of this size between candidates that are the same.
        live = spread > 1e-7
        size, error = np.abs(values[i] - values[i + 1 :]), np.maximum(spread * small, np.sqrt(variances[i, i + 1 :]))
        t = np.divide(size, error, out=np.zeros(len(spread)), where=live)
        exchanges = np.zeros(len(spread))
        exchanges[live] = exchange_deviate(size[live], error[live], units_of_pair[i, i + 1 :][live])
        z[i, i + 1 :] = np.minimum(normal_deviate(t, of_pair[i, i + 1 :]), exchanges)
        if live.any():
            # Row by row, since all pairs at once would be (k^2, resamples) numbers.
            sizes, spread = (sizes, spread) if live.all() else (sizes[live], spread[live])
            highest = np.fmax(highest, np.divide(sizes, spread[:, None], out=sizes).max(axis=0))
    upper = np.triu_indices(len(values), 1)
    z.T[upper] = z[upper]
    spread = balanced_spread(centred)
    live = spread > 1e-7
    widest = (np.abs(centred[live]) / spread[live, None]).max(axis=0) if live.any() else np.zeros(1)
    half = np.where(live, _back(float(np.quantile(widest, level)), freedom) * small * spread, np.nan)
    low, high = values - half, values + half
    if share:
        from scipy.special import expit

        low, high = expit(low), expit(high)
    floor, ceiling = np.array([c.bounds for c in candidates]).T
    # Ends stay within what the metric can be, and hold the value that is printed.
    low, high = np.minimum(original, np.maximum(low, floor)), np.maximum(original, np.minimum(high, ceiling))
    least_p = np.where(of_pair < FEW_GROUPS, bonferroni(z), 0.0)
    names, sizes = tuple(c.name for c in candidates), np.array([c.n for c in candidates], dtype=np.int64)
    pairs = combinations(candidates, 2) if place[4] in PAIRED else ()
    ends = np.array([_difference_interval(a, b, groups, level) for a, b in pairs]).reshape(-1, 2)
    chance, shares = np.array([(c.chance, c.scored_share) for c in candidates]).T
    return Ranked(place, higher_is_better, names, original, sizes, z, low, high, highest, least_p, chance, shares, ends)


def jackknife_variances(deleted: Sequence[NDArray[np.float32]], stretch: Floats) -> Floats:
    """Return (k, k) jackknife variances of pairwise differences; 0 without a jackknife.

    `deleted` has the values of each candidate with each part of the groups deleted, `stretch` (k,) the factor of its deviations.
    """
    parts = {len(of) for of in deleted}
    if len(parts) != 1 or parts == {0}:
        return np.zeros((len(deleted), len(deleted)))
    off = np.stack(deleted).astype(np.float64)
    off = (off - off.mean(axis=1, keepdims=True)) * stretch[:, None]
    n = off.shape[1]
    products = (n - 1) / n * off @ off.T
    own = np.diag(products)
    return np.asarray(np.maximum(0.0, own[:, None] + own - 2 * products), dtype=np.float64)


def _difference_interval(a: Candidate, b: Candidate, groups: int, level: float) -> tuple[float, float]:
    """Return the (low, high) Student's t interval of b minus a."""
    value, freedom = b.value - a.value, max(1.0, min(groups - 1.0, a.freedom, b.freedom))
    error = standard_error((b.drawn - a.drawn).astype(np.float64), groups)
    if len(a.deleted) and len(a.deleted) == len(b.deleted):
        error = max(error, jackknife_error((b.deleted - a.deleted).astype(np.float64)))
    reach = critical(level, freedom) * error
    floor, ceiling = difference_bounds(a.bounds)
    return max(floor, value - reach), min(ceiling, value + reach)


def _log_odds(values: Floats, n: int) -> tuple[Floats, Floats]:
    """Return (log odds of shares clipped to 0.5 / n..1 - 0.5 / n, their derivatives).

    The spread of a share falls as it nears 0 or 1, and so does that of an AUROC: of many useless ones the highest has the smallest
    spread, and seems clear of chance. That of the log odds hardly changes.
    """
    inside = np.clip(values, 0.5 / n, 1 - 0.5 / n)
    return np.log(inside / (1 - inside)), 1 / (inside * (1 - inside))


def normal_deviate(t: Floats, freedom: float | Floats) -> Floats:
    """Return the normal deviates with the same p-values as Student's t >= 0, at most 1e6."""
    from scipy.special import ndtri, stdtr

    return np.asarray(np.minimum(-ndtri(stdtr(freedom, -t)), 1e6), dtype=np.float64)


def _back(z: float, freedom: Floats) -> Floats:
    """Return the values of Student's t with the p-value of a normal deviate."""
    from scipy.special import ndtr, stdtrit

    beyond = float(ndtr(-z))
    return np.asarray(-stdtrit(freedom, beyond) if beyond > 0 else np.full(len(freedom), math.inf))


def bonferroni(z: Floats) -> Floats:
    """Return (k, k) Bonferroni-corrected two-sided p-values of pairs' normal deviates `z`."""
    from scipy.special import ndtr

    pairs = len(z) * (len(z) - 1) // 2
    return np.asarray(np.minimum(1.0, 2 * pairs * ndtr(-z)), dtype=np.float64)


def p_values(z: Floats, highest: Floats) -> Floats:
    """Return (k, k) p-values: (1 + number of sorted `highest` >= z) / (1 + their number)."""
    as_large = len(highest) - np.searchsorted(highest, z, side="left")
    return np.asarray((1 + as_large) / (1 + len(highest)), dtype=np.float64)


def ranking_columns(column: Ranked, p: Floats) -> dict[str, list[Any]]:
    """Return RANKINGS of one ranking by column, best first; `p`: (k, k) corrected p-values."""
    dataset, part, metric, variant, among, model = column.place
    # Rounded as printed: what looks equal on the page is equal here.
    rounded = round_results(column.values)
    score = rounded * (1 if column.higher_is_better else -1)
    order = np.argsort(-score, kind="stable")
    leader = order[0]
    ahead = np.greater.outer(score, score)
    above = np.logical_and(p < ALPHA, ahead.T)  # [i, j]: j is significantly better than i
    beaten = above.any(axis=1)
    adjusted = p[:, leader].copy()
    # The leader against its closest rival: it leads alone only if it is significantly better than all.
    adjusted[leader] = np.delete(p[leader], leader).max()
    k = len(order)
    below_chance = column.high < column.chance if column.higher_is_better else column.low > column.chance
    not_comparable = shares_differ(column.scored_share.tolist())
    # What is worse than no information is not the best of anything, and what was read unequally often is not ranked.
    eligible = np.logical_not(below_chance) & (not not_comparable)
    same = {"dataset": dataset, "variant": variant, "slice": part, "metric": metric, "among": among, "model": model or None}
    of_all: dict[str, Any] = same | {"leader": column.names[leader], "candidates": k}
    return {name: [value] * k for name, value in of_all.items()} | {
        "candidate": [column.names[place] for place in order.tolist()],
        "value": rounded[order].tolist(),
        "low": column.low[order].tolist(),
        "high": column.high[order].tolist(),
        "p_adjusted": adjusted[order].tolist(),
        "rank_low": [None if not_comparable else 1 + n for n in above.sum(axis=1)[order].tolist()],
        "rank_high": [None if not_comparable else k - n for n in above.sum(axis=0)[order].tolist()],
        "may_be_best": (np.logical_not(beaten) & eligible)[order].tolist(),
        "is_best": [bool(adjusted[leader] < ALPHA and eligible[leader]), *[False] * (k - 1)],
        "n": column.n[order].tolist(),
        "chance": [or_null(level) for level in column.chance[order]],
        "scored_share": [or_null(share) for share in column.scored_share[order]],
        "not_comparable": [not_comparable] * k,
    }


def pair_rows(column: Ranked, p: Floats) -> Iterator[dict[str, Any]]:
    """Yield ESTIMATOR_COMPARISONS rows of pairs a, b in order; `p`: (k, k) corrected p-values."""
    from scipy.special import ndtr

    dataset, part, metric, variant, _, model = column.place
    ends = iter(column.pair_ends)
    values, n = column.values.tolist(), column.n.tolist()
    for i, a in enumerate(column.names):
        for j in range(i + 1, len(column.names)):
            low, high = next(ends)
            yield {
                "model": model,
                "dataset": dataset,
                "variant": variant,
                "slice": part,
                "metric": metric,
                "a": a,
                "b": column.names[j],
                "value_a": round_result(values[i]),
                "value_b": round_result(values[j]),
                "difference": round_result(values[j] - values[i]),
                "low": round_result(low),
                "high": round_result(high),
                "p": float(2 * ndtr(-column.z[i, j])),
                "p_adjusted": float(p[i, j]),
                "n": min(n[i], n[j]),
                "higher_is_better": column.higher_is_better,
            }
