"""EigenScore: the volume of the sampled answers in the model's own embedding space (Chen et al., ICLR 2024, equations 5 and 6)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt

from qualm.runners.contracts.estimators import Draws, Floats

CITES = ["chen2024inside"]
NEEDS = {"states": "draw_hidden_states/{layer}/{place}"}


def eigen_score(
    states: Draws,
    *,
    layer: float | str = "middle",
    place: Literal["answer_last", "answer_mean"] = "answer_last",
    alpha: Annotated[float, Gt(0)] = 0.001,
    form: Literal["paper", "code"] = "paper",
) -> Floats:
    """Return each question's log-volume of the hidden states of its sampled answers.

    U = (1/N) ln det(Σ + α I), Σ = Z J Zᵀ, with a row of Z for each of the N draws (a hidden state of d units) and J = I − 11ᵀ/d, which
    subtracts from each state its mean over units. Higher = more uncertain; from ln α (all states are constant) up, no unit. `code` divides
    Σ by d − 1 and takes log10, as the authors' code does. Equal draws have equal states, and each repetition lowers the score by its α.
    Undefined where no token of a draw was read. Made in 2024 for sentences of text; no part of it is about the image.

    Example: states (1, −1) and (0, 2) have Σ = (2, −2; −2, 2), so with α = 1 det(Σ + I) = 5 and U = .804719; by `code` .349485.

    Args:
        layer: `middle`, `last`, its number (0: the embeddings; negative: from the end) or a share of the depth. The paper: middle.
        place: the state of the last token of a draw that is read (the end of sequence is not), or the mean over its tokens.
        alpha: Added to every eigenvalue, so that every logarithm is finite.
        form: The paper's formula, or its code's.
    """
    values = [_log_volume(np.stack(draws), alpha, form) if draws else np.nan for draws in states]
    return np.array(values, dtype=np.float64)


def _log_volume(states: Floats, alpha: float, form: str) -> float:
    centred = states - states.mean(axis=1, keepdims=True)
    spread = centred @ centred.T / (max(1, states.shape[1] - 1) if form == "code" else 1)
    sign, logdet = np.linalg.slogdet(spread + alpha * np.eye(len(states)))
    value = logdet / len(states) if sign > 0 else np.nan
    return float(value / np.log(10) if form == "code" else value)
