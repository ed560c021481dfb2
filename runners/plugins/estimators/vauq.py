"""VAUQ: vision-aware uncertainty quantification (Park et al., Findings of ACL 2026).

Seongheon Park, Changdae Oh, Hyeong Kyu Choi, Xuefeng Du, Sharon Li, "VAUQ: Vision-Aware Uncertainty Quantification for LVLM
Self-Evaluation" (arXiv 2602.21054), and its code.
"""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le

from qualm.runners.contracts.estimators import Floats, Rows, means

CITES = ["park2026vauq"]
NEEDS = {"token_entropies": "token_entropies", "information": "image_information/{layers}/{core}"}


def vauq(
    token_entropies: Rows,
    information: Rows,
    *,
    alpha: Annotated[float, Ge(0)] = 0.5,
    core: Annotated[float, Gt(0), Le(1)] = 0.6,
    layers: str = "0.3125:0.78125",
) -> Floats:
    """Return each answer's entropy minus its rise when attended image parts are hidden.

    U = H − α IS with H = (1/T) Σ H(pₜ), IS = (1/T) Σ [H(pₜ | core hidden) − H(pₜ)] for the same tokens; in nats (the code: bits), of any
    sign, higher = more uncertain. The core is the share `core` of the image's tokens with most attention, on average over heads and
    `layers`, while the answer's tokens are predicted. Undefined without an image. The code hides the core in the whole pass, so
    that the image's other tokens do not see it either; here it is hidden from the question and the answer, which alone are read again.
    The code takes the attention of the answer's own tokens; here it is that of the positions that predict them, so one token is enough.

    Example: entropies .4, .2 that grow by .6, .2 have H = .3, IS = .4 and, with α = .5, U = .1.

    Args:
        alpha: Weight of the information score; the paper tunes it for each benchmark: .6, 1.5, .6.
        core: Share of the image's tokens that is hidden; the paper tunes it too: .4, .1, 1.
        layers: `all`, `middle_third`, or FROM:TO, as numbers from 1 or shares of the depth; the code: 11 to 25 of LLaVA-1.5's 32.
    """
    return np.asarray(means(token_entropies) - alpha * means(information), dtype=np.float64)
