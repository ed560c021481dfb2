"""Kernel language entropy (Nikitin et al., NeurIPS 2024)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import EstimatorContext, Floats, Texts
from qualm.runners.inference.nli import CONTRADICTION, ENTAILMENT, probabilities
from qualm.runners.plugins.estimators._likeness import infer_all_pairs

CITES = ["nikitin2024kernel"]
NEEDS = ["draw_texts"]


def kernel_language_entropy(
    context: EstimatorContext,
    draw_texts: Texts,
    *,
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
    kernel: Literal["heat", "matern"] = "heat",
    t: Annotated[float, Gt(0)] = 0.3,
    nu: Annotated[float, Gt(0)] = 1.0,
    kappa: Annotated[float, Gt(0)] = 1.0,
    weights: Literal["likeliest", "probability"] = "likeliest",
) -> Floats:
    """Return each question's von Neumann entropy, in nats, of its sampled answers' meanings.

    Two draws are joined with weight W_ij = w(i, j) + w(j, i), w = 1 for entailment, 1/2 for neutral, 0 for contradiction. From the graph's
    Laplacian L = D - W a kernel is made, K = exp(-t L) (`heat`) or (2 nu / kappa^2 + L)^-nu (`matern`), scaled to
    K_ij / (N sqrt(K_ii K_jj)), and U = -sum lambda ln lambda over its eigenvalues (von Neumann entropy), in nats, from about 0 (all draws
    joined) to ln N (none joined), higher = more uncertain. LM-Polygraph divides it by ln N, which ranks alike. Undefined with fewer than
    two draws.

    Example: "red", "red", "blue" give .997216 with the heat kernel, 1.011404 with Matern's.

    Args:
        nli: NLI model for entailment.
        kernel: `heat` or `matern`.
        t: of the heat kernel, how far likeness spreads; .3 as in LM-Polygraph.
        nu: smoothness of the Matern kernel.
        kappa: length scale of the Matern kernel.
        weights: w of the `likeliest` class, as in the paper, or its mean over the `probability` of each, as in LM-Polygraph.
    """
    values = []
    for logits in infer_all_pairs(context.nli(nli), draw_texts):
        if len(logits) < 2:
            values.append(float("nan"))
            continue
        shares = probabilities(logits) if weights == "probability" else np.eye(3)[logits.argmax(axis=-1)]
        one_way = 0.5 + (shares[..., ENTAILMENT] - shares[..., CONTRADICTION]) / 2
        values.append(von_neumann(_kernel(one_way + one_way.T, kernel, t, nu, kappa)))
    return np.array(values, dtype=np.float64)


def _kernel(weights: Floats, kernel: str, t: float, nu: float, kappa: float) -> Floats:
    values, vectors = np.linalg.eigh(np.diag(weights.sum(axis=1)) - weights)  # what joins a draw to itself cancels out
    values = np.maximum(values, 0.0)
    powers = np.exp(-t * values) if kernel == "heat" else (2 * nu / kappa**2 + values) ** -nu
    matrix: Floats = (vectors * powers) @ vectors.T
    return matrix


def von_neumann(kernel: Floats) -> float:
    """Compute the entropy in nats of the eigenvalues of a kernel, its diagonal scaled to 1/n.

    >>> round(von_neumann(np.eye(4)), 6)
    1.386294
    """
    scale = np.sqrt(np.diag(kernel))
    values = np.linalg.eigvalsh(kernel / np.outer(scale, scale) / len(kernel))
    values = values[values > 1e-12]
    return float(-(values * np.log(values)).sum() + 0.0)
