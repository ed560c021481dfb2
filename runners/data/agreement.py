"""Agreement of reviewers: Wilson's interval, raw agreement and three chance-corrected coefficients.

Undefined values are None, never 0 or 1: chance-corrected agreement does not exist if all reviewers always gave one label.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeVar

T = TypeVar("T")
MIN_ITEMS, MAX_BLOCKS = 5, 200
"""Items without which there is no interval, and parts into which more items are divided."""
Votes = Sequence[Sequence[str]]
"""Per item, one label by each of its raters."""


def wilson(successes: int, n: int, level: float = 0.95) -> tuple[float, float] | None:
    """Return Wilson's (low, high) interval of the share successes / n; None for n = 0.

    ValueError unless 0 <= successes <= n.

    (p + z²/2n ± z·sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n), within [0, 1]. Items are assumed independent.
    (Wilson, "Probable inference, the law of succession, and statistical inference", JASA 1927)
    """
    if not 0 <= successes <= n:
        raise ValueError(f"expected 0 <= successes <= n, got {successes} of {n}")
    if n == 0:
        return None
    from statistics import NormalDist

    z = NormalDist().inv_cdf(0.5 + level / 2)
    p = successes / n
    middle = p + z * z / (2 * n)
    spread = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def raw_agreement(votes: Votes) -> float | None:
    """Return the share of agreeing rater pairs (0..1), mean over items; None without pairs."""
    shares = [_agreeing(v) for v in votes if len(v) > 1]
    return sum(shares) / len(shares) if shares else None


def _agreeing(labels: Sequence[str]) -> float:
    n = len(labels)
    return sum(c * (c - 1) for c in Counter(labels).values()) / (n * (n - 1))


def cohen_kappa(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Return Cohen's kappa, (p_o - p_e) / (1 - p_e); None without items or if p_e = 1.

    ValueError if the raters have different numbers of labels.

    0 is agreement as by chance. p_e is from each rater's own shares; it is 1 if both always gave the same label.
    (Cohen, "A coefficient of agreement for nominal scales", 1960)
    """
    if len(first) != len(second):
        raise ValueError(f"expected one label of each rater per item, got {len(first)} and {len(second)}")
    n = len(first)
    if n == 0:
        return None
    a, b = Counter(first), Counter(second)
    by_chance = sum(a[label] * b[label] for label in a) / (n * n)
    observed = sum(x == y for x, y in zip(first, second, strict=True)) / n
    return None if math.isclose(by_chance, 1.0) else (observed - by_chance) / (1 - by_chance)


def fleiss_kappa(votes: Votes) -> float | None:
    """Return Fleiss' kappa; None without items, with < 2 labels each, or one label only.

    Every item must have equally many labels, else ValueError.
    (Fleiss, "Measuring nominal scale agreement among many raters", 1971)
    """
    sizes = {len(v) for v in votes}
    if len(sizes) > 1:
        raise ValueError(f"expected equally many labels for every item, got {min(sizes)} to {max(sizes)}")
    if not votes or min(sizes) < 2:
        return None
    pooled = Counter(label for v in votes for label in v)
    total = sum(pooled.values())
    by_chance = sum((c / total) ** 2 for c in pooled.values())
    observed = sum(_agreeing(v) for v in votes) / len(votes)
    return None if math.isclose(by_chance, 1.0) else (observed - by_chance) / (1 - by_chance)


def krippendorff_alpha(votes: Votes) -> float | None:
    """Return Krippendorff's nominal alpha, 1 - D_o / D_e; None if no two labels differ.

    Items may have any number of raters; those with one label are left out. Disagreeing ordered pairs within an item of m_u labels weigh
    1/(m_u - 1) each (D_o), and are compared with those among all pairable labels (D_e). None if only one label occurs.
    (Krippendorff, "Content Analysis", 4th edition, chapter 12)
    """
    pairable = [v for v in votes if len(v) > 1]
    pooled = Counter(label for v in pairable for label in v)
    n = sum(pooled.values())
    expected = sum(a * b for a, b in combinations(pooled.values(), 2))
    if not expected:
        return None
    observed = 0.0
    for labels in pairable:
        observed += sum(a * b for a, b in combinations(Counter(labels).values(), 2)) / (len(labels) - 1)
    return 1 - (n - 1) * observed / expected


def jackknife(statistic: Callable[[list[T]], float | None], items: Sequence[T], level: float = 0.95) -> tuple[float, float] | None:
    """Return a coefficient's jackknife interval; None if undefined, constant or < 5 items.

    Each item, or with more than 200 items each 200th part of them, is left out in turn (Efron and Tibshirani, 1993, chapter 11). Ends are
    clipped to [-1, 1]. None with fewer than five items, where the coefficient is undefined with or without one of them, and where it is
    the same without any: nothing then tells how far it varies.
    """
    from scipy.special import stdtrit

    blocks = min(len(items), MAX_BLOCKS)
    value = statistic(list(items))
    if blocks < MIN_ITEMS or value is None:
        return None
    without = [statistic([item for k, item in enumerate(items) if k % blocks != block]) for block in range(blocks)]
    defined = [other for other in without if other is not None]
    if len(defined) < blocks:
        return None
    mean = sum(defined) / blocks
    error = math.sqrt((blocks - 1) / blocks * sum((other - mean) ** 2 for other in defined))
    reach = float(stdtrit(blocks - 1, 0.5 + level / 2)) * error
    return (max(-1.0, value - reach), min(1.0, value + reach)) if error > 1e-12 else None
