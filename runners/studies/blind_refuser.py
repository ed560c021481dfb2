"""The blind refuser: a classifier that sees the question alone says which questions have no answer, for every sample of a spec's data sets.

In front of a model it is the floor under everything that teaches the model to decline: what does no better has not been shown to look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qualm.runners.data.aligned import Floats, Samples
from qualm.runners.data.splits import TRAIN
from qualm.runners.studies.blind_classifiers import Bools, cross_fitted, of_questions, too_few
from qualm.runners.studies.shortcuts import questions_of

OWN, POOLED, IN_TURN = "train", "train of others", "in turn"


@dataclass(frozen=True)
class Refuser:
    """What the classifier says of one data set's questions."""

    probability: Floats
    """(n,) that each is unanswerable; NaN where it has no say."""
    n_learnt: int
    learnt: str
    """From what: OWN, POOLED or IN_TURN."""
    why: str = ""
    """Why it has no say at all."""


def refusers(sets: Mapping[str, Samples], scored: Mapping[str, Bools], seed: int) -> dict[str, Refuser]:
    """Of every data set.

    It has learnt from the data set's own rows of `train`; where they do not have both classes, from those of all data sets
    together; where these do not either, one fifth of the scored groups is told of after another, by what the others teach.

    Args:
        sets: all rows of each data set, by name.
        scored: (n,) which of them are scored.
        seed: of the deal of groups into folds.
    """
    pool = _Pool(sets)
    return {name: _refuser(samples, pool, scored[name], seed) for name, samples in sets.items()}


class _Pool:
    """The train rows of all data sets."""

    def __init__(self, sets: Mapping[str, Samples]) -> None:
        chosen = {name: _train(samples) for name, samples in sets.items()}
        self.questions = [q for name, samples in sets.items() for q, mine in zip(questions_of(samples), chosen[name], strict=True) if mine]
        truths = (truth for name, samples in sets.items() for truth in samples.answerable[chosen[name]])
        self.unanswerable = np.array([truth == 0 for truth in truths], dtype=bool)


def _train(samples: Samples) -> Bools:
    return np.array([split == TRAIN for split in samples.values("split")], dtype=bool)


def _refuser(samples: Samples, pool: _Pool, scored: Bools, seed: int) -> Refuser:
    questions, unanswerable, everything = questions_of(samples), samples.answerable == 0, np.arange(samples.n)
    own = np.flatnonzero(_train(samples))
    if not too_few(unanswerable[own]):
        return Refuser(of_questions(questions, unanswerable)(own, everything), len(own), OWN)
    if not too_few(pool.unanswerable):
        n_pool = len(pool.questions)
        both = np.concatenate([pool.unanswerable, unanswerable])
        refusals = of_questions([*pool.questions, *questions], both)(np.arange(n_pool), n_pool + everything)
        return Refuser(refusals, n_pool, POOLED)
    rows = np.flatnonzero(scored)
    probability, fitted = np.full(samples.n, np.nan), of_questions(questions, unanswerable)
    probability[rows], why = cross_fitted(
        samples.groups[rows], unanswerable[rows], lambda learn, tell: fitted(rows[learn], rows[tell]), seed
    )
    return Refuser(probability, 0 if why else len(rows), IN_TURN, why)
