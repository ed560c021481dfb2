"""Attribution of a sample's uncertainty to a modality, learnt from samples whose modality is known.

A perturbation of the spoilt modality raises uncertainty less, not more, since little is left to spoil (typos move the entropy of a clean
question more than that of a misspelt one). So the largest change does not reveal the modality. Instead, for one model:

1. The features of a sample are, for every estimator, its uncertainty and its mean change under the perturbations of each modality,
   without the variants under which the model collapses on that dataset. Estimators that remove a modality
   (`pointwise_mutual_information`, `image_removed_divergence`) add the most.
2. Each feature is standardised, clipped to CLIP standard deviations, and 0 where it is missing.
3. A ridge logistic regression (multinomial for more than two modalities) is fitted to the labelled samples.
4. A labelled sample is attributed by a regression that saw nothing of its group (FOLDS parts of the groups), others by one of all
   labelled samples. A second cross-fit also holds out the kind of damage (`meta.how`): it estimates the agreement for unlabelled damage.

It needs perturbations of two modalities and MIN_LABELLED_GROUPS labelled groups of each of two; without them nothing is attributed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.registry import CLEAN, MODALITIES
from qualm.registry.where import ValueOfFieldError, Verdict, parse, verdict
from qualm.runners.data.aligned import Floats, Samples
from qualm.runners.data.rows import as_sample
from qualm.runners.runtime.precision import round_result, significant
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.ranking import tie_sums

NOT_UNCERTAIN = CLEAN
"""Label of a sample without uncertainty in any modality; it is shown but not scored."""
KIND = "how"
"""Meta key of the kind of damage."""
GROUP, GROUP_AND_KIND = "group", "group and kind"
FOLDS = 5
FOLD_SEED = 314159
MIN_LABELLED_GROUPS = 20
CLIP = 3.0
RIDGE = 1.0
"""Weight of half the squared coefficients against the sum of log-losses."""


def known_modalities(samples: Samples, subsets: Mapping[str, str] | None = None) -> list[str | None]:
    """Return each sample's known modality of uncertainty; `clean` if certain, None if unknown.

    It is the only card subset of such a name (name -> expression) that holds; else `meta.modality`, else a part of the category.
    """
    names = {*MODALITIES, NOT_UNCERTAIN}
    by_subset = _by_subset(samples, {name: verdict(parse(text)) for name, text in (subsets or {}).items() if name in names})
    by_meta = samples.values("modality")
    parts = [next((p for p in (c or "").split("/") if p in names), None) for c in samples.values("category")]
    return [s or (m if m in names else c) for s, m, c in zip(by_subset, by_meta, parts, strict=True)]


def _by_subset(samples: Samples, verdicts: Mapping[str, Verdict]) -> list[str | None]:
    if not verdicts:
        return [None] * samples.n
    subset_labels: list[str | None] = []
    for row in samples.table.to_pylist():
        sample = as_sample(row)
        try:
            holding = [name for name, holds in verdicts.items() if holds(sample)]
        except ValueOfFieldError:
            holding = []
        subset_labels.append(holding[0] if len(holding) == 1 else None)
    return subset_labels


def attribution_features(
    changes: Mapping[tuple[str, str], Floats], modality_of_variant: Mapping[str, str], n: int
) -> dict[tuple[str, str], Floats]:
    """Return (estimator, modality) -> (n,) mean change; for `clean` the uncertainty itself.

    The mean is over the finite changes under the modality's perturbations; NaN if there are none. `changes` is (estimator, variant) ->
    (n,) change of uncertainty; under CLEAN the uncertainty itself.
    """
    features = {}
    for estimator in dict.fromkeys(name for name, _ in changes):
        for of in (CLEAN, *MODALITIES):
            parts = [d for (e, v), d in changes.items() if e == estimator and modality_of_variant.get(v, CLEAN) == of]
            if parts:
                stacked = np.stack(parts)
                finite = np.isfinite(stacked)
                total = np.where(finite, stacked, 0.0).sum(axis=0)
                features[estimator, of] = np.where(finite.any(axis=0), total / np.maximum(1, finite.sum(axis=0)), np.nan)
    return features


@dataclass(frozen=True)
class ModalityRegression:
    """Fitted multinomial logistic regression of a sample's modality on its features."""

    modalities: tuple[str, ...]
    mean: Floats
    spread: Floats
    weights: Floats
    """(features + 1, modalities); the last row is the intercept."""

    def probabilities(self, features: Floats) -> Floats:
        """Return each row's probabilities, (n, modalities), from its features (n, features)."""
        scores = np.c_[_scaled(features, self.mean, self.spread), np.ones(len(features))] @ self.weights
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares: Floats = powers / powers.sum(axis=1, keepdims=True)
        return shares


def _scaled(features: Floats, mean: Floats, spread: Floats) -> Floats:
    return np.nan_to_num(np.clip((features - mean) / spread, -CLIP, CLIP), nan=0.0)


def fit_modalities(features: Floats, truth: Sequence[str | None], chosen: NDArray[np.bool_]) -> ModalityRegression | None:
    """Fit the regression to the chosen rows; None if they have fewer than two modalities.

    `features` are (n, features), NaN where one is missing; `truth` is known for the chosen rows.
    """
    from sklearn.linear_model import LogisticRegression

    true_labels = [truth[i] for i in np.flatnonzero(chosen).tolist()]
    modalities = tuple(m for m in MODALITIES if m in true_labels)
    if len(modalities) < 2:
        return None
    mean, spread = _moments(features[chosen])
    codes = np.array([modalities.index(str(t)) for t in true_labels])
    regression = LogisticRegression(C=1 / RIDGE, solver="newton-cholesky", tol=1e-9, max_iter=200)
    fitted = regression.fit(_scaled(features[chosen], mean, spread), codes)
    weights = np.c_[fitted.coef_, fitted.intercept_].T
    if len(modalities) == 2:
        weights = np.c_[np.zeros(len(weights)), weights[:, 0]]
    return ModalityRegression(modalities, mean, spread, weights)


def _moments(features: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each column's finite values; 1 if constant."""
    finite = np.isfinite(features)
    n = np.maximum(1, finite.sum(axis=0))
    mean = np.where(finite, features, 0.0).sum(axis=0) / n
    spread = np.sqrt((np.where(finite, features - mean, 0.0) ** 2).sum(axis=0) / n)
    return mean, np.where(spread > 0, spread, 1.0)


def has_enough_groups(truth: Sequence[str | None], groups: Sequence[str]) -> bool:
    """Return true if two modalities have at least MIN_LABELLED_GROUPS labelled groups each."""
    by_modality = [{g for t, g in zip(truth, groups, strict=True) if t == m} for m in MODALITIES]
    return sum(len(of) >= MIN_LABELLED_GROUPS for of in by_modality) >= 2


def cross_fitted(features: Floats, truth: Sequence[str | None], groups: Sequence[str], kinds: Sequence[str | None] | None = None) -> Floats:
    """Return cross-fitted probabilities (n, len(MODALITIES)); NaN for unlabelled rows.

    A row's probabilities come from a fit without its group. With `kinds`, kinds are held out too: the k-th kind of every modality at once,
    so that the share of modalities in the training rows reveals nothing. Rows of unknown kind are left out. All NaN if a modality has a
    single kind.
    """
    fold = _group_folds(groups)
    kind = np.zeros(len(fold), dtype=np.int64) if kinds is None else _kind_folds(truth, kinds)
    labelled = np.array([t in MODALITIES for t in truth]) & (kind >= 0)
    probabilities = np.full((len(truth), len(MODALITIES)), np.nan)
    if kinds is not None and not (kind > 0).any():
        return probabilities
    for f in range(FOLDS):
        for k in range(int(kind.max(initial=0)) + 1):
            learnt_rows = labelled & (fold != f) & ((kind != k) if kinds is not None else True)
            tested_rows = labelled & (fold == f) & (kind == k)
            learnt = fit_modalities(features, truth, learnt_rows) if tested_rows.any() else None
            if learnt is not None:
                _fill(probabilities, tested_rows, learnt, features)
    return probabilities


def modality_probabilities(features: Floats, truth: Sequence[str | None], groups: Sequence[str]) -> Floats:
    """Return (n, len(MODALITIES)) probabilities; those of labelled rows are held out by group."""
    probabilities = cross_fitted(features, truth, groups)
    labelled = np.array([t in MODALITIES for t in truth])
    learnt = fit_modalities(features, truth, labelled)
    if learnt is not None and not labelled.all():
        _fill(probabilities, ~labelled, learnt, features)
    return probabilities


def _fill(probabilities: Floats, rows: NDArray[np.bool_], learnt: ModalityRegression, features: Floats) -> None:
    rounded = np.array([[significant(p) for p in row] for row in learnt.probabilities(features[rows]).tolist()])
    for column, modality in enumerate(learnt.modalities):
        probabilities[rows, MODALITIES.index(modality)] = rounded[:, column]


def _group_folds(groups: Sequence[str]) -> NDArray[np.int64]:
    names, codes = np.unique(np.array(groups, dtype=object).astype(str), return_inverse=True)
    return np.asarray(np.random.default_rng(FOLD_SEED).permutation(len(names)) % FOLDS)[codes]


def _kind_folds(truth: Sequence[str | None], kinds: Sequence[str | None]) -> NDArray[np.int64]:
    """Return (n,) number of a row's kind in its modality, -1 if unknown; 0s if one is alone."""
    by_modality = {m: sorted({k for t, k in zip(truth, kinds, strict=True) if t == m and k is not None}) for m in MODALITIES}
    several = {m: names for m, names in by_modality.items() if any(t == m for t in truth)}
    if any(len(names) < 2 for names in several.values()):
        return np.zeros(len(truth), dtype=np.int64)
    places = [several[t].index(k) if t in several and k is not None else -1 for t, k in zip(truth, kinds, strict=True)]
    return np.array(places, dtype=np.int64)


def most_probable_modality(probabilities: Floats) -> list[str | None]:
    """Return the name of each row's most probable modality; None for a row of NaN."""
    return [MODALITIES[int(np.nanargmax(row))] if np.isfinite(row).any() else None for row in probabilities]


def agreement(
    truth: Sequence[str | None], probabilities: Floats, groups: Sequence[str], n_resamples: int, level: float, seed: int, *names: str
) -> dict[str, Any]:
    """Return attribution's accuracy, balanced accuracy and AUROC, with limits, by name.

    Returns:
        `n` labelled samples with an attribution; `accuracy`; `balanced_accuracy`, the mean recall over modalities; `auroc` of the lead of
        image over text among samples of the two; each (higher is better) with percentile limits over resamples of groups, without
        refitting; and `floor`, the accuracy of always naming the most frequent label. Null where undefined.
    """
    says = most_probable_modality(probabilities)
    rows = np.array([i for i, (t, s) in enumerate(zip(truth, says, strict=True)) if t in MODALITIES and s is not None], dtype=np.int64)
    empty = dict.fromkeys(f"{m}{end}" for m in MEASURES for end in ("", "_low", "_high"))
    if not len(rows):
        return {"n": 0, **empty, "floor": None}
    true_labels = np.array([str(truth[i]) for i in rows])
    right = true_labels == np.array([str(says[i]) for i in rows])
    codes = np.unique(np.array([groups[i] for i in rows], dtype=object).astype(str), return_inverse=True)[1].astype(np.int64)
    bootstrap = Bootstrap(codes, n_resamples, seed, "attribution", *names)
    lead = probabilities[rows, MODALITIES.index("image")] - probabilities[rows, MODALITIES.index("text")]
    whole = _measures(true_labels, right, lead, np.ones((1, len(rows))))
    blocks = bootstrap.blocks() if bootstrap.groups >= MIN_GROUPS else ()
    drawn = [_measures(true_labels, right, lead, np.asarray(block)) for block in blocks]
    values: dict[str, Any] = {"n": len(rows)}
    for name in MEASURES:
        resampled = np.concatenate([of[name] for of in drawn]) if drawn else np.empty(0)
        resampled = resampled[np.isfinite(resampled)]
        low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2]) if len(resampled) else (None, None)
        value = float(whole[name][0])
        values |= {name: None if np.isnan(value) else round_result(value)}
        values |= {f"{name}_low": None if low is None else round_result(low), f"{name}_high": None if high is None else round_result(high)}
    return values | {"floor": max(float(np.mean(true_labels == m)) for m in MODALITIES)}


MEASURES = ("accuracy", "balanced_accuracy", "auroc")
MIN_GROUPS = 5


def _measures(true_labels: NDArray[Any], right: NDArray[np.bool_], lead: Floats, weights: Floats) -> dict[str, Floats]:
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy = weights @ right / weights.sum(axis=1)
        recalls = [weights @ (right & (true_labels == m)) / (weights @ (true_labels == m)) for m in MODALITIES if (true_labels == m).any()]
        return {"accuracy": accuracy, "balanced_accuracy": np.mean(recalls, axis=0), "auroc": _auroc(true_labels, lead, weights)}


def _auroc(true_labels: NDArray[Any], lead: Floats, weights: Floats) -> Floats:
    """Return (B,) P(an image sample has the larger lead), half for ties; NaN for one class."""
    of = np.isin(true_labels, ("image", "text")) & np.isfinite(lead)
    if not of.any():
        return np.full(len(weights), np.nan)
    positive, negative = tie_sums(lead[of], [(true_labels[of] == m).astype(np.float64) for m in ("image", "text")], weights[:, of])
    below = np.cumsum(negative, axis=1) - negative
    area: Floats = (positive * (below + negative / 2)).sum(axis=1) / (positive.sum(axis=1) * negative.sum(axis=1))
    return area


def beats_the_floor(row: Mapping[str, Any]) -> bool:
    """Return true if the accuracy's whole interval is above the floor."""
    low, floor = row["accuracy_low"], row["floor"]
    return low is not None and floor is not None and low > floor
