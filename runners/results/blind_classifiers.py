"""Classifiers of answerability that see only the question or only the image; their success reveals a shortcut in the dataset.

The question's words are a bag of uni- and bigrams under logistic regression; the image is colours, edges and textures on a
coarse grid under boosted trees, which is enough to detect inpainting. Both are scikit-learn's. Hypothesis-only
baselines: Gururangan et al., 2018; of visual questions Goyal et al., 2017.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from qualm.runners.data.aligned import Floats, Ints

Bools = NDArray[np.bool_]
Fitted = Callable[[Ints, Ints], Floats]
"""Function of training rows and test rows that returns P(unanswerable) of the test rows."""

FOLDS = 5
MIN_ROWS_PER_CLASS = 10
DIGITS = 6
"""Decimals of probabilities, far above the effect of summation order."""
TOO_FEW = "too few"
"""Prefix of a reason that more rows would remove."""
_TOKEN = re.compile(r"\w+|[^\w\s]")
_START = "\x02"
"""Token before every question, so that its first word forms a bigram and no question is empty."""
_SIDE, _GRID = 96, 8
"""Pixels and cells per side of a downscaled image."""


def predicts_unanswerable(probability: Floats) -> Bools:
    """Return (n,) True where P(unanswerable) exceeds 0.5; NaN is False."""
    refusals: Bools = probability > 0.5
    return refusals


def why_too_few(unanswerable: Bools) -> str:
    """Return why rows with these labels are too few for training; "" if they are enough."""
    refuse, answer = int(unanswerable.sum()), int((~unanswerable).sum())
    if not refuse or not answer:
        return f"one class only: all {len(unanswerable):,} rows to learn from are {'un' * (refuse > 0)}answerable"
    few = min(refuse, answer)
    return f"{TOO_FEW}: {few:,} rows of the rarer class to learn from, expected {MIN_ROWS_PER_CLASS}" if few < MIN_ROWS_PER_CLASS else ""


def question_classifier(questions: Sequence[str], unanswerable: Bools) -> Fitted:
    """Return a function of (training rows, test rows) -> P(unanswerable) by question text."""

    def fitted(learn: Ints, tell: Ints) -> Floats:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.linear_model import LogisticRegression
        from threadpoolctl import threadpool_limits

        weight = Counter((questions[i], bool(unanswerable[i])) for i in learn)
        words = CountVectorizer(ngram_range=(1, 2), binary=True, preprocessor=_prepared, tokenizer=_TOKEN.findall, token_pattern=None)
        with threadpool_limits(1, "blas"):
            counts = words.fit_transform([text for text, _ in weight])
            model = LogisticRegression(max_iter=1000).fit(counts, [truth for _, truth in weight], sample_weight=list(weight.values()))
            place_of = {text: place for place, text in enumerate(dict.fromkeys(questions[i] for i in tell))}
            probabilities = model.predict_proba(words.transform(list(place_of)))[:, 1].round(DIGITS)
        return np.array([probabilities[place_of[questions[i]]] for i in tell], dtype=np.float64)

    return fitted


def _prepared(text: str) -> str:
    return f"{_START} {text.lower()}"


def image_classifier(features: Floats, unanswerable: Bools, seed: int) -> Fitted:
    """Return (training, test rows) -> P(unanswerable) by `picture_features` (n, m) or NaN."""

    def fitted(learn: Ints, tell: Ints) -> Floats:
        from sklearn.ensemble import HistGradientBoostingClassifier

        share = float(unanswerable[learn].mean())
        pictures, of = np.unique(features[learn], axis=0, return_inverse=True)
        lead = np.bincount(of.ravel(), np.where(unanswerable[learn], 1.0, -1.0), len(pictures))
        if not lead.any():  # every image stands on both sides as often
            return np.full(len(tell), share)
        trees = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, early_stopping=False, random_state=seed % 2**32)
        trees.fit(features[learn], unanswerable[learn])
        return np.asarray(trees.predict_proba(features[tell])[:, 1].round(DIGITS), dtype=np.float64)

    return fitted


def picture_features(image: PIL.Image.Image) -> Floats:
    """Return one image's feature vector: colours and contrasts of grid cells, histograms."""
    pixels = np.asarray(image.convert("RGB").resize((_SIDE, _SIDE), PIL.Image.Resampling.BILINEAR), dtype=np.float64) / 255
    grey = pixels.mean(axis=2)
    inner = grey[1:-1, 1:-1]
    contrast = np.zeros_like(grey)
    contrast[1:-1, 1:-1] = np.abs(4 * inner - grey[:-2, 1:-1] - grey[2:, 1:-1] - grey[1:-1, :-2] - grey[1:-1, 2:])
    histograms = [np.histogram(pixels[..., c], bins=8, range=(0, 1))[0] / grey.size for c in range(3)]
    cells = (_grid_cells(pixels).mean(axis=(1, 3)), _grid_cells(contrast).mean(axis=(1, 3)), _grid_cells(contrast).min(axis=(1, 3)))
    return np.concatenate([*(c.ravel() for c in cells), *histograms])


def _grid_cells(values: Floats) -> Floats:
    """Split (_SIDE, _SIDE, ...) values by grid cell: (rows, pixels, columns, pixels, ...)."""
    step = _SIDE // _GRID
    return values.reshape(_GRID, step, _GRID, step, *values.shape[2:])


def cross_fitted(groups: Ints, unanswerable: Bools, fitted: Fitted, seed: int) -> tuple[Floats, str]:
    """Return (P(unanswerable) (n,), "") cross-fitted over groups; or (NaN, the reason)."""
    codes, of = np.unique(groups, return_inverse=True)
    nothing = np.full(len(groups), np.nan)
    if len(codes) < FOLDS:
        return nothing, f"{TOO_FEW}: {len(codes)} groups to learn and to tell from in turn, expected {FOLDS}"
    fold = (np.random.default_rng(seed).permutation(len(codes)) % FOLDS)[of]
    probability = nothing.copy()
    for number in range(FOLDS):
        learn, tell = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        if why := why_too_few(unanswerable[learn]):
            return nothing, why
        probability[tell] = fitted(learn, tell)
    return probability, ""
