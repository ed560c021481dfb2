"""Blind refusers: classifiers that see only the question, or only the image, and say which questions are unanswerable.

They are the baseline for methods that teach a model to abstain. A model that is no better than the text-only refuser need not look at the
image; one that is no better than the image-only refuser may have learnt traces of image editing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from qualm.registry import BLIND
from qualm.registry.sample import ABSTENTIONS
from qualm.runners.data.aligned import Floats, Ints, Samples, read_samples
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.data.splits import TRAIN, scored_rows
from qualm.runners.results.blind_classifiers import (
    Bools,
    Fitted,
    cross_fitted,
    image_classifier,
    predicts_unanswerable,
    question_classifier,
    why_too_few,
)
from qualm.runners.results.shortcuts import TrainTestRows, image_features, questions_of, sampled_image_features
from qualm.runners.runtime.records import make_table
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.apply_abstention import ALL, Outcome
from qualm.runners.scoring.cells import Cell

OWN, POOLED, IN_TURN = "train", "train of others", "in turn"
SEED = 0
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


class BlindRefuser:
    """A text-only or image-only classifier put in front of models, to abstain for them."""

    def __init__(self, stage: Stage, way: str) -> None:
        """Train a refuser per dataset with open questions, if models are named for `way` of BLIND."""
        self.stage, self.way, self.method = stage, way, BLIND[way]
        self.name = self.method.replace("_", " ")
        self.models = frozenset(stage.params.get(self.method, ()))
        self._refusers: dict[str, RefuserPredictions] = {}
        if self.models:
            sets = {name: read_samples(name, folder) for name, folder in sorted(stage.inputs["datasets"].items())}
            sets = {name: samples for name, samples in sets.items() if not samples.n_options.all()}
            scored = {name: scored_rows(stage, samples) for name, samples in sets.items()}
            self._refusers = predict_refusals(sets, scored, self._features(sets) if way == "picture_refuser" else None)

    def _features(self, names: Iterable[str]) -> dict[str, Callable[[Ints], Floats]]:
        folders = self.stage.inputs["datasets"]
        return {name: partial(image_features, DatasetFolder(name, Path(folders[name]))) for name in names}

    def check(self) -> None:
        """Raise StageError if no dataset has a trained classifier; else count those without."""
        silent = {name: r.why for name, r in self._refusers.items() if r.why}
        if self.models and len(silent) == len(self._refusers):
            reasons = "; ".join(f"{name}: {why}" for name, why in silent.items()) or "no dataset has open questions"
            raise StageError(f"{self.name}: there is nothing to learn from ({reasons}); take `{self.way}` out of the spec's `blind:`")
        self.stage.count(**({f"datasets_without_{self.method}": len(silent)} if silent else {}))

    def apply(self, cells: list[Cell], scored: Bools) -> Outcome:
        """Return rule rows and ABSTENTIONS tables; [] if untrained; StageError if unjudged."""
        first, samples = cells[0], cells[0].samples
        refuser = self._refusers[samples.name]
        if refuser.why:
            return [], []
        if any("pred_is_idk" not in cell.columns for cell in cells):
            where = f"{self.name}, model '{first.model}', dataset '{samples.name}'"
            raise StageError(f"{where}: its open answers were not judged; add a judge to the spec")
        counted = scored & (samples.n_options == 0) & ~np.isnan(refuser.probability)
        refuses = predicts_unanswerable(refuser.probability) & counted
        taught_by = {OWN: "the train split", POOLED: "the train splits of other datasets", IN_TURN: "the other groups, in turn"}
        sees = "image" if self.way == "picture_refuser" else "question"
        taught = taught_by[refuser.learnt]
        statement = f"Refuses by the {sees} alone, taught by {taught}; a refusal's confidence is the probability that there is no answer."
        same = {"model": first.model, "dataset": samples.name, "method": self.method}
        numbers = {"threshold": 0.5, "n_fit": refuser.n_learnt, "n_abstained": int(refuses.sum()), "n": int(counted.sum())}
        rule_row = same | numbers | {"part": ALL, "attained": True, "statement": statement, "fit": refuser.learnt}
        return [rule_row], [_refused_table(cell, refuser.probability, self.method) for cell in cells]


def _refused_table(cell: Cell, probability: Floats, method: str) -> pa.Table:
    """Return ABSTENTIONS rows of judged open answers; a refusal has P(unanswerable)."""
    judged = ~np.isnan(cell.columns["pred_is_idk"]) & (cell.samples.n_options == 0)
    rows = np.flatnonzero(judged)
    refuses, unknown = predicts_unanswerable(probability[rows]), np.isnan(probability[rows])
    confidence = np.where(refuses, probability[rows], cell.columns["confidence"][rows])
    columns = {
        "sample_id": cell.samples.ids.take(pa.array(rows)),
        "confidence": pa.array(confidence, mask=np.isnan(confidence)),
        "threshold": pa.array(np.full(len(rows), 0.5)),
        "abstains": pa.array(refuses, mask=unknown),
        "is_fit": pa.array(np.zeros(len(rows), dtype=bool)),
    }
    return make_table(ABSTENTIONS, cell.place | {"method": method}, columns)


def predict_refusals(
    samples_by_dataset: Mapping[str, Samples], scored: Mapping[str, Bools], features: Mapping[str, Callable[[Ints], Floats]] | None = None
) -> dict[str, RefuserPredictions]:
    """Return {dataset: P(unanswerable) of its questions} by a classifier trained for each.

    The classifier is trained on the dataset's own rows of `train`; if these lack a class, on those of all datasets together; if these do
    too, it is cross-fitted over the scored groups. A dataset without enough to learn from has the reason in `why` instead. `features` are
    the image features of given rows, by dataset, for image-only refusers; None for text-only ones.
    """
    if features is None:
        features_seen = {name: np.array(questions_of(samples), dtype=object) for name, samples in samples_by_dataset.items()}
        classifier: Classifier = question_classifier
    else:
        features_seen = {
            name: sampled_image_features(
                s, TrainTestRows(np.flatnonzero(_train(s)), np.flatnonzero(scored[name]), False), features[name], all_test_images=True
            )
            for name, s in samples_by_dataset.items()
        }
        classifier = partial(image_classifier, seed=SEED)
    pool = _Pool(samples_by_dataset, features_seen)
    return {name: _refuser(samples, features_seen[name], pool, scored[name], classifier) for name, samples in samples_by_dataset.items()}


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


def _refuser(samples: Samples, features_seen: Any, pool: _Pool, scored: Bools, classifier: Classifier) -> RefuserPredictions:
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
        samples.groups[rows], unanswerable[rows], lambda learn, tell: fitted(rows[learn], rows[tell]), SEED
    )
    return RefuserPredictions(probability, 0 if why else len(rows), IN_TURN, why)
