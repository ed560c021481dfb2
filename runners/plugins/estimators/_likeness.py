"""Likeness matrices of the sampled answers to one question, which deg_mat, eigenvalue, eccentricity and others read.

Each sample's distinct texts are compared once, all samples together, so that an NLI model sees large batches.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.estimators import EstimatorContext, Floats, Texts
from qualm.runners.inference.nli import CONTRADICTION, ENTAILMENT, CachedNli, probabilities


def likeness(context: EstimatorContext, texts: Texts, similarity: str, nli: Any) -> list[Floats]:
    """Return for each sample an (N, N) matrix of likeness in [0, 1], of answer i to answer j.

    Args:
        similarity: `entailment`: the probability that j follows from i. `contradiction`: 1 minus that of a contradiction. `cosine`: (1 +
            cosine of their embeddings) / 2. `jaccard`: shared words over all words.
        nli: the NLI model or encoder that the spec names; not opened for `jaccard`.
    """
    if similarity == "jaccard":
        return [jaccard(t) for t in texts]
    return [likeness_from_logits(logits, similarity) for logits in infer_all_pairs(context.nli(nli, similarity), texts)]


def likeness_from_logits(logits: Floats, similarity: str) -> Floats:
    """Return the likeness in [0, 1] of pairs of texts, from NLI logits or a cosine.

    Args:
        logits: (..., classes), of an NLI model; for `cosine` (..., 1), of an encoder.
        similarity: see `likeness`.
    """
    if similarity == "cosine":
        return np.asarray((1.0 + logits[..., 0]) / 2, dtype=np.float64)
    shares = probabilities(logits)
    return np.asarray(shares[..., ENTAILMENT] if similarity == "entailment" else 1.0 - shares[..., CONTRADICTION], dtype=np.float64)


def infer_all_pairs(nli: CachedNli, texts: Texts) -> list[Floats]:
    """Return for each sample (N, N, classes) NLI logits: answer i premise, j hypothesis."""
    different = [list(dict.fromkeys(t)) for t in texts]
    logits = nli.logits([(a, b) for d in different for a in d for b in d])
    squares, start = [], 0
    for own, d in zip(texts, different, strict=True):
        square = logits[start : start + len(d) ** 2].reshape(len(d), len(d), logits.shape[1])
        start += len(d) ** 2
        place = index_texts(own, d)
        squares.append(square[np.ix_(place, place)])
    return squares


def index_texts(texts: Sequence[str], different: Sequence[str]) -> NDArray[np.int64]:
    """Return the index of each text in `different`, which holds the distinct texts."""
    number = {text: i for i, text in enumerate(different)}
    return np.array([number[text] for text in texts], dtype=np.int64)


def jaccard(texts: Sequence[str]) -> Floats:
    """Return (N, N) shares of common words, lower-cased; 1 for two texts without words."""
    words = [frozenset(text.lower().split()) for text in texts]
    return np.array([[len(a & b) / len(a | b) if a | b else 1.0 for b in words] for a in words])


def spectrum(likeness: Floats) -> tuple[Floats, Floats]:
    """Return (ascending eigenvalues, eigenvectors) of the normalised Laplacian of `likeness`.

    The Laplacian is I - D^(-1/2) W D^(-1/2).

    W is the likeness averaged over both directions, D its row sums. Eigenvalues are in [0, 2]; the number of zeros is the number of groups
    without any likeness between them.
    """
    weights = (likeness + likeness.T) / 2
    scale = 1.0 / np.sqrt(weights.sum(axis=1))
    values, vectors = np.linalg.eigh(np.eye(len(weights)) - scale[:, None] * weights * scale)
    return values, vectors


def likeness_to(context: EstimatorContext, answers: Sequence[str], texts: Texts, similarity: str, nli: Any) -> list[Floats]:
    """Return per sample (N,) likeness of sampled answers to its answer, mean of both directions.

    Args:
        answers: the answer of each sample.
        texts: the sampled answers.
        similarity: see `likeness`.
        nli: see `likeness`.
    """
    whole = likeness(context, [[answer, *own] for answer, own in zip(answers, texts, strict=True)], similarity, nli)
    return [(w[0, 1:] + w[1:, 0]) / 2 for w in whole]
