"""Adaptive prediction sets in their original, randomised form. Romano, Sesia, Candes, 2020 (NeurIPS)."""

from qualm.runners.contracts.grouped_weights import Floats
from qualm.runners.plugins.conformal.raps import raps

CITES = ["romano2020classification"]
ALSO_KNOWN_AS = ["aps_random", "randomized_aps", "aps_randomized"]


def aps_randomised(probs: Floats, uniform: Floats) -> Floats:
    """Return (n, K) sums of likelier options' probabilities plus `uniform` times this one's.

    S(x, y) = mass of p_j > p_y + u p_y. Higher = fits worse; range [0, 1]. `aps` counts all of p_y, which covers more than 1 - alpha asks
    for where options are few; this one comes near 1 - alpha, with smaller sets, which can be empty (`empty_set`). The guarantee is that of
    every split: at least 1 - alpha on average over calibration and test questions (and u) that are exchangeable. u is drawn once for
    every question, from its name and the setting's seed.

    Args:
        probs: (n, K), NaN beyond a question's last option.
        uniform: (n,) u, in [0, 1).
    """
    return raps(probs, uniform, penalty=0.0)
