"""Blind refusers: classifiers that see only the question, or only the image, and say which questions are unanswerable.

They are the baseline for methods that teach a model to abstain. A model that is no better than the text-only refuser need not look at the
image; one that is no better than the image-only refuser may have learnt traces of image editing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from qualm.runners.data.aligned import Floats, Ints, Samples
from qualm.runners.data.splits import TRAIN
from qualm.runners.results.blind_classifiers import Bools, Fitted, cross_fitted, image_classifier, question_classifier, why_too_few
from qualm.runners.results.shortcuts import TrainTestRows, questions_of, sampled_image_features

OWN, POOLED, IN_TURN = "train", "train of others", "in turn"
Classifier = Callable[[Any, Bools], Fitted]
"""Function of features and labels (True for unanswerable) that returns a `Fitted`."""


@dataclass(frozen=True)
class RefuserPredictions:
    """A text-only or image-only classifier's predictions for one dataset's questions."""

    probability: Floats
    """(n,) P(unanswerable); NaN without a prediction."""
    n_learnt: int
    learnt: str
    """Training rows: OWN, POOLED or IN_TURN."""
    why: str = ""


def predict_refusals(
    samples_by_dataset: Mapping[str, Samples],
    scored: Mapping[str, Bools],
    seed: int,
    features: Mapping[str, Callable[[Ints], Floats]] | None = None,
) -> dict[str, RefuserPredictions]:
    """Train a classifier for every dataset; return its predictions by dataset.

    It is trained on the dataset's own rows of `train`; if these lack a class, on those of all datasets together; if these do too, it is
    cross-fitted over the scored groups.

    Args:
        samples_by_dataset: all rows of each dataset, by name.
        scored: (n,) which of them are scored.
        features: image features of given rows, by dataset, for image-only refusers; None for text-only ones.
    """
    if features is None:
        features_seen = {name: np.array(questions_of(samples), dtype=object) for name, samples in samples_by_dataset.items()}
        classifier: Classifier = question_classifier
    else:
        features_seen = {
            name: sampled_image_features(
                s, TrainTestRows(np.flatnonzero(_train(s)), np.flatnonzero(scored[name]), False), features[name], every=True
            )
            for name, s in samples_by_dataset.items()
        }
        classifier = partial(_of_pictures, seed=seed)
    pool = _Pool(samples_by_dataset, features_seen)
    return {
        name: _refuser(samples, features_seen[name], pool, scored[name], seed, classifier) for name, samples in samples_by_dataset.items()
    }


def _of_pictures(features: Any, unanswerable: Bools, seed: int) -> Fitted:
    return image_classifier(features, unanswerable, seed)


class _Pool:
    """Training rows of all datasets together, with labels."""

    def __init__(self, sets: Mapping[str, Samples], features_seen: Mapping[str, Any]) -> None:
        chosen = {name: _train(samples) & _rows_with_features(features_seen[name]) for name, samples in sets.items()}
        self.seen = _joined([features_seen[name][mine] for name, mine in chosen.items() if mine.any()])
        truths = (truth for name, samples in sets.items() for truth in samples.answerable[chosen[name]])
        self.unanswerable = np.array([truth == 0 for truth in truths], dtype=bool)


def _train(samples: Samples) -> Bools:
    return np.array([split == TRAIN for split in samples.values("split")], dtype=bool)


def _rows_with_features(features_seen: Any) -> Bools:
    visible: Bools = np.ones(len(features_seen), dtype=bool) if features_seen.ndim == 1 else ~np.isnan(features_seen[:, 0])
    return visible


def _joined(parts: Sequence[Any]) -> Any:
    return np.concatenate(parts) if parts else np.empty(0, dtype=object)


def _refuser(samples: Samples, features_seen: Any, pool: _Pool, scored: Bools, seed: int, classifier: Classifier) -> RefuserPredictions:
    unanswerable, visible = samples.answerable == 0, _rows_with_features(features_seen)
    probability, everything = np.full(samples.n, np.nan), np.flatnonzero(visible)
    if not len(everything):
        return RefuserPredictions(probability, 0, IN_TURN, "no row has an image")
    own = np.flatnonzero(_train(samples) & visible)
    if not why_too_few(unanswerable[own]):
        probability[everything] = classifier(features_seen, unanswerable)(own, everything)
        return RefuserPredictions(probability, len(own), OWN)
    if not why_too_few(pool.unanswerable):
        n_pool = len(pool.unanswerable)
        both = np.concatenate([pool.unanswerable, unanswerable])
        probability[everything] = classifier(_joined([pool.seen, features_seen]), both)(np.arange(n_pool), n_pool + everything)
        return RefuserPredictions(probability, n_pool, POOLED)
    rows, fitted = np.flatnonzero(scored & visible), classifier(features_seen, unanswerable)
    probability[rows], why = cross_fitted(
        samples.groups[rows], unanswerable[rows], lambda learn, tell: fitted(rows[learn], rows[tell]), seed
    )
    return RefuserPredictions(probability, 0 if why else len(rows), IN_TURN, why)
