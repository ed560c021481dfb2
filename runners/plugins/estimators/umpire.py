"""UMPIRE: the spread of the sampled answers in the model's own embedding space, and their improbability (Lau et al., 2026)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt

from qualm.runners.contracts.estimators import Draws, Floats

CITES = ["lau2026umpire"]
NEEDS = {"states": "draw_hidden_states/{layer}/{place}", "draw_logprobs": "draw_logprobs"}


def umpire(
    states: Draws,
    draw_logprobs: Draws,
    *,
    layer: float | str = "last",
    place: Literal["answer_last", "answer_mean"] = "answer_last",
    alpha: Annotated[float, Ge(0)] = 1.0,
    jitter: Annotated[float, Gt(0)] = 1e-8,
    length_normalised: bool = False,
) -> Floats:
    """Return each question's semantic volume of sampled answers plus their improbability.

    U = (1/2N) ln det(Φ Φᵀ + ε I) + α (1/N) Σᵢ (1 − pᵢ). Row i of Φ is the hidden state of draw i, scaled to length 1; pᵢ is the
    probability of its tokens at temperature 1, end of sequence included. Higher = more uncertain; the first term is at most about 0 and
    falls by ½ ln ε / N with each draw that repeats another, the second lies in [0, α]. The paper sets α to the ratio of the two terms'
    medians over unlabelled questions (its code: over a tenth of the dataset); here it is a number, so that a value depends on its own
    question alone. Undefined where no token of a draw was read.

    Example: states (1, 0) and (3, 4) with probabilities .5 and .25 have Φ Φᵀ = (1, .6; .6, 1), so U = ¼ ln .64 + .625 = .513428.

    Args:
        layer: `middle`, `last`, its number (0: the embeddings; negative: from the end) or a share of the depth. The code: last.
        place: the state of the last token of a draw that is read (the end of sequence is not), or the mean over its tokens.
        alpha: Weight of incoherence.
        jitter: ε, which keeps the determinant of equal draws above 0.
        length_normalised: take each probability's geometric mean over tokens.
    """
    pairs = zip(states, draw_logprobs, strict=True)
    return np.array([_value(own, rows, alpha, jitter, length_normalised) for own, rows in pairs], dtype=np.float64)


def _value(states: list[Floats], logprobs: list[Floats], alpha: float, jitter: float, normalised: bool) -> float:
    if not states or not all(map(len, logprobs)):
        return float("nan")
    embeddings = np.stack(states)
    lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
    if not lengths.all():
        return float("nan")
    sign, volume = np.linalg.slogdet((kernel := embeddings / lengths) @ kernel.T + jitter * np.eye(len(states)))
    probabilities = np.exp([row.mean() if normalised else row.sum() for row in logprobs])
    return float(volume / (2 * len(states)) + alpha * (1 - probabilities).mean()) if sign > 0 else float("nan")
