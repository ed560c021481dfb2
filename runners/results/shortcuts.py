"""Shortcuts of a dataset: how well the question alone, or the image alone, predicts answerability.

A model that scores no better than these classifiers need not have looked. They learn from the split `train` and are tested on the rows
that would be scored; without a train split they are cross-fitted over groups. Each category has its own classifier, so that a word with
opposite meanings in two categories is found too.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from qualm.registry.text import one_line
from qualm.runners.data.aligned import Floats, Ints, Samples, read_samples
from qualm.runners.data.dataset import BrokenSampleError, DatasetFolder
from qualm.runners.data.splits import TEST, TRAIN
from qualm.runners.data.statistics import ALL, category_name
from qualm.runners.results.blind_classifiers import (
    TOO_FEW,
    Bools,
    Fitted,
    cross_fitted,
    image_classifier,
    picture_features,
    predicts_unanswerable,
    question_classifier,
    why_too_few,
)
from qualm.runners.runtime.precision import round_result
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.limits import effective_units
from qualm.runners.scoring.measuring.intervals import intervals
from qualm.runners.scoring.measuring.measured import Measured

LIMIT = 0.55
"""A category has a shortcut if the whole interval of a balanced accuracy is above this."""
LEVEL, RESAMPLES = 0.95, 1000
MAX_PICTURES = 2000
"""Greatest number of distinct images read for training, and for testing, drawn by their names."""
NOTHING, QUESTION, PICTURE = "nothing", "question", "picture"
SEES = (NOTHING, QUESTION, PICTURE)
WORDS = {QUESTION: "question", PICTURE: "image"}
"""Inputs of a classifier; with none it predicts the majority class."""


@dataclass(frozen=True)
class TrainTestRows:
    """Training and test row indices; equal if `in_turn` (cross-fitted)."""

    learn: Ints
    tell: Ints
    in_turn: bool

    def select(self, mask: Bools) -> TrainTestRows:
        return TrainTestRows(self.learn[mask[self.learn]], self.tell[mask[self.tell]], self.in_turn)


def has_both_classes(samples: Samples) -> bool:
    """Return true if a dataset has both answerable and unanswerable questions."""
    return bool(0 < samples.answerable.sum() < samples.n)


def measure_shortcuts(name: str, folder: Path) -> list[dict[str, Any]]:
    """Train classifiers on a dataset folder; return rows of SHORTCUTS, [] if of one class."""
    samples = read_samples(name, folder)
    return list(shortcuts(samples, partial(image_features, DatasetFolder(name, folder)))) if has_both_classes(samples) else []


def shortcuts(samples: Samples, features: Callable[[Ints], Floats], seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield rows of SHORTCUTS: per category, then over all, one per classifier input (SEES).

    `features` gives the image features of rows, (n, m), NaN where a row has none.
    """
    unanswerable, questions, rows = samples.answerable == 0, questions_of(samples), train_test_rows(samples)
    table = sampled_image_features(samples, rows, features)
    fitted: dict[str, Fitted] = {
        NOTHING: partial(_share, unanswerable),
        QUESTION: question_classifier(questions, unanswerable),
        PICTURE: image_classifier(table, unanswerable, seed),
    }
    names = np.array([category_name(c) for c in samples.values("category")], dtype=object)
    categories = sorted(set(names)) if len(set(names)) > 1 else []
    for category in (*categories, ALL):
        inside = np.ones(samples.n, dtype=bool) if category == ALL else names == category
        for sees in SEES:
            chosen = rows.select(inside & ~np.isnan(table[:, 0]) if sees == PICTURE else inside)
            taught = {questions[i] for i in chosen.learn}
            has_train = sees == QUESTION and not chosen.in_turn and len(chosen.tell) > 0
            yield {
                "category": category,
                "sees": sees,
                "repeated": round_result(float(np.mean([questions[i] in taught for i in chosen.tell]))) if has_train else None,
                **_accuracies(samples, chosen, sees, unanswerable, fitted[sees], seed, category),
            }


def with_design(rows: Iterable[Mapping[str, Any]], samples: Samples) -> list[dict[str, Any]]:
    """Return the rows with `even`: True if each test input is as often answerable as not.

    A classifier of that input alone is then right exactly half of the time.
    """
    columns: dict[str, Sequence[Any]] = {QUESTION: questions_of(samples), PICTURE: samples.values("image_id")}
    names, unanswerable, tell = samples.values("category"), samples.answerable == 0, train_test_rows(samples).tell
    lead: Counter[tuple[str, str, str]] = Counter()
    for i in tell:
        for sees, values in columns.items():
            if values[i] is not None:
                for category in (category_name(names[i]), ALL):
                    lead[category, sees, values[i]] += 1 if unanswerable[i] else -1
    present = {key[:2] for key in lead}
    uneven = {key[:2] for key, n in lead.items() if n}
    return [{**row, "even": (row["category"], row["sees"]) in present - uneven} for row in rows]


def questions_of(samples: Samples) -> list[str]:
    """Return each question's text with its options, one per line."""
    columns = zip(samples.table["question"].to_pylist(), samples.table["choices"].to_pylist(), strict=True)
    return ["\n".join([question or "", *(choices or ())]) for question, choices in columns]


def train_test_rows(samples: Samples) -> TrainTestRows:
    """Return rows of splits train and test (else all but train); the same if one is empty."""
    split = np.array([s or "" for s in samples.values("split")], dtype=object)
    train = split == TRAIN
    scored = split == TEST if (split == TEST).any() else ~train
    if train.any() and scored.any():
        return TrainTestRows(np.flatnonzero(train), np.flatnonzero(scored), False)
    rows = np.flatnonzero(scored if scored.any() else train)
    return TrainTestRows(rows, rows, True)


def _share(unanswerable: Bools, learn: Ints, tell: Ints) -> Floats:
    return np.full(len(tell), unanswerable[learn].mean())


def _accuracies(
    samples: Samples, rows: TrainTestRows, sees: str, unanswerable: Bools, fitted: Fitted, seed: int, category: str
) -> dict[str, Any]:
    truth, groups = unanswerable[rows.tell], samples.groups[rows.tell]
    counts = {"n_learnt": len(rows.learn), "n": len(rows.tell), "in_turn": rows.in_turn}
    probability, why = _probability(rows, sees, unanswerable, groups, fitted, seed)
    if why:
        return counts | _number("", None) | _number("balanced_", None) | {"why": why, "above_limit": None}
    right = (predicts_unanswerable(probability) == truth).astype(np.float64)
    bootstrap = Bootstrap(groups, RESAMPLES, seed, samples.name, category)
    plain = _mean_of_shares(bootstrap, right, [np.ones(len(truth), dtype=bool)])
    if truth.all() or not truth.any():
        why = f"one class only: all {len(truth):,} rows to tell of are {'un' * bool(truth.all())}answerable"
        return counts | _number("", plain) | _number("balanced_", None) | {"why": why, "above_limit": None}
    balanced = _number("balanced_", _mean_of_shares(bootstrap, right, [truth, ~truth]))
    low = balanced["balanced_low"]
    return counts | _number("", plain) | balanced | {"why": None, "above_limit": None if low is None else low > LIMIT}


def _probability(rows: TrainTestRows, sees: str, unanswerable: Bools, groups: Ints, fitted: Fitted, seed: int) -> tuple[Floats, str]:
    if not len(rows.tell) or not len(rows.learn):
        what = "rows with an image" if sees == PICTURE else "rows"
        return np.empty(0), f"no {what} to {'tell of' if len(rows.learn) else 'learn from'}"
    if sees != NOTHING and (why := why_too_few(unanswerable[rows.learn])):
        return np.empty(0), why
    if not rows.in_turn or sees == NOTHING:
        return fitted(rows.learn, rows.tell), ""

    def within(learn: Ints, tell: Ints) -> Floats:
        return fitted(rows.learn[learn], rows.learn[tell])

    return cross_fitted(groups, unanswerable[rows.learn], within, seed)


def _mean_of_shares(bootstrap: Bootstrap, right: Floats, classes: list[Bools]) -> Measured:
    """Return the mean share of `right` over `classes` (row masks), also in each resample."""

    def mean(counts: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            shares = [counts @ np.bincount(group, right * of, width) / (counts @ np.bincount(group, of, width)) for of in classes]
        return np.asarray(np.mean(shares, axis=0))

    group, width = bootstrap.group, bootstrap.groups
    resampled, deleted = (np.concatenate([mean(block.counts) for block in of]) for of in (bootstrap.blocks(), bootstrap.deletions()))
    units = min(effective_units(group[of]) for of in classes)
    value = float(mean(np.ones((1, width)))[0])
    return Measured(value, resampled, len(right), 0, method="proportion", groups=width, units=units, deleted=deleted)


def _number(of: str, measured: Measured | None) -> dict[str, float | None]:
    if measured is None:
        return {f"{of}accuracy": None, f"{of}low": None, f"{of}high": None}
    assert measured.groups is not None
    ends = intervals([measured], LEVEL, measured.groups)[0]
    low, high = (None if np.isnan(end) else end for end in (ends.low, ends.high))
    return {f"{of}accuracy": round_result(measured.value), f"{of}low": low, f"{of}high": high}


def sampled_image_features(
    samples: Samples, rows: TrainTestRows, features: Callable[[Ints], Floats], all_test_images: bool = False
) -> Floats:
    """Return (n, m) features, NaN but for MAX_PICTURES of train and of test, or all of test."""
    images = samples.values("image_id")
    chosen = np.zeros(samples.n, dtype=bool)
    for side, most in ((rows.learn, MAX_PICTURES), (rows.tell, None if all_test_images else MAX_PICTURES)):
        names = {name for i in side if (name := images[i]) is not None}
        drawn = set(sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())[:most])
        chosen[[i for i in side if images[i] in drawn]] = True
    places = np.flatnonzero(chosen)
    if not len(places):
        return np.full((samples.n, 1), np.nan)
    columns_of_pictures = features(places)
    table = np.full((samples.n, columns_of_pictures.shape[1]), np.nan)
    table[places] = columns_of_pictures
    return table


def image_features(dataset: DatasetFolder, rows: Ints) -> Floats:
    """Return the rows' image features (mean of several images), (n, m); NaN if unreadable."""
    by_image: dict[str, Floats] = {}
    for row in rows:
        name = dataset.samples[row]["image_id"]
        if name not in by_image:
            try:
                images = dataset.item(int(row)).images()
            except BrokenSampleError:
                images = ()
            by_image[name] = np.mean([picture_features(image) for image in images], axis=0) if images else np.full(1, np.nan)
    width = max(map(len, by_image.values()))
    taken = [by_image[dataset.samples[row]["image_id"]] for row in rows]
    return np.stack([values if len(values) == width else np.full(width, np.nan) for values in taken])


def describe_shortcuts(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each shortcut: a balanced accuracy whose interval is above LIMIT."""
    return [
        f"{_named(row['category'])}: a classifier of the {WORDS[row['sees']]} alone separates answerable from unanswerable questions with "
        f"a balanced accuracy of {row['balanced_accuracy']:.3f} ({row['balanced_low']:.3f} to {row['balanced_high']:.3f})"
        for row in rows
        if row["above_limit"]
    ]


def describe_undecided(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a sentence per category with too few questions to find or exclude a shortcut."""
    undecided: dict[str, list[str]] = {}
    for row in rows:
        if row["sees"] != NOTHING and not row.get("even") and (_undecided(row) or (row["why"] or "").startswith(TOO_FEW)):
            undecided.setdefault(row["category"], []).append(row["sees"])
    return [
        f"{_named(category)}: too few questions to test whether the {' or the '.join(map(WORDS.__getitem__, sees))} alone reveals "
        "which are answerable"
        for category, sees in undecided.items()
    ]


def _named(category: str) -> str:
    if not category:
        return "questions without a category"
    return "all categories together" if category == ALL else f"category '{one_line(category)}'"


def _undecided(row: Mapping[str, Any]) -> bool:
    low, high = row["balanced_low"], row["balanced_high"]
    return row["balanced_accuracy"] is not None and (low is None or bool(low <= LIMIT < high))


HEADER = ("category", "questions", "seen in train", "nothing", "question alone", "image alone")
NOTE = (
    "How well a classifier separates answerable from unanswerable questions without input, from the question alone, or from the image "
    "alone. Nothing: accuracy of always choosing the more frequent class. Question or image: balanced accuracy with its interval (none "
    "beside =); 0.5 is chance. Each category's classifiers were trained on that category. * = a shortcut: the interval lies above "
    f"{LIMIT}. ? = too few questions to decide: the interval contains {LIMIT}, or there is none. = by design: each question, or image, "
    f"occurs equally often in answerable and unanswerable samples. No mark: the interval lies below {LIMIT}. Seen in train: share of "
    "questions that also occur in the training split, in the same category, word for word."
)


def format_cells(rows: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """Return one list of cells (under HEADER) per category of `with_design` rows, unescaped."""
    by_category: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        by_category.setdefault(row["category"], {})[row["sees"]] = row
    return [_line(category, of) for category, of in by_category.items()]


def _line(category: str, of: Mapping[str, Mapping[str, Any]]) -> list[str]:
    question, nothing = of[QUESTION], of[NOTHING]
    repeated = "–" if question["repeated"] is None else f"{100 * question['repeated']:.1f}%"
    majority = "undefined" if nothing["accuracy"] is None else f"{nothing['accuracy']:.3f}"
    return [category or "(none)", f"{question['n']:,}", repeated, majority, _cell(question), _cell(of[PICTURE], question["n"])]


def _cell(row: Mapping[str, Any], n: int | None = None) -> str:
    if row["balanced_accuracy"] is None:
        return f"undefined: {row['why']}"
    of = f", n = {row['n']:,}" if n is not None and n != row["n"] else ""
    if row.get("even"):
        return f"{row['balanced_accuracy']:.3f} ={of}"
    ends = "no interval" if row["balanced_low"] is None else f"{row['balanced_low']:.3f} to {row['balanced_high']:.3f}"
    mark = " *" if row["above_limit"] else " ?" if _undecided(row) else ""
    return f"{row['balanced_accuracy']:.3f} ({ends}){mark}{of}"
