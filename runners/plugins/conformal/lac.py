"""Least ambiguous set-valued classifiers with bounded error levels. Sadinle, Lei, Wasserman, 2019 (JASA)."""

import numpy as np

from qualm.runners.contracts.grouped_weights import Floats

CITES = ["sadinle2019least"]


def lac(probs: Floats) -> Floats:
    """Return (n, K) scores: 1 minus the option's probability (least ambiguous classifier).

    S(x, y) = 1 - p_y. Sets of the smallest mean size for a given coverage; may be empty where no option is likely.
    Higher = fits worse; range [0, 1]. In double precision whatever `probs` are in, so that S <= q is p >= 1 - q to the last bit.

    Args:
        probs: (n, K), NaN beyond a question's last option.
    """
    return 1.0 - probs.astype(np.float64)
